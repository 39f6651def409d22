"""slicecheck audit: healthy checkpoints of every format pass; each fault in a scale is a finding of
the checkpoint that names its layer, tensor and expert."""

import json
import shutil
import struct

import dumps
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

    def edited(self, edit, name=MODELOPT):
        """A copy of a checkpoint whose layers' tensors `edit` has changed or taken out."""
        folder = self.folder / "checkpoint"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(CHECKPOINTS / name, folder)
        index = folder / "model.safetensors.index.json"
        weight_map = {}
        for path in [index, *folder.glob("*.safetensors")]:
            path.chmod(0o644)
        for path in sorted(folder.glob("*.safetensors")):
            file = dumps.Tensors.read(path)
            edit(file.tensors)
            file.write(path)
            weight_map.update({tensor: path.name for tensor in file.tensors})
        index.write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
        return folder

    def without(self, *parts, name=MODELOPT):
        """A copy of a checkpoint without the tensors of layer 1, or of tiny-fused's one layer, that
        hold one of these parts and end with it where it has no dot at its end."""

        def edit(tensors):
            for tensor in list(tensors):
                if name == MODELOPT and not tensor.startswith(LAYER):
                    continue
                if any(
                    part in tensor if part[-1] == "." else tensor.endswith(part) for part in parts
                ):
                    tensors.pop(tensor)

        return self.edited(edit, name)

    def assert_findings(self, folder, due, layer=1):
        """What is due is said, in any order, and nothing else; locally and under mpirun."""
        runs = (self.local(2, "audit", str(folder), "--quiet"),)
        runs += (self.mpi(3, "audit", str(folder), "--quiet"),)
        for ended in runs:
            self.assert_ended(ended, 1, "failed")
            found = ended.report["findings"]
            said = [(f["cause"], f["tensors"], f["experts"]) for f in found]
            self.assertEqual(sorted(said), sorted(due), [f["text"] for f in found])
            for finding in found:
                self.assertEqual((finding["side"], finding["layer"]), ("checkpoint", layer))
                self.assertEqual(finding["severity"], "error")
            lines = {c["layer"]: c["status"] for c in ended.report["checks"]}
            self.assertEqual(lines.pop(layer), "failed")
            self.assertEqual(set(lines.values()) - {"passed"}, set())
        return [f["text"] for f in found]

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

    def test_an_absent_scale_of_any_kind_is_one_finding(self):
        missing = "scale-missing"
        for part in ("weight_scale", "weight_scale_2", "input_scale"):
            folder = self.without(f".3.up_proj.{part}")
            self.assert_findings(folder, [(missing, [f"w3.{part}"], [3])])
        name = "tiny-compressed-tensors"
        for part, tensor in (
            ("weight_scale", "weight_scale"),
            ("weight_global_scale", "weight_scale_2"),
            ("input_global_scale", "input_scale"),
        ):
            folder = self.without(f".0.down_proj.{part}", name=name)
            self.assert_findings(folder, [(missing, [f"w2.{tensor}"], [0])])
        for part in ("weight_scale", "weight_scale_2", "input_scale"):
            folder = self.without(f".gate_up_proj_{part}", name="tiny-fused")
            tensors = [f"w1.{part}", f"w3.{part}"]
            self.assert_findings(folder, [(missing, tensors, [])], layer=2)

    def test_what_is_there_is_judged_beside_what_is_absent(self):
        def edit(tensors):
            tensors.pop(f"{LAYER}.3.up_proj.weight_scale", None)
            tensors.pop(f"{LAYER}.4.up_proj.weight_scale", None)
            scale = tensors.get(f"{LAYER}.3.gate_proj.weight_scale")
            if scale:
                scale[2][7] = 0x7F
            value = tensors.get(f"{LAYER}.5.down_proj.weight_scale_2")
            if value:
                value[2][:] = struct.pack("<f", 0)

        texts = self.assert_findings(
            self.edited(edit),
            [
                ("scale-missing", ["w3.weight_scale"], [3, 4]),
                ("block-scale-invalid", ["w1.weight_scale"], [3]),
                ("scale-not-finite-positive", ["w2.weight_scale_2"], [5]),
            ],
        )
        stem = f"{LAYER}.3.up_proj.weight_scale"
        self.assertTrue(any(f"weight_map: '{stem}': is missing" in text for text in texts), texts)

    def test_absent_experts_are_one_finding_and_the_others_are_judged(self):
        self.assert_findings(self.without(".3."), [("expert-missing", [], [3])])
        self.assert_findings(self.without(".5."), [("expert-missing", [], [5])])
        folder = self.without(".0.", ".3.", ".2.up_proj.weight_scale")
        due = [("expert-missing", [], [0, 3]), ("scale-missing", ["w3.weight_scale"], [2])]
        texts = self.assert_findings(folder, due)
        self.assertTrue(any("experts 0, 3" in text for text in texts), texts)

    def test_scales_that_do_not_belong_to_their_weights_are_named(self):
        cause = "scale-extent-mismatch"

        def shaped(suffix, extents, size):
            def edit(tensors):
                for tensor, entry in tensors.items():
                    if tensor.endswith(suffix) and ".layers.2." in tensor:
                        entry[1:] = [extents, (bytes(entry[2]) * 6)[:size]]

            return edit

        # Scales of all experts beside one's weights.
        folder = self.edited(shaped(".4.gate_proj.weight_scale_2", [6], 24))
        texts = self.assert_findings(folder, [(cause, ["w1.weight_scale_2"], [4])], layer=2)
        self.assertIn("is F32 [6], expected F32 []", texts[0])
        folder = self.edited(shaped(".4.gate_proj.weight_scale", [384, 24], 384 * 24))
        texts = self.assert_findings(folder, [(cause, ["w1.weight_scale"], [4])], layer=2)
        self.assertIn("is F8_E4M3 [384, 24], expected F8_E4M3 [384, 40]", texts[0])
        # Scales of local experts beside all experts' weights.
        for suffix, extents, size, part in (
            ("gate_up_proj_weight_scale", [2, 768, 40], 2 * 768 * 40, "weight_scale"),
            ("gate_up_proj_weight_scale_2", [2, 2], 16, "weight_scale_2"),
            ("gate_up_proj_input_scale", [3], 12, "input_scale"),
        ):
            folder = self.edited(shaped(suffix, extents, size), "tiny-fused")
            self.assert_findings(folder, [(cause, [f"w1.{part}", f"w3.{part}"], [])], layer=2)
        # A reshard cannot use them.
        ended = self.local(3, "reshard", "--checkpoint", str(folder), "--layer", "2", "--quiet")
        self.assert_ended(ended, 2, "unusable")
        (finding,) = ended.report["findings"]
        self.assertEqual((finding["cause"], finding["side"]), (cause, "checkpoint"))
        self.assertEqual((finding["layer"], finding["experts"]), (2, []))

    def test_experts_that_the_config_counts_otherwise_are_named(self):
        for count, cause, experts in ((8, "expert-missing", [6, 7]), (5, "expert-duplicated", [5])):
            for name, layer in ((MODELOPT, 1), ("tiny-fused", 2)):
                folder = self.changed(lambda tensors: None, name)
                path = folder / "config.json"
                config = json.loads(path.read_text(encoding="utf-8"))
                config["num_experts"] = config["num_local_experts"] = count
                path.chmod(0o644)
                path.write_text(json.dumps(config), encoding="utf-8")
                ended = self.local(1, "audit", str(folder), "--layer", str(layer), "--quiet")
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
