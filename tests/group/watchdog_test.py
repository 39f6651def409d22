"""Ranks under a watchdog: whatever one of them does, all end in time, with one code, and the lowest
that is left tells who is missing, and in what those are that stand still."""

import functools
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "app"))
import program  # pylint: disable=wrong-import-position

PROGRAM = os.environ.get("SLICECHECK_WATCHDOG_PROGRAM", "")
STACKS = os.environ.get("SLICECHECK_BACKWARD", "") == "ON"
RANKS = 3
# Two seconds to see that a rank stands still and to end, and a machine that does more.
TO_END = 2 + 2
ANSWERED, GONE, SILENT = "0", "1", "2"


@functools.cache
def limit_seconds():
    """How long a rank may stand still: start-up counts, on a machine that does other things too."""
    start = time.monotonic()
    program.ran([*program.mpirun(RANKS), PROGRAM, "none", "0", "/dev/null", "60"])
    return round(2 + 2 * (time.monotonic() - start), 1)


class Watchdog(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="slicecheck-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.runs = 0

    def told(self, path):
        """Rank -> outcome, words, stack."""
        made = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8").splitlines():
                number, outcome, words = line.split(" ", 2)
                words, stack = words.split(" stack: ")
                made[int(number)] = (outcome, words, stack)
        return made

    def run_with(self, fault, rank):
        """The launcher's code, and what was told."""
        self.runs += 1
        path = self.folder / f"told{self.runs}"
        ended = program.ran(
            [*program.mpirun(RANKS), PROGRAM, fault, str(rank), str(path), str(limit_seconds())]
        )
        return ended.returncode, self.told(path)

    def left(self):
        """Of the last run the ranks that the watchdog has ended: rank -> seconds since its last
        note, and whether what it was to cut off was called."""
        made = {}
        for path in self.folder.glob(f"told{self.runs}.left.*"):
            rank = path.suffix[1:]
            cut = self.folder / f"told{self.runs}.cut.{rank}"
            made[int(rank)] = (float(path.read_text(encoding="utf-8")), cut.is_file())
        return made

    def assert_told(self, told, rank, outcome):
        self.assertEqual(sorted(told), list(range(RANKS)))
        self.assertEqual(told[rank][0], outcome, told)
        for other in range(RANKS):
            if other != rank:
                self.assertEqual(told[other][0], ANSWERED, told)
                self.assertIn("in phase rounds", told[other][1])

    def test_no_fault_is_no_ending(self):
        self.assertEqual(self.run_with("none", 0), (0, {}))
        self.assertEqual(self.left(), {})

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
        if STACKS:
            self.assertRegex(told[1][2], "^slicecheck::looping")
            self.assertIn("MPI_Allreduce", told[0][2])
        else:
            self.assertEqual({stack for _, _, stack in told.values()}, {""})

    def test_what_is_to_be_cut_off_is_and_one_that_hangs_keeps_nobody(self):
        self.run_with("loop", 1)
        left = self.left()
        self.assertEqual(sorted(left), list(range(RANKS)))
        for seconds, cut in left.values():
            self.assertTrue(cut)
            self.assertLess(seconds, limit_seconds() + TO_END)

    def test_a_thread_that_cannot_say_where_it_is_keeps_nobody(self):
        # Its signals are blocked: no stack of it, and the ending is as soon.
        code, told = self.run_with("blocked", 1)
        self.assertEqual(code, 4)
        self.assert_told(told, 1, ANSWERED)
        self.assertEqual(told[1][2], "")
        late = max(seconds for seconds, _ in self.left().values())
        self.assertLess(late, limit_seconds() + TO_END)

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

    def before_they_meet(self, last):
        """Rank 0 is a shell that waits until the others are there, and then does this."""
        there = f"[ $(grep -c @slicecheck/$PMIX_NAMESPACE/ /proc/net/unix) -ge {RANKS - 1} ]"
        path = self.folder / "told"
        ended = program.ran(
            [*program.mpirun(1), "sh", "-c", f"until {there}; do sleep 0.05; done; {last}"]
            + [":", "-n", str(RANKS - 1), PROGRAM, "none", "0", str(path), str(limit_seconds())]
        )
        return ended.returncode, self.told(path)

    def test_who_has_not_met_rank_0_reports_without_it(self):
        for last, due in (("kill -9 $$", 137), ("kill -STOP $$", 4)):
            with self.subTest(last=last):
                code, told = self.before_they_meet(last)
                self.assertEqual(code, due)
                self.assertEqual(sorted(told), list(range(RANKS)))
                outcomes = [told[rank][0] for rank in range(RANKS)]
                self.assertEqual(outcomes, [GONE, ANSWERED, ANSWERED])
                self.assertIn("in phase start", told[1][1])
                (self.folder / "told").unlink()


if __name__ == "__main__":
    if not program.codes_are_known():
        print("not run: the launcher is not Open MPI's")
        sys.exit(77)
    program.main()
