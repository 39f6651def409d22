"""The kill matrix: every planted fault is caught and named, no healthy layout is called anything,
and the README shows the table of this very run."""

import pathlib
import subprocess
import sys

import program

SCRIPT = program.ROOT / "ci/kill_matrix.py"
README = program.ROOT / "README.md"


class Mutants(program.ProgramTest):
    def test_every_mutant_is_caught_and_the_readme_shows_the_matrix(self):
        program.TIME_LIMIT = 900
        ended = self.local(2, "mutants", "--level", "ci", "--quiet")
        self.assert_ended(ended, 0, "passed")
        checks = {check["id"]: check for check in ended.report["checks"]}
        self.assertGreater(checks["mutants.caught"]["compared"], 1000)
        self.assertEqual(checks["mutants.caught"]["differing"], 0)
        exact = checks["mutants.exact"]
        self.assertLessEqual(exact["differing"], 0.02 * exact["compared"])
        self.assertEqual(checks["mutants.healthy"]["compared"], 1000)
        self.assertEqual(checks["mutants.healthy"]["differing"], 0)
        report = self.folder / "report1.json"
        told = subprocess.run(
            [sys.executable, "-B", SCRIPT, report, "--check", README],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assert_other_matrix_is_told(report)

    def assert_other_matrix_is_told(self, report):
        """A README with another number is not the report's."""
        other = pathlib.Path(self.folder) / "README.md"
        text = README.read_text(encoding="utf-8")
        other.write_text(text.replace("| all | ", "| all | 1", 1), encoding="utf-8")
        told = subprocess.run(
            [sys.executable, "-B", SCRIPT, report, "--check", other],
            capture_output=True,
            check=False,
            timeout=60,
        )
        self.assertEqual(told.returncode, 1)


if __name__ == "__main__":
    program.main()
