"""As many random layouts as the project promises are resharded in full in every run of the tests:
2,000 over the threads of one process, 200 over MPI, inside the time of the level."""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/app"))
import program  # pylint: disable=wrong-import-position

RESHARD = "law.Reshard.equals_the_conversion_of_the_slice"
LOCAL_LAYOUTS = 2000
SENT_LAYOUTS = 200
CORES = 2
SECONDS = 180


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class CiLevelTest(unittest.TestCase):
    def run_all(self, name, command, options=()):
        with tempfile.TemporaryDirectory(prefix="slicecheck-test-") as folder:
            report = pathlib.Path(folder) / "report.json"
            began, used = time.monotonic(), cpu_seconds()
            program.TIME_LIMIT = 900
            ended = program.launch(
                [*command, "properties", "--level", "ci", "--report", str(report), *options],
                report,
            )
            took, used = time.monotonic() - began, cpu_seconds() - used
        self.assertEqual(ended.code, 0, ended.stdout + ended.stderr)
        checks = {check["id"]: check for check in ended.report["checks"]}
        for check in checks.values():
            self.assertEqual(check["status"], "passed", check)
        layouts = checks[RESHARD]["compared"]
        laws = [check["compared"] for name, check in checks.items() if name.startswith("law.")]
        print(
            f"{name}: {layouts} layouts resharded in full, {sum(laws)} cases of {len(laws)} laws,"
            f" {took:.0f} s, {used:.0f} s of CPU"
        )
        return layouts, used

    # The time is said in seconds of CPU on two cores: that of a wall says how busy the machine is.
    def test_layouts_enough_over_threads_and_over_mpi_in_time(self):
        local, local_used = self.run_all(
            "local", [program.PROGRAM], ["--transport", "local", "--ranks", "4"]
        )
        # Every law goes over MPI at the level smoke, in tests of its own.
        sent, sent_used = self.run_all(
            "mpi",
            [program.MPIRUN, *program.FLAGS, "-n", "4", program.PROGRAM],
            ["--law", "Reshard"],
        )
        self.assertGreaterEqual(local, LOCAL_LAYOUTS)
        self.assertGreaterEqual(sent, SENT_LAYOUTS)
        if os.environ.get("SLICECHECK_SANITIZE"):
            return  # which costs time of its own
        self.assertLess((local_used + sent_used) / CORES, SECONDS)


if __name__ == "__main__":
    program.main()
