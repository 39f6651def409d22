"""The main job under mpirun and on threads: it checks every byte and leaves equal dumps."""

import copy
import json
import os
import shutil

import program
from audit_test import LAYER, Tensors

CHECKPOINT = str(program.ROOT / "golden/checkpoints/tiny-modelopt")


def tensor_bytes(shape, ranks):
    """Bytes over all ranks of the four tp tensors."""
    experts, hidden, intermediate = shape
    each = {
        "w13": 2 * intermediate * hidden // 2,
        "w13_sf": 2 * intermediate * hidden // 16,
        "w2": hidden * intermediate // 2,
        "w2_sf": hidden * intermediate // 16,
    }
    return {name: experts * count * ranks for name, count in each.items()}


class Reshard(program.ProgramTest):
    def assert_all_compared(self, ended, shape, groups=1):
        checked = self.assert_passed(ended)
        for name, due in tensor_bytes(shape, 1).items():
            seen = [
                check["compared"]
                for check in ended.report["checks"]
                if check["id"] == f"bytes.{name}"
            ]
            self.assertEqual(seen, [due] * groups)
        return checked

    def test_every_byte_of_every_rank_is_compared_at_2_3_4_and_8_ranks(self):
        for ranks in (2, 3, 4, 8):
            with self.subTest(ranks=ranks):
                ended = self.mpi(ranks, "reshard", "--probe", "none")
                self.assert_all_compared(ended, (2 * ranks, 640, 192 * ranks))
                self.assertEqual(len(ended.report["ranks"]), ranks)
                self.assertEqual(ended.report["case"]["transport"], "mpi")

    def test_payloads_and_engines_pass_on_threads(self):
        for payload in ("bytes", "numeric", "exact"):
            for engine in ("reference", "collective", "streamed"):
                with self.subTest(payload=payload, engine=engine):
                    ended = self.local(
                        3, "reshard", "--payload", payload, "--engine", engine, "--probe", "none"
                    )
                    self.assert_all_compared(ended, (6, 640, 576))
                    self.assertEqual(ended.report["case"]["payload"], payload)

    def test_a_checkpoint_is_cut_at_2_and_3_ranks_and_its_layers_are_told_apart(self):
        digests = []
        for layer in ("1", "2"):
            dump = self.folder / f"dump{layer}"
            ended = self.mpi(
                3,
                "reshard",
                "--checkpoint",
                CHECKPOINT,
                "--layer",
                layer,
                "--dump",
                str(dump),
                "--probe",
                "none",
            )
            self.assert_all_compared(ended, (6, 640, 384))
            self.assertEqual(ended.report["case"]["layer"], int(layer))
            layers = {check["id"]: check["layer"] for check in ended.report["checks"]}
            self.assertEqual(layers["transport"], int(layer))
            self.assertEqual(set(layers.values()), {int(layer)})
            digests.append((dump / "tp.rank0.safetensors").read_bytes())
        self.assertNotEqual(*digests)
        ended = self.mpi(
            2, "reshard", "--checkpoint", CHECKPOINT, "--layer", "1", "--probe", "none"
        )
        self.assert_all_compared(ended, (6, 640, 384))

    def test_groups_of_tp_ranks_hold_the_whole_layer_each(self):
        ended = self.mpi(4, "reshard", "--tp", "2", "--probe", "none")
        self.assert_all_compared(ended, (4, 640, 384), groups=2)
        self.assertEqual(ended.report["case"]["groups"], 2)
        self.assertEqual(
            [(r["rank"], r["group"], r["first_expert"]) for r in ended.report["ranks"]],
            [(0, 0, 0), (1, 0, 2), (2, 1, 0), (3, 1, 2)],
        )

    def test_a_model_is_cut_with_fewer_experts(self):
        ended = self.local(
            2, "reshard", "--model", "qwen3-30b", "--experts", "4", "--probe", "none"
        )
        self.assert_all_compared(ended, (4, 2048, 768))

    def test_dumps_are_equal_in_every_byte_between_transports_and_engines(self):
        runs = {"mpi": self.mpi, "local": self.local}
        files = {}
        for engine in ("collective", "streamed", "reference"):
            for name, run in runs.items():
                dump = self.folder / f"{name}-{engine}"
                self.assert_passed(
                    run(
                        3,
                        "reshard",
                        "--engine",
                        engine,
                        "--payload",
                        "numeric",
                        "--seed",
                        "9",
                        "--dump",
                        str(dump),
                        "--probe",
                        "none",
                    )
                )
                files[name, engine] = {
                    path.name: path.read_bytes()
                    for path in sorted(dump.iterdir())
                    if path.name != "manifest.json"
                }
                self.assertEqual(len(files[name, engine]), 6)
        for made in files.values():
            self.assertEqual(made, files["mpi", "collective"])

    def test_two_runs_differ_only_in_run(self):
        reports = [
            copy.deepcopy(self.mpi(2, "reshard", "--probe", "none").report) for _ in range(2)
        ]
        for report in reports:
            self.assertIn("seconds", report.pop("run"))
        self.assertEqual(json.dumps(reports[0]), json.dumps(reports[1]))

    def test_the_report_says_what_the_program_was_built_with(self):
        versions = self.local(2, "reshard", "--probe", "none").report["run"]["versions"]
        self.assertRegex(versions["slicecheck"], r"^\d+\.\d+")
        for name, switch, shape in (
            ("cuda_runtime", "SLICECHECK_CUDA", r"^\d+\.\d+$"),
            ("nccl", "SLICECHECK_NCCL", r"^\d+\.\d+\.\d+$"),
        ):
            self.assertEqual(name in versions, os.environ.get(switch, "OFF") == "ON", versions)
            if name in versions:
                self.assertRegex(versions[name], shape)

    def test_quiet_prints_the_verdict_alone(self):
        ended = self.local(2, "reshard", "--quiet", "--probe", "none")
        self.assertEqual((ended.stdout, ended.stderr), ("verdict: passed\n", ""))

    def test_report_gives_the_table_and_the_code_of_a_report(self):
        self.local(2, "reshard", "--probe", "none")
        path = str(self.folder / "report1.json")
        shown = program.launch([program.PROGRAM, "report", path], self.folder / "none")
        self.assertEqual(shown.code, 0)
        self.assertTrue(shown.stdout.endswith("verdict: passed\n"))
        refused = self.local(2, "reshard", "--hidden", "64")
        self.assertEqual(refused.code, 3)
        code = program.launch(
            [program.PROGRAM, "report", "--exit-code", str(self.folder / "report2.json")],
            self.folder / "none",
        )
        self.assertEqual(code.code, 3)

    def test_report_shows_all_reports_and_ends_with_the_worst(self):
        self.local(2, "reshard", "--probe", "none")
        self.local(2, "reshard", "--hidden", "64")
        paths = [str(self.folder / f"report{number}.json") for number in (1, 2)]
        for order in (paths, paths[::-1]):
            for options, due in ((["--exit-code"], 3), ([], 0)):
                shown = program.launch(
                    [program.PROGRAM, "report", *options, *order], self.folder / "none"
                )
                self.assertEqual(shown.code, due, shown.stdout)
                self.assertEqual(shown.stdout.count("verdict: passed\n"), 1)
                self.assertEqual(shown.stdout.count("verdict: refused\n"), 1)
        alone = program.launch(
            [program.PROGRAM, "report", "--exit-code", *paths[:1] * 2], self.folder / "none"
        )
        self.assertEqual(alone.code, 0, alone.stdout)

    def test_help_and_version_need_no_ranks(self):
        for option in ("--help", "--version"):
            ended = program.launch([program.PROGRAM, option], self.folder / "none", self.folder)
            self.assertEqual((ended.code, ended.stderr), (0, ""))
            self.assertIn("slicecheck", ended.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def assert_fails(self, name, change, check, cause):
        """A checkpoint with one changed tensor of layer 1 fails one check by one finding."""
        folder = self.folder / "checkpoint"
        shutil.copytree(program.ROOT / "golden/checkpoints/tiny-modelopt", folder)
        for path in folder.glob("*.safetensors"):
            path.chmod(0o644)
            tensors = Tensors(path)
            if f"{LAYER}.{name}" in tensors.header:
                change(tensors, f"{LAYER}.{name}")
                tensors.save()
        layer = ("--checkpoint", str(folder), "--layer", "1", "--probe", "none")
        ended = self.local(2, "reshard", *layer)
        self.assert_ended(ended, 1, "failed")
        failed = {c["id"] for c in ended.report["checks"] if c["status"] == "failed"}
        self.assertEqual(failed, {check})
        self.assertEqual([c["differing"] for c in ended.report["checks"] if c["id"] == check], [1])
        self.assertEqual([f["cause"] for f in ended.report["findings"]], [cause])
        return ended.report["findings"][0]

    def test_a_block_scale_that_is_none_fails_its_check(self):
        self.assert_fails(
            "3.up_proj.weight_scale",
            lambda tensors, name: tensors.bytes(name, b"\x7f"),
            "scales.block",
            "block-scale-invalid",
        )

    def test_gate_unlike_up_fails_the_relation(self):
        finding = self.assert_fails(
            "4.up_proj.weight_scale_2",
            lambda tensors, name: tensors.number(name, tensors.value(name) * 0.5),
            "scales.relation",
            "gate-up-scale-mismatch",
        )
        self.assertEqual((finding["side"], finding["layer"]), ("checkpoint", 1))
        self.assertEqual((finding["experts"], finding["ranks"]), ([4], []))
        self.assertIn("expert 4; the largest ratio is 2; ", finding["text"])


if __name__ == "__main__":
    program.main()
