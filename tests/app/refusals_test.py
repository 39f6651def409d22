"""What bad input gets: one clear line on stderr, the right code on all ranks, and a report."""

import json
import os
import shutil

import program

CHECKPOINT = program.ROOT / "golden/checkpoints/tiny-modelopt"
SEED = "slicecheck: Expert TP cannot reshard the stock experts: "


class Refusals(program.ProgramTest):
    def assert_refused(self, ended, sentence, cause="shape-unsupported"):
        self.assert_ended(ended, 3, "refused")
        self.assertEqual(ended.own_lines(), [sentence])
        self.assertTrue(ended.report["findings"])
        for finding in ended.report["findings"]:
            self.assertEqual(finding["cause"], cause)

    def assert_unusable(self, ended, *words):
        self.assert_ended(ended, 2, "unusable")
        self.assertEqual(len(ended.own_lines()), 1, ended.stderr)
        for word in words:
            self.assertIn(word, ended.own_lines()[0])

    def test_a_refused_report_says_which_experts_and_ranks_it_is_about(self):
        ended = self.local(2, "reshard", "--hidden", "200", "--tp", "2")
        self.assertEqual(ended.code, 3, ended.stderr)
        case = ended.report["case"]
        self.assertEqual((case["experts"], case["hidden"], case["tp"]), (4, 200, 2))
        self.assertEqual([entry["rank"] for entry in ended.report["ranks"]], [0, 1])
        self.assertNotEqual(ended.report["ranks"][0]["host"], "")

    def test_options_that_cannot_be_read_say_nothing_of_the_experts(self):
        ended = self.local(2, "reshard", "--hidden", "512", "--nope")
        self.assertEqual((ended.code, ended.report["command"]), (2, "reshard"))
        self.assertEqual(list(ended.report["case"]), ["refusal"])

    def test_shapes_that_cannot_be_cut_are_refused_with_the_seeds_sentences(self):
        cases = {
            ("--intermediate", "320"): SEED
            + "intermediate slice 160 and hidden 640 must be multiples of 64 and 128",
            ("--hidden", "320"): SEED
            + "intermediate slice 192 and hidden 320 must be multiples of 64 and 128",
            ("--intermediate", "385"): SEED + "intermediate 385 does not split 2 ways",
            ("--experts", "5"): SEED + "2 ranks x 2 experts is not 5 experts",
            ("--experts", "1"): SEED + "2 ranks x 0 experts is not 1 experts",
        }
        for arguments, sentence in cases.items():
            with self.subTest(arguments=arguments):
                # All ranks refuse with the same sentence: one line, "and 1 more rank" behind it.
                self.assert_refused(
                    self.mpi(2, "reshard", *arguments), sentence + ", and 1 more rank"
                )
                self.assert_refused(
                    self.local(2, "reshard", *arguments), sentence + ", and 1 more rank"
                )

    def test_one_rank_alone_is_refused(self):
        sentence = SEED + "intermediate 192 does not split 1 ways"
        self.assert_refused(self.mpi(1, "reshard"), sentence)
        self.assert_refused(self.local(1, "reshard"), sentence)

    def test_a_rank_with_other_options_is_named_and_all_refuse(self):
        others = ["reshard", "--seed", "1"]
        # What needs no ranks by itself is awaited by the others all the same.
        for odd, words in (
            *((rank, ["reshard", "--seed", "2"]) for rank in range(3)),
            (1, ["reshard", "--help"]),
            (2, ["report", "r.json"]),
        ):
            with self.subTest(odd=odd, words=words):
                ended = self.mpi_apart(*[words if rank == odd else others for rank in range(3)])
                self.assert_ended(ended, 3, "refused")
                self.assertEqual(len(ended.own_lines()), 1)
                self.assertIn(f"rank {odd} was given the options", ended.own_lines()[0])
                (found,) = ended.report["findings"]
                self.assertEqual((found["side"], found["ranks"]), ("machine", [odd]))

    def test_a_launch_says_once_what_needs_no_ranks(self):
        launched = [*program.mpirun(3), program.PROGRAM]
        ended = program.ran([*launched, "--version"])
        self.assertEqual((ended.returncode, ended.stdout.count("slicecheck ")), (0, 1))
        refused = self.local(3, "reshard", "--experts", "5")
        report = self._report()
        report.write_text(json.dumps(refused.report), encoding="utf-8")
        ended = program.ran([*launched, "report", "--exit-code", str(report)])
        self.assertEqual((ended.returncode, ended.stdout.count("verdict: ")), (refused.code, 1))

    def test_an_option_that_is_empty_or_no_number_is_a_usage_error(self):
        def told(option):
            number = f'{option}: "" is no '
            return (
                number
                if option in ("--experts", "--seed", "--timeout")
                else f"{option}: it is empty"
            )

        for command, option, values in (
            ("reshard", "--checkpoint", [""]),
            ("reshard", "--dump", [""]),
            ("audit", "--layer", [""]),
            ("verify", "--checkpoint", [""]),
            ("properties", "--law", [""]),
            ("reshard", "--experts", ["", "0", "0x8", "8.0", "9" * 30]),
            ("reshard", "--seed", ["-1", str(2**64)]),
            ("reshard", "--timeout", ["", "0", "nan", "inf", "3s"]),
            ("reshard", "--repeat", ["0", str(2**63)]),
        ):
            for value in values:
                with self.subTest(option=option, value=value):
                    paths = ["x"] if command in ("audit", "verify") else []
                    ended = self.local(2, command, *paths, f"{option}={value}")
                    self.assert_ended(ended, 2, "unusable")
                    (line,) = ended.own_lines()
                    self.assertIn(f"usage: {option}: ", line)
                    self.assertLess(len(line), 120)
                    if value == "":
                        ended = self.local(2, command, *paths, option, value)
                        self.assert_ended(ended, 2, "unusable")
                        self.assertIn(f"usage: {told(option)}", ended.own_lines()[0])
        ended = self.local(2, "reshard", "--probe", "none", "--experts", "010")
        self.assertEqual(ended.report["case"]["experts"], 10)

    def test_ranks_in_one_process_are_not_launched_many_times(self):
        ended = self.mpi(2, "reshard", "--transport", "local", "--ranks", "2")
        self.assert_ended(ended, 2, "unusable")
        (line,) = ended.own_lines()
        self.assertIn("--transport local has its ranks in one process", line)
        ended = self.mpi(1, "reshard", "--transport", "local", "--ranks", "2", "--probe", "none")
        self.assert_passed(ended)

    def test_usage_errors_end_all_ranks_with_2(self):
        for arguments in (
            ["reshard", "--no-such-option"],
            ["reshard", "--payload", "noise"],
            ["no-such-command"],
            [],
            ["reshard", "--layer", "1"],
            ["reshard", "--model", "qwen3-30b", "--hidden", "128"],
            ["reshard", "--engine", "no-such-engine"],
            ["reshard", "--experts", "0"],
            ["reshard", "--seed", "-1"],
            ["reshard", "--seed", "18446744073709551616"],
            ["reshard", "--seed", "0x10"],
            ["reshard", "--transport", "2"],
            ["reshard", "--probe", "1"],
            ["reshard", "--side-channel", "0"],
            ["mutants", "--level", "1"],
            ["reshard", "--ranks", "5"],
            ["verify", "--ranks", "5", "/no/such/dump"],
            ["reshard", "--rel-l2-max", "nan"],
            ["properties", "--timeout", "nan"],
        ):
            with self.subTest(arguments=arguments):
                ended = self.mpi(2, *arguments)
                self.assertEqual(ended.code, 2, ended.stderr)
                self.assertEqual(len(ended.own_lines()), 1, ended.stderr)
                self.assertTrue(
                    ended.own_lines()[0].startswith("slicecheck: usage: "), ended.stderr
                )
                self.assertLessEqual(len(ended.own_lines()[0]), 110)
        ended = self.mpi(4, "reshard", "--tp", "3")
        self.assert_unusable(ended, "slicecheck: usage: --tp 3 does not divide")

    def test_a_usage_error_of_one_rank_ends_all_with_2(self):
        ended = self.mpi_apart(["reshard"], ["reshard", "--payload", "noise"], ["reshard"])
        self.assertEqual(ended.code, 2, ended.stderr)
        self.assertEqual(len(ended.own_lines()), 1, ended.stderr)

    def test_the_launchs_own_number_of_ranks_may_be_said(self):
        ended = self.mpi(2, "reshard", "--ranks", "2", "--probe", "none")
        self.assert_ended(ended, 0, "passed")

    def test_help_has_words_where_words_are_taken(self):
        for command in ("reshard", "verify", "bench"):
            shown = program.launch([program.PROGRAM, command, "--help"], self.folder / "none")
            self.assertIn("local, mpi", shown.stdout)
            self.assertNotIn("->", shown.stdout)

    def test_a_report_of_options_that_cannot_be_read_is_the_named_commands(self):
        for command in program.COMMANDS:
            ended = self.local(1, command, "--nope")
            self.assert_unusable(ended, "slicecheck: usage: ")
            self.assertEqual(ended.report["command"], command)
        self.assertEqual(self.local(1, "no-such-command").report["command"], "reshard")

    def test_checkpoints_that_cannot_be_read(self):
        self.assert_unusable(
            self.mpi(2, "reshard", "--checkpoint", "/no/such/folder", "--layer", "1"), "folder"
        )
        for layer in ("0", "7"):
            ended = self.mpi(3, "reshard", "--checkpoint", str(CHECKPOINT), "--layer", layer)
            self.assertIn(ended.code, (2, 3), ended.stderr)
            self.assertEqual(len(ended.own_lines()), 1, ended.stderr)
            self.assertIsNotNone(ended.report)
        self.assert_unusable(
            self.mpi(2, "reshard", "--checkpoint", str(CHECKPOINT), "--layer", "x"), "--layer x"
        )

    def test_a_truncated_shard_is_unusable_on_every_rank(self):
        copy = self.folder / "checkpoint"
        shutil.copytree(CHECKPOINT, copy)
        shard = copy / "model-00002-of-00002.safetensors"
        os.truncate(shard, shard.stat().st_size - 1)
        self.assert_unusable(
            self.mpi(3, "reshard", "--checkpoint", str(copy), "--layer", "1"),
            "model-00002-of-00002.safetensors",
        )

    def test_a_dump_folder_that_holds_something_is_left_alone(self):
        dump = self.folder / "dump"
        dump.mkdir()
        (dump / "mine").write_text("kept", encoding="utf-8")
        self.assert_unusable(self.mpi(2, "reshard", "--dump", str(dump)), "dump")
        self.assertEqual([path.name for path in dump.iterdir()], ["mine"])

    def test_a_report_that_cannot_be_written_ends_with_5(self):
        for path in ("/no/such/folder/report.json", str(self.folder)):
            ended = program.launch(
                [
                    program.MPIRUN,
                    *program.FLAGS,
                    "-n",
                    "2",
                    program.PROGRAM,
                    "reshard",
                    "--report",
                    path,
                ],
                self.folder / "none",
            )
            self.assertEqual(ended.code, 5, ended.stderr)
            self.assertEqual(len(ended.own_lines()), 1, ended.stderr)
            self.assertIn("report", ended.own_lines()[0])


if __name__ == "__main__":
    program.main()
