"""ci/test, ci/nightly, ci/demo and .ci/run: which wrong result could end green? And the presets:
each is run by a workflow or a script."""

import json
import os
import sys
import unittest

from scripts import SOURCE, ScriptTest

EMPTY_PROJECT = "cmake_minimum_required(VERSION 3.25)\nproject(empty NONE)\nenable_testing()\n"


class Test(ScriptTest):
    """The real cmake and ctest, on a project with nothing to compile."""

    def project(self, tests):
        self.packages_installed()
        self.program("clang++-14", "exit 1")
        with open(os.path.join(self.root, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(EMPTY_PROJECT + tests)

    def test_without_a_test_it_fails_and_the_last_line_says_so(self):
        self.project("")
        ended = self.run_script("ci/test")
        self.assertNotEqual(ended.returncode, 0)
        said = (ended.stdout + ended.stderr).splitlines()[-2:]
        self.assertEqual(said, ["No tests were found!!!", "Errors while running CTest"])

    def test_its_status_and_its_last_lines_are_those_of_ctest(self):
        self.project("add_test(NAME good COMMAND true)\n")
        ended = self.run_script("ci/test")
        self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
        self.assertIn("100% tests passed, 0 tests failed out of 1", ended.stdout)
        self.assertIn("Total Test time (real)", ended.stdout.splitlines()[-1])

    def test_a_failing_test_fails_it_and_shows_its_output(self):
        self.project('add_test(NAME bad COMMAND sh -c "echo what-it-said; exit 3")\n')
        ended = self.run_script(".ci/run")
        self.assertEqual(ended.returncode, 8)
        self.assertIn("what-it-said", ended.stdout)

    def test_a_build_that_fails_fails_it_before_any_test(self):
        self.project("add_custom_target(bad ALL COMMAND false)\nadd_test(NAME good COMMAND true)\n")
        ended = self.run_script("ci/test")
        self.assertNotEqual(ended.returncode, 0)
        self.assertNotIn("tests passed", ended.stdout)


class Full(ScriptTest):
    """Programs that only note how they were called."""

    def setUp(self):
        super().setUp()
        self.packages_installed()
        self.program("cmake", "")
        self.program("ctest", "echo seed $SLICECHECK_SEED; echo the last line")

    def test_full_runs_every_preset_and_then_the_plain_suite(self):
        ended = self.run_script("ci/test", "--full")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(ended.stdout.splitlines()[-1], "the last line")
        presets = [call.split()[2] for call in self.called("ctest")]
        self.assertEqual(presets, ["clang", "fuzz", "mpich", "asan", "tsan", "release"])
        self.assertIn("cmake --workflow --preset tidy", self.called("cmake"))
        self.assertIn("cmake --build --preset headers", self.called("cmake"))
        self.assertIn("cmake --workflow --preset speed", self.called("cmake"))
        for call in self.called("ctest"):
            self.assertIn("--no-tests=error", call)

    def test_one_preset_that_fails_is_named_and_the_rest_still_run(self):
        self.program("ctest", '[ "$2" != asan ]')
        ended = self.run_script("ci/test", "--full")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout.splitlines()[-1], "ci/test: failed: asan")
        self.assertEqual(len(self.called("ctest")), 6)

    def test_a_nightly_prints_its_seed_and_takes_one(self):
        fresh = self.run_script("ci/nightly")
        self.assertEqual(fresh.returncode, 0, fresh.stderr)
        seed = fresh.stdout.splitlines()[0].split()[-1]
        self.assertTrue(seed.isdigit(), fresh.stdout)
        self.assertIn(f"seed {seed}\n", fresh.stdout)
        self.assertIn("seed 12\n", self.run_script("ci/nightly", "12").stdout)

    def test_the_plain_run_fuzzes_where_clang_can_and_else_says_that_it_does_not(self):
        for status, presets in ((0, ["fuzz", "release"]), (1, ["release"])):
            open(self.calls, "w", encoding="utf-8").close()
            self.program("clang++-14", f"exit {status}")
            ended = self.run_script("ci/test")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual([call.split()[2] for call in self.called("ctest")], presets)
            self.assertEqual("not fuzzed" in ended.stdout, status == 1)
            self.assertEqual(ended.stdout.splitlines()[-1], "the last line")

    def test_a_finding_of_the_fuzzer_fails_the_plain_run_which_still_runs_the_suite(self):
        self.program("clang++-14", "exit 0")
        self.program("ctest", '[ "$2" != fuzz ]')
        ended = self.run_script("ci/test")
        self.assertEqual(ended.returncode, 1)
        self.assertEqual(ended.stdout.splitlines()[-1], "ci/test: failed: fuzz")
        self.assertEqual(len(self.called("ctest")), 2)

    def test_the_plain_run_has_the_seed_of_every_day(self):
        self.assertIn("seed 1\n", self.run_script("ci/test").stdout)


class Gpu(ScriptTest):
    def setUp(self):
        super().setUp()
        for name in ("cmake", "ctest", "mpirun", "compute-sanitizer"):
            self.program(name, "")

    def run_gpu(self, devices):
        self.program("nvidia-smi", f"for i in $(seq {devices}); do echo GPU $i; done")
        return self.run_script("ci/gpu", CUDA_HOME=self.folder)

    def test_without_a_device_it_is_not_run_and_built_where_nvcc_is(self):
        for built in (False, True):
            if built:
                self.program("nvcc", "")
            ended = self.run_gpu(devices=0)
            self.assertEqual(ended.returncode, 77, ended.stderr)
            self.assertEqual(ended.stdout, "not run: this machine has no device\n")
            self.assertEqual(any("--build" in c for c in self.called("cmake")), built)
            self.assertEqual(self.called("ctest") + self.called("mpirun"), [])
        self.program("cmake", '[ "$1" != --build ]')
        self.assertEqual(self.run_gpu(devices=0).returncode, 1)

    def test_one_device_is_shared_by_2_4_and_8_ranks_in_reshard_and_bench(self):
        folder = os.path.join(self.root, "build/gpu/tests/memory")
        os.makedirs(folder)
        os.symlink("/bin/true", os.path.join(folder, "benchmark_memory_device"))
        ended = self.run_gpu(devices=1)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn(" -L gpu ", self.called("ctest")[0])
        shared = [call.split() for call in self.called("mpirun")]
        for command in ("reshard", "bench"):
            ranks = [call[call.index("-n") + 1] for call in shared if command in call]
            self.assertEqual(ranks[:3], ["2", "4", "8"])
        self.assertTrue(all("--share-gpu" in call for call in shared))


class Demo(ScriptTest):
    def setUp(self):
        super().setUp()
        self.packages_installed()
        self.program("cmake", "")

    def test_both_jobs_run_on_3_ranks_and_it_says_where_the_reports_are(self):
        self.program("mpirun", "echo verdict: passed")
        ended = self.run_script("ci/demo")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        calls = self.called("mpirun")
        self.assertEqual(len(calls), 2)
        self.assertIn("--checkpoint golden/checkpoints/tiny-modelopt --layer 1", calls[0])
        self.assertIn("--payload bytes", calls[1])
        for call in calls:
            self.assertIn("mpirun -n 3 ", call)
        self.assertIn(f"the report: {self.root}/build/", ended.stdout)

    def test_a_job_that_fails_gives_the_demo_its_status(self):
        self.program("mpirun", "exit 3")
        self.assertEqual(self.run_script("ci/demo").returncode, 3)


class Presets(unittest.TestCase):
    def test_each_is_run_by_a_workflow_or_a_script(self):
        with open(os.path.join(SOURCE, "CMakePresets.json"), encoding="utf-8") as file:
            presets = json.load(file)
        steps = {(step["type"], step["name"])
                 for workflow in presets["workflowPresets"] for step in workflow["steps"]}
        for kind in ("configure", "build", "test"):
            for preset in presets[kind + "Presets"]:
                if not preset.get("hidden"):
                    self.assertIn((kind, preset["name"]), steps)
        for preset in presets["testPresets"]:
            if preset.get("hidden"):
                self.assertEqual(preset["execution"]["noTestsAction"], "error")


if __name__ == "__main__":
    sys.exit(unittest.main())
