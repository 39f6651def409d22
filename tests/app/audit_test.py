"""slicecheck audit: healthy checkpoints of every format pass; each fault in a scale is a finding of
the checkpoint that names its layer, tensor and expert."""

import json
import shutil
import struct

import program

CHECKPOINTS = program.ROOT / "golden/checkpoints"
MODELOPT = "tiny-modelopt"
LAYER = "model.layers.1.mlp.experts"


class Tensors:
    """A safetensors file that can be changed in place."""

    def __init__(self, path):
        self.path = path
        data = bytearray(path.read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        self.header = json.loads(data[8 : 8 + size])
        self.data = data
        self.start = 8 + size

    def place(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self.start + begin, self.start + end

    def number(self, name, value, index=0):
        begin, _ = self.place(name)
        self.data[begin + 4 * index : begin + 4 * index + 4] = struct.pack("<f", value)

    def value(self, name):
        begin, _ = self.place(name)
        return struct.unpack("<f", self.data[begin : begin + 4])[0]

    def bytes(self, name, values):
        begin, _ = self.place(name)
        self.data[begin : begin + len(values)] = values

    def save(self):
        self.path.write_bytes(self.data)


class Audit(program.ProgramTest):
    def changed(self, change, name=MODELOPT):
        """A copy of a checkpoint, each file given to `change` with its tensors' names."""
        folder = self.folder / "checkpoint"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(CHECKPOINTS / name, folder)
        for path in sorted(folder.glob("*.safetensors")):
            path.chmod(0o644)
            tensors = Tensors(path)
            change(tensors)
            tensors.save()
        return folder

    def scale(self, suffix, value):
        def change(tensors):
            for name in tensors.header:
                if name.startswith(LAYER) and name.endswith(suffix):
                    tensors.number(name, value)

        return change

    def assert_finding(self, folder, cause, tensors, experts, code=1):
        ended = self.local(2, "audit", str(folder), "--quiet")
        self.assertEqual(ended.code, code, ended.stdout + ended.stderr)
        self.assertEqual([f["cause"] for f in ended.report["findings"]], [cause])
        finding = ended.report["findings"][0]
        self.assertEqual(finding["side"], "checkpoint")
        self.assertEqual(finding["tensors"], tensors)
        self.assertEqual(finding["experts"], experts)
        self.assertEqual(finding["layer"], 1)

    def test_healthy_checkpoints_pass_with_one_line_a_layer(self):
        for folder in sorted(CHECKPOINTS.iterdir()):
            for ended in (
                self.local(2, "audit", str(folder), "--tp", "3", "--quiet"),
                self.mpi(3, "audit", str(folder), "--quiet"),
            ):
                self.assert_ended(ended, 0, "passed")
                self.assertEqual(ended.report["findings"], [])
                layers = [c["layer"] for c in ended.report["checks"]]
                self.assertEqual(layers, sorted(set(layers)))
                self.assertTrue(layers)

    def test_one_layer_or_a_range_is_audited(self):
        folder = str(CHECKPOINTS / MODELOPT)
        ended = self.local(1, "audit", folder, "--layer", "1", "--quiet")
        self.assertEqual([c["layer"] for c in ended.report["checks"]], [1])
        ended = self.local(1, "audit", folder, "--layer", "1-2", "--quiet")
        self.assertEqual([c["layer"] for c in ended.report["checks"]], [1, 2])
        self.assert_ended(self.local(1, "audit", folder, "--layer", "7", "--quiet"), 2, "unusable")
        self.assert_ended(
            self.local(1, "audit", folder, "--layer", "2-1", "--quiet"), 2, "unusable"
        )

    def test_scales_that_are_none_are_named(self):
        for value in (0.0, -1.0, float("nan"), float("inf"), 1e-40):
            folder = self.changed(self.scale(".3.down_proj.weight_scale_2", value))
            self.assert_finding(folder, "scale-not-finite-positive", ["w2.weight_scale_2"], [3])

    def test_gate_unlike_up_is_named(self):
        def change(tensors):
            name = f"{LAYER}.4.up_proj.weight_scale_2"
            if name in tensors.header:
                tensors.number(name, tensors.value(name) * 1.25)

        tensors = ["w1.weight_scale_2", "w3.weight_scale_2"]
        self.assert_finding(self.changed(change), "gate-up-scale-mismatch", tensors, [4])

    def test_a_divisor_as_multiplier_is_a_warning(self):
        folder = self.changed(self.scale(".2.down_proj.weight_scale_2", 1800.0))
        self.assert_finding(folder, "reciprocal-scale", ["w2.weight_scale_2"], [2], code=0)

    def test_block_scales_that_are_none_are_named(self):
        for byte in (0x7F, 0xFF, 0x81):

            def change(tensors, byte=byte):
                name = f"{LAYER}.5.gate_proj.weight_scale"
                if name in tensors.header:
                    tensors.bytes(name, bytes([byte, byte]))

            folder = self.changed(change)
            self.assert_finding(folder, "block-scale-invalid", ["w1.weight_scale"], [5])

    def test_experts_that_the_config_counts_otherwise_are_named(self):
        for count, cause, experts in ((8, "expert-missing", [6, 7]), (5, "expert-duplicated", [5])):
            folder = self.changed(lambda tensors: None)
            path = folder / "config.json"
            config = json.loads(path.read_text(encoding="utf-8"))
            config["num_experts"] = config["num_local_experts"] = count
            path.chmod(0o644)
            path.write_text(json.dumps(config), encoding="utf-8")
            ended = self.local(1, "audit", str(folder), "--layer", "1", "--quiet")
            self.assertEqual(ended.code, 1, ended.stdout + ended.stderr)
            found = [(f["cause"], f["experts"]) for f in ended.report["findings"]]
            self.assertEqual(found, [(cause, experts)])

    def test_saturated_block_scales_are_a_warning(self):
        def change(tensors):
            name = f"{LAYER}.0.up_proj.weight_scale"
            if name in tensors.header:
                begin, end = tensors.place(name)
                tensors.bytes(name, bytes([0x7E]) * ((end - begin) // 20))

        folder = self.changed(change)
        self.assert_finding(folder, "block-scale-saturated", ["w3.weight_scale"], [0], code=0)


if __name__ == "__main__":
    program.main()
