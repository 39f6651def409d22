"""The bench on threads and over MPI: what is timed has been judged, and its figures agree with one
another. How fast this machine is, is not tested."""

import os
import unittest.mock

import program

SMALL = ("--experts", "4", "--hidden", "256", "--intermediate", "256")
KINDS = ("w13", "w13_sf", "w2", "w2_sf")
TIMED = (
    "bench.copy",
    *(f"bench.pack.{kind}" for kind in KINDS),
    "bench.pack",
    "bench.convert",
    "bench.verify",
    "bench.all_to_all",
    "bench.reshard",
    "bench.streamed",
)


class Bench(program.ProgramTest):
    def figures(self, ended):
        self.assertEqual(ended.code, 0, ended.stderr)
        checks = {check["id"]: check for check in ended.report["checks"]}
        for kind in KINDS:
            self.assertEqual(checks[f"bytes.{kind}"]["status"], "passed")
        return checks

    def assert_series(self, checks, rounds):
        for name in TIMED:
            figures = checks[name]["figures"]
            self.assertEqual(figures["rounds"], rounds, name)
            self.assertGreater(figures["median_ms"], 0, name)
            self.assertGreaterEqual(figures["p95_ms"], figures["median_ms"], name)
            rate = checks[name]["compared"] / figures["median_ms"] / 1e6
            self.assertAlmostEqual(figures["gb_per_s"] / rate, 1, 6, name)
        self.assertEqual(checks["bench.copy"]["figures"]["of_the_copy"], 1)

    def assert_bound(self, checks):
        """On host memory: the all-to-all and the pack, and 10 %."""
        median = {name: checks[name]["figures"]["median_ms"] for name in TIMED}
        bound = 1.1 * (median["bench.all_to_all"] + median["bench.pack"])
        for name in ("bench.reshard", "bench.streamed"):
            figures = checks[name]["figures"]
            self.assertAlmostEqual(figures["bound_ms"] / bound, 1, 6)
            self.assertAlmostEqual(figures["of_the_bound"] / (median[name] / bound), 1, 6)

    def test_threads_and_mpi_give_the_same_figures(self):
        for ended in (
            self.local(2, "bench", "--level", "smoke", *SMALL),
            self.mpi(2, "bench", "--level", "smoke", *SMALL),
        ):
            checks = self.figures(ended)
            self.assert_series(checks, 3)
            self.assert_bound(checks)
            whole = 4 * (2 * 256 * 128 + 2 * 256 * 16 + 256 * 128 + 256 * 16) // 2
            self.assertEqual(checks["bench.reshard"]["compared"], whole)
            self.assertEqual(checks["bench.streamed"]["compared"], whole)
            self.assertEqual(checks["bench.pack"]["compared"], 2 * whole)
            # Both engines' tp of both ranks was judged.
            w2_bytes = 4 * 256 * 128
            self.assertEqual(checks["bytes.w2"]["compared"], 2 * w2_bytes)
            self.assertEqual(checks["bench.memory"]["figures"]["stock_and_result_bytes"], 2 * whole)

    def test_the_engine_that_is_wrong_is_named(self):
        environment = {"SLICECHECK_STREAMED": "one-byte"}
        with unittest.mock.patch.dict(os.environ, environment):
            ended = self.local(2, "bench", "--level", "smoke", *SMALL, program=program.WRONG)
        self.assertEqual(ended.code, 1, ended.stderr)
        [finding] = ended.report["findings"]
        self.assertRegex(finding["text"], "^one-byte: ")
        self.assertEqual((finding["tensors"], finding["ranks"]), (["w2"], [1]))

    def test_a_checkpoint_and_a_shape_that_does_not_split_are_turned_down(self):
        ended = self.local(2, "bench", "--checkpoint", "x", "--layer", "1")
        self.assertEqual(ended.code, 2)
        self.assertEqual(len(ended.own_lines()), 1)
        ended = self.local(2, "bench", "--hidden", "256", "--intermediate", "192")
        self.assertEqual(ended.code, 3)
        self.assertIn("intermediate slice 96 and hidden 256 must be", ended.own_lines()[0])
        ended = self.local(2, "bench", "--share-gpu")
        self.assertEqual(ended.code, 2)


if __name__ == "__main__":
    program.main()
