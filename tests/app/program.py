"""Runs the real program for the tests: under mpirun or on the local group, always with a time
limit, and holds every report that it makes against the schema."""

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("SLICECHECK_PROGRAM", str(ROOT / "build/src/app/slicecheck"))
# The program with engines that are wrong on purpose.
WRONG = os.environ.get(
    "SLICECHECK_WRONG_PROGRAM", str(ROOT / "build/tests/app/slicecheck_wrong_engines")
)
MPIRUN = os.environ.get("SLICECHECK_MPIRUN", "mpirun")
FLAGS = os.environ.get(
    "SLICECHECK_MPIRUN_FLAGS", "--oversubscribe --bind-to none --allow-run-as-root"
).split()
TIME_LIMIT = 60
COMMANDS = (
    "audit",
    "bench",
    "cluster",
    "mutants",
    "properties",
    "replay",
    "report",
    "reshard",
    "verify",
)

with open(ROOT / "src/report/slicecheck-report-1.schema.json", encoding="utf-8") as schema:
    VALIDATOR = jsonschema.Draft202012Validator(json.load(schema))


class Ended:
    """How a run ended: exit code, what it printed, its report (None where there is none)."""

    def __init__(self, process, report):
        self.code = process.returncode
        self.launched = MPIRUN in process.args
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.report = report

    def own_lines(self):
        """What the program itself said on stderr; the launcher says more of codes other than 0."""
        return [line for line in self.stderr.splitlines() if line.startswith("slicecheck: ")]


def mpirun(ranks, *flags):
    """The launcher's part of a command line."""
    return [MPIRUN, *FLAGS, *flags, "-n", str(ranks)]


@functools.cache
def codes_are_known():
    """The codes that a launcher makes of lost ranks are its own: these are Open MPI's, which
    calls its mpiexec OpenRTE's."""
    told = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in told.stdout or "OpenRTE" in told.stdout


def ran(command, cwd=None):
    """A command that has ended, in time."""
    environment = dict(os.environ)
    environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
        cwd=cwd,
    )


def launch(command, report, cwd=None):
    process = ran(command, cwd)
    made = None
    if report.is_file():
        made = json.loads(report.read_text(encoding="utf-8"))
        VALIDATOR.validate(made)
    return Ended(process, made)


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own, in which runs leave their reports and dumps."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slicecheck-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs = 0

    def _report(self):
        self.runs += 1
        return self.folder / f"report{self.runs}.json"

    def mpi(self, ranks, *arguments, program=PROGRAM):
        report = self._report()
        return launch([*mpirun(ranks), program, *arguments, "--report", str(report)], report)

    def mpi_apart(self, *ranks, program=PROGRAM):
        """One list of arguments a rank."""
        report = self._report()
        command = [MPIRUN, *FLAGS]
        for number, arguments in enumerate(ranks):
            command += ([":"] if number else []) + [
                "-n",
                "1",
                program,
                *arguments,
                "--report",
                str(report),
            ]
        return launch(command, report)

    def local(self, ranks, *arguments, program=PROGRAM):
        report = self._report()
        return launch(
            [
                program,
                *arguments,
                "--transport",
                "local",
                "--ranks",
                str(ranks),
                "--report",
                str(report),
            ],
            report,
        )

    def assert_code(self, ended, codes):
        """Of a run that the watchdog ends: MPICH's launcher kills who leaves a moment later, and
        returns what it made of that."""
        said = f"exit {ended.code}\n{ended.stdout}\n{ended.stderr}\n{ended.report}"
        if codes_are_known() or not ended.launched:
            self.assertIn(ended.code, codes, said)
        else:
            self.assertNotEqual(ended.code, 0, said)

    def assert_ended(self, ended, code, verdict):
        said = f"exit {ended.code}\n{ended.stdout}\n{ended.stderr}"
        self.assertEqual(ended.code, code, said)
        self.assertIsNotNone(ended.report, said)
        self.assertEqual(ended.report["verdict"], verdict, said)
        self.assertEqual(ended.report["exit_code"], code, said)

    def assert_passed(self, ended):
        self.assert_ended(ended, 0, "passed")
        self.assertEqual(ended.report["findings"], [])
        self.assertTrue(ended.stdout.endswith("verdict: passed\n"), ended.stdout)
        checked = {check["id"]: check for check in ended.report["checks"]}
        for tensor in ("w13", "w13_sf", "w2", "w2_sf"):
            self.assertGreater(checked[f"bytes.{tensor}"]["compared"], 0)
        return checked


def main():
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
