"""Ranks under a watchdog: whatever one of them does, all end in time, with one code, and the lowest
that is left tells who is missing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("SLICECHECK_WATCHDOG_PROGRAM", "")
MPIRUN = os.environ.get("SLICECHECK_MPIRUN", "mpirun")
FLAGS = os.environ.get(
    "SLICECHECK_MPIRUN_FLAGS", "--oversubscribe --bind-to none --allow-run-as-root"
).split()
RANKS = 3
TIME_LIMIT = 60
ANSWERED, GONE, SILENT = "0", "1", "2"


class Watchdog(unittest.TestCase):
    def run_with(self, fault, rank):
        """The launcher's code, and what was told: rank -> the words after it."""
        with tempfile.TemporaryDirectory(prefix="slicecheck-test-") as folder:
            path = pathlib.Path(folder) / "told"
            environment = dict(
                os.environ, OMPI_MCA_mpi_yield_when_idle="1", ASAN_OPTIONS="detect_leaks=0"
            )
            ended = subprocess.run(
                [MPIRUN, *FLAGS, "-n", str(RANKS), PROGRAM, fault, str(rank), str(path)],
                capture_output=True,
                text=True,
                timeout=TIME_LIMIT,
                env=environment,
                stdin=subprocess.DEVNULL,
                check=False,
            )
            told = {}
            if path.is_file():
                for line in path.read_text(encoding="utf-8").splitlines():
                    number, outcome, words = line.split(" ", 2)
                    told[int(number)] = (outcome, words)
            return ended.returncode, told

    def assert_told(self, told, rank, outcome):
        self.assertEqual(sorted(told), list(range(RANKS)))
        self.assertEqual(told[rank][0], outcome, told)
        for other in range(RANKS):
            if other != rank:
                self.assertEqual(told[other][0], ANSWERED, told)
                self.assertIn("in phase rounds", told[other][1])

    def test_no_fault_is_no_ending(self):
        self.assertEqual(self.run_with("none", 0), (0, {}))

    def test_a_rank_that_fails_ends_all_with_its_code_and_words(self):
        for rank in range(RANKS):
            code, told = self.run_with("fail", rank)
            self.assertEqual(code, 5)
            self.assert_told(told, rank, ANSWERED)
            self.assertIn("failed on request", told[rank][1])

    def test_a_rank_that_loops_ends_all_with_4(self):
        code, told = self.run_with("loop", 1)
        self.assertEqual(code, 4)
        self.assert_told(told, 1, ANSWERED)
        # It has not entered the call in which the others wait.
        self.assertNotIn("in least", told[1][1])
        self.assertIn("in least", told[0][1])

    def test_a_stopped_rank_is_silent_also_when_it_is_rank_0(self):
        for rank in (0, 2):
            code, told = self.run_with("stop", rank)
            self.assertEqual(code, 4)
            self.assert_told(told, rank, SILENT)

    def test_a_killed_rank_is_gone_also_when_it_is_rank_0(self):
        for rank in (0, 2):
            code, told = self.run_with("kill", rank)
            self.assertEqual(code, 137)
            self.assert_told(told, rank, GONE)

    def test_a_rank_that_exits_with_0_does_not_end_the_run_with_0(self):
        code, told = self.run_with("exit0", 1)
        self.assertIn(code, (1, 4))
        self.assert_told(told, 1, GONE)


def codes_are_known():
    """The codes that a launcher makes of lost ranks are its own: these are Open MPI's, which
    calls its mpiexec OpenRTE's."""
    told = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in told.stdout or "OpenRTE" in told.stdout


if __name__ == "__main__":
    if not codes_are_known():
        print("not run: the launcher is not Open MPI's")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], "-v"])
