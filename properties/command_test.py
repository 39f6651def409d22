"""`slicecheck properties` and `slicecheck replay` from outside: what passes, what a broken law and
a rank that fails inside a case look like, and that a saved case says the same again."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/app"))
import program  # pylint: disable=wrong-import-position

PLANTED = os.environ["SLICECHECK_PLANTED_PROGRAM"]
RESHARD = "Reshard.equals_the_conversion_of_the_slice"
ROWS = "Rows.shuffle_dest_undoes_shuffle_source"
CONVERT = "Convert.unconvert_undoes_convert"


def law_lines(ended):
    return [line for line in ended.stdout.splitlines() if " cases, " in line and ":" in line]


class PropertiesTest(program.ProgramTest):
    def plant(self, name):
        os.environ["SLICECHECK_PLANTED"] = name
        self.addCleanup(os.environ.pop, "SLICECHECK_PLANTED", None)

    def case_file(self, law):
        return self.folder / f"slicecheck-case.{law}.json"

    def assert_hung_in_its_case(self, ended, law, ranks):
        """One report, of the case that does not end and of nothing else."""
        self.assert_code(ended, {4})
        self.assertEqual((ended.report["verdict"], ended.report["exit_code"]), ("hung", 4))
        self.assertIn("run it again: ", ended.stderr)
        # Ranks that try cases alone may each have one.
        self.assertIn(len(ended.report["findings"]), range(1, 2 + len(ranks)))
        for finding in ended.report["findings"]:
            self.assertEqual(finding["cause"], "rank-hung")
            self.assertTrue(finding["text"].startswith("no verdict on "), finding)
            self.assertLessEqual(set(finding["ranks"]), set(ranks))
        self.assertEqual(ended.report["case"]["law"], law)
        (check,) = ended.report["checks"]
        self.assertEqual((check["id"], check["status"]), (f"law.{law}", "failed"))
        if not ranks:
            self.assertEqual((check["compared"], check["differing"]), (1, 1))
        self.assertEqual(ended.stdout.count("verdict: "), 1)

    def test_every_law_passes_with_all_its_classes(self):
        ended = self.local(4, "properties", "--level", "smoke")
        self.assert_ended(ended, 0, "passed")
        laws = [check for check in ended.report["checks"] if check["id"] != "transport"]
        self.assertGreaterEqual(len(laws), 37)
        for check in laws:
            self.assertEqual(check["status"], "passed", check)
            self.assertGreaterEqual(check["compared"], 36)
            self.assertEqual(check["figures"]["classes_missed"], 0)
        self.assertEqual(list(self.folder.glob("slicecheck-case*")), [])

    def test_saved_cases_come_first(self):
        ended = self.local(8, "properties", "--law", RESHARD, "--cases", "1")
        self.assertEqual(ended.report["checks"][0]["figures"]["saved"], 4)

    def test_classes_that_were_not_reached_do_not_pass(self):
        ended = self.local(4, "properties", "--law", ROWS, "--cases", "2")
        self.assert_ended(ended, 6, "inconclusive")
        self.assertIn("not reached: ", law_lines(ended)[0])
        self.assertIn("not passed", law_lines(ended)[0])

    def test_nothing_run_is_77(self):
        ended = self.local(2, "properties", "--law", "No.such_law")
        self.assert_ended(ended, 77, "not-run")
        self.assertIn("no law or suite is named No.such_law", ended.stdout)
        ended = self.local(1, "properties", "--law", "Reshard", "--cases", "5")
        self.assert_ended(ended, 77, "not-run")

    def test_the_time_of_a_run_is_bounded(self):
        ended = self.local(2, "properties", "--law", "Rows", "--level", "soak", "--seconds", "3")
        self.assert_ended(ended, 0, "passed")
        self.assertLess(ended.report["run"]["seconds"], 20)

    def test_one_seed_says_the_same_on_local_and_mpi_and_on_more_ranks(self):
        self.plant("slices sent to the rank before")
        asked = ("properties", "--law", RESHARD, "--ranks-up-to", "2", "--seed", "7")
        runs = [
            self.local(2, *asked, program=PLANTED),
            self.local(4, *asked, program=PLANTED),
            self.mpi(2, *asked, program=PLANTED),
            self.mpi(3, *asked, program=PLANTED),
        ]
        for ended in runs:
            self.assert_ended(ended, 1, "failed")
            self.assertEqual(law_lines(ended), law_lines(runs[0]))
            self.assertEqual(ended.report["checks"], runs[0].report["checks"])

    def test_one_seed_says_the_same_of_one_process_and_of_many(self):
        """Laws that a process tries alone, sound and broken: verdicts, cases, the smallest case."""
        mistakes = {
            "": "Convert",
            "gate and up exchanged one way": CONVERT,
            "faults said of all experts": "Verify.a_fault_is_found_where_it_was_planted",
            "shares in percent": "Report",
        }
        for mistake, law in mistakes.items():
            self.plant(mistake)
            asked = ("properties", "--law", law, "--seed", "5", "--level", "smoke")
            runs = [
                launch(ranks, *asked, program=PLANTED)
                for launch, ranks in (
                    (self.local, 1),
                    (self.local, 3),
                    (self.mpi, 1),
                    (self.mpi, 4),
                )
            ]
            for ended in runs:
                if mistake:
                    self.assert_ended(ended, 1, "failed")
                else:
                    self.assert_ended(ended, 0, "passed")
                self.assertEqual(law_lines(ended), law_lines(runs[0]))
                self.assertEqual(ended.report["checks"], runs[0].report["checks"])

    def test_a_broken_law_is_saved_and_runs_again(self):
        self.plant("runs packed in another order")
        broken = self.mpi(3, "properties", "--law", RESHARD, program=PLANTED)
        self.assert_ended(broken, 1, "failed")
        saved = self.case_file(RESHARD)
        shape = json.loads(saved.read_text(encoding="utf-8"))["shape"]
        self.assertEqual(shape, {"experts": 2, "hidden": 128, "intermediate": 128, "tp": 2})
        self.assertIn(f"run it again: mpirun -n 2 slicecheck replay {saved}", broken.stdout)
        for again in (
            self.mpi(2, "replay", str(saved), program=PLANTED),
            self.local(2, "replay", str(saved), program=PLANTED),
        ):
            self.assert_ended(again, 1, "failed")
        self.assert_ended(self.mpi(2, "replay", str(saved)), 0, "passed")
        self.assert_ended(self.local(3, "replay", str(saved)), 0, "passed")

    def test_a_rank_that_returns_early_breaks_the_law_or_ends_in_time(self):
        for launch in (self.local, self.mpi):
            self.plant("returns early")
            asked = ("properties", "--law", RESHARD, "--timeout", "4")
            ended = launch(2, *asked, program=PLANTED)
            self.assertNotEqual(ended.code, 0)
            self.assertTrue(self.case_file(RESHARD).is_file())
            self.case_file(RESHARD).unlink()

    def test_a_rank_that_throws_or_hangs_ends_in_time_with_its_case_saved(self):
        saved = self.case_file(RESHARD)
        for name in ("throws", "hangs"):
            for launch in (self.local, self.mpi):
                self.plant(name)
                asked = ("properties", "--law", RESHARD, "--timeout", "4")
                ended = launch(2, *asked, program=PLANTED)
                self.assertNotEqual(ended.code, 0, name)
                if name == "hangs":
                    self.assert_hung_in_its_case(ended, RESHARD, [])
                self.assertTrue(saved.is_file(), ended.stderr)
                self.assert_ended(self.local(2, "replay", str(saved)), 0, "passed")
                saved.unlink()

    def test_a_case_of_one_process_that_throws_breaks_its_law_and_shrinks(self):
        saved = self.case_file(CONVERT)
        for launch in (self.local, self.mpi):
            self.plant("throws alone")
            ended = launch(2, "properties", "--law", CONVERT, program=PLANTED)
            self.assert_ended(ended, 1, "failed")
            self.assertIn("this process has had enough", ended.stdout)
            shape = json.loads(saved.read_text(encoding="utf-8"))["shape"]
            self.assertEqual(shape, {"experts": 2, "hidden": 256, "intermediate": 128, "tp": 2})
            self.assert_ended(self.local(2, "replay", str(saved)), 0, "passed")
            saved.unlink()

    def test_a_case_of_one_process_that_hangs_ends_in_time_and_is_saved(self):
        saved = self.case_file(CONVERT)
        for launch in (self.local, self.mpi):
            self.plant("hangs alone")
            ended = launch(2, "properties", "--law", CONVERT, "--timeout", "4", program=PLANTED)
            self.assert_hung_in_its_case(ended, CONVERT, [0, 1])
            hidden = json.loads(saved.read_text(encoding="utf-8"))["shape"]["hidden"]
            self.assertGreater(hidden, 128)
            self.assertEqual([each.name for each in self.folder.glob("*.part")], [])
            self.assert_ended(self.local(2, "replay", str(saved)), 0, "passed")
            saved.unlink()

    def test_no_law_leaves_a_folder_behind(self):
        os.environ["TMPDIR"] = str(self.folder)
        self.addCleanup(os.environ.pop, "TMPDIR", None)
        for mistake, code in (("", 0), ("a bit flipped on the way into a dump", 1)):
            self.plant(mistake)
            asked = ("properties", "--law", "Dump", "--level", "smoke")
            self.assertEqual(self.local(3, *asked, program=PLANTED).code, code)
            self.assertEqual(self.mpi(3, *asked, program=PLANTED).code, code)
        self.assertEqual(list(self.folder.glob("slicecheck-law*")), [])

    def test_a_case_that_cannot_be_read_is_one_line(self):
        broken = self.folder / "case.json"
        texts = {
            "{": "not JSON at byte 2",
            '{"format": "slicecheck-case/2"}': "the format is not slicecheck-case/1",
            '{"format": "slicecheck-case/1"}': "law: is no text",
        }
        for text, said in texts.items():
            broken.write_text(text, encoding="utf-8")
            ended = self.local(2, "replay", str(broken))
            self.assert_ended(ended, 2, "unusable")
            self.assertEqual(len(ended.own_lines()), 1, ended.stderr)
            self.assertIn("case.json", ended.own_lines()[0])
            self.assertIn(said, ended.own_lines()[0])
        ended = self.local(2, "replay", str(self.folder / "absent.json"))
        self.assert_ended(ended, 2, "unusable")

    def test_a_case_of_more_ranks_than_the_launch_is_not_run(self):
        golden = program.ROOT / "golden/corpus/reshard-eight-ranks.json"
        ended = self.local(2, "replay", str(golden))
        self.assert_ended(ended, 2, "unusable")
        self.assertIn("the case needs 8 ranks, the launch has 2", ended.stderr)

    def test_the_corpus_replays(self):
        files = sorted((program.ROOT / "golden/corpus").glob("*.json"))
        self.assertGreaterEqual(len(files), 9)
        for each in files:
            self.assert_ended(self.local(8, "replay", str(each)), 0, "passed")


if __name__ == "__main__":
    program.main()
