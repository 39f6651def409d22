"""An engine that is wrong is caught, and the first difference is placed where it was made."""

import program


class WrongEngines(program.ProgramTest):
    def run_engine(self, engine, *arguments):
        return self.mpi(
            3, "reshard", "--probe", "none", "--engine", engine, *arguments, program=program.WRONG
        )

    def failed_checks(self, ended):
        self.assert_ended(ended, 1, "failed")
        return {
            check["id"]: check["differing"]
            for check in ended.report["checks"]
            if check["status"] == "failed"
        }

    def test_the_right_engine_passes_in_this_program_too(self):
        self.assert_passed(self.run_engine("collective"))

    def test_one_byte_is_placed(self):
        ended = self.run_engine("one-byte")
        self.assertEqual(self.failed_checks(ended), {"bytes.w2": 1})
        [finding] = ended.report["findings"]
        self.assertEqual(finding["cause"], "bit-corruption")
        self.assertEqual(
            (finding["side"], finding["tensors"], finding["ranks"], finding["experts"]),
            ("tp", ["w2"], [1], [3]),
        )
        first = finding["first"]
        row_bytes = 192 // 2
        self.assertEqual(
            (first["rank"], first["tensor"], first["expert"], first["row"], first["byte"]),
            (1, "w2", 3, 0, 5),
        )
        self.assertEqual(first["offset"], 3 * 640 * row_bytes + 5)
        # Rank 1's slice starts at channel 192; two channels a byte; row 0 stays where it is.
        self.assertEqual(
            first["logical"], {"projection": "w2", "expert": 3, "row": 0, "column": 192 + 10}
        )
        self.assertEqual(int(first["want"][:2], 16) ^ int(first["got"][:2], 16), 0x40)

    def test_an_expert_in_anothers_place_is_found_on_every_rank(self):
        ended = self.run_engine("other-expert")
        self.assertEqual(set(self.failed_checks(ended)), {"bytes.w13"})
        [finding] = ended.report["findings"]
        self.assertEqual(finding["cause"], "expert-mixed")
        self.assertEqual((finding["tensors"], finding["experts"]), (["w13"], [2]))
        origin = finding["first"]["origin"]
        self.assertEqual((origin["expert"], origin["projection"], origin["seed"]), (4, "w3", 1))
        self.assertIn(finding["ranks"], ([], [0, 1, 2]))

    def test_scalars_in_another_order_are_named(self):
        ended = self.run_engine("scalars-misordered")
        self.assertEqual(self.failed_checks(ended), {"scalars.g2_alphas": 2})
        [finding] = ended.report["findings"]
        self.assertEqual(finding["cause"], "scalars-misordered")
        self.assertEqual((finding["ranks"], finding["experts"]), ([0], [0, 1]))

    def test_a_changed_input_fails(self):
        self.assertEqual(
            self.failed_checks(self.run_engine("stock-changed")), {"inputs-unchanged": 1}
        )

    def test_a_changed_global_scale_fails(self):
        ended = self.run_engine("gscale-changed")
        failed = self.failed_checks(ended)
        self.assertEqual(failed["inputs-unchanged"], 1)

    def test_a_cut_along_the_other_axis_is_named_and_its_bytes_are_not_read(self):
        ended = self.run_engine("other-axis", "--hidden", "384")
        self.assertEqual(self.failed_checks(ended), {"shape": 3})
        [finding] = ended.report["findings"]
        self.assertEqual((finding["cause"], finding["ranks"]), ("wrong-axis-cut", [0, 1, 2]))
        self.assertIn("tp w2 is U8 [6, 128, 288], expected [6, 384, 96]", finding["text"])
        self.assertFalse([c for c in ended.report["checks"] if c["id"].startswith("bytes.")])

    def test_a_scalar_tensor_that_is_too_short_is_named_by_its_rank(self):
        ended = self.run_engine("scalar-missing")
        self.assertEqual(self.failed_checks(ended), {"shape": 1})
        [finding] = ended.report["findings"]
        self.assertEqual((finding["cause"], finding["ranks"]), ("shape-unsupported", [2]))

    def test_an_engine_that_refuses_is_a_refusal_of_all(self):
        ended = self.run_engine("refused")
        self.assert_ended(ended, 3, "refused")
        self.assertEqual(
            ended.own_lines(), ["slicecheck: cannot go on: this engine does not like rank 1"]
        )
        self.assertEqual([f["ranks"] for f in ended.report["findings"]], [[1]])

    def test_an_exception_on_one_rank_ends_all_with_5(self):
        ended = self.run_engine("out-of-memory")
        # MPICH's launcher has a code of its own when it ends ranks.
        self.assertIn(ended.code, (5, 9) if "mpich" in program.MPIRUN else (5,), ended.stderr)
        self.assertEqual(len(ended.own_lines()), 1, ended.stderr)

    def test_one_group_that_refuses_does_not_hang_the_others(self):
        ended = self.mpi(
            4,
            "reshard",
            "--tp",
            "2",
            "--probe",
            "none",
            "--engine",
            "refused",
            program=program.WRONG,
        )
        self.assert_ended(ended, 3, "refused")


if __name__ == "__main__":
    program.main()
