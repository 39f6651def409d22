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
PARTS = ("weight", "weight_scale", "weight_scale_2", "input_scale")


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

    def configured(self, edit, name=MODELOPT, folder=None):
        """A copy of a checkpoint, or this one, whose config `edit` has changed."""
        folder = folder or self.changed(lambda tensors: None, name)
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        edit(config)
        path.chmod(0o644)
        path.write_text(json.dumps(config), encoding="utf-8")
        return folder

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

    def test_input_scales_all_absent_are_a_finding_where_the_config_quantises_activations(self):
        tensors = [f"w{p}.input_scale" for p in (1, 2, 3)]
        for name, suffix, layer, why in (
            (MODELOPT, ".input_scale", 1, "quant_algo: NVFP4 quantises activations"),
            ("tiny-compressed-tensors", ".input_global_scale", 1, "config_groups: 'group_0'"),
            ("tiny-fused", "_input_scale", 2, "quant_algo: NVFP4 quantises activations"),
        ):
            folder = self.without(suffix, name=name)
            texts = self.assert_findings(folder, [("scale-missing", tensors, [])], layer)
            self.assertIn("of all experts", texts[0])
            self.assertIn(f"config.json: {why}", texts[0])
        # A reshard cannot do without them either.
        ended = self.local(3, "reshard", "--checkpoint", str(folder), "--layer", "2", "--quiet")
        self.assert_ended(ended, 2, "unusable")
        found = {(f["cause"], f["side"], f["layer"]) for f in ended.report["findings"]}
        self.assertEqual(found, {("scale-missing", "checkpoint", 2)})

    def test_input_scales_may_be_absent_where_activations_are_not_quantised(self):
        def weight_only(config):
            config["quantization_config"]["quant_algo"] = "W4A16_NVFP4"

        def inputs(value):
            def edit(config):
                groups = config["quantization_config"]["config_groups"]
                groups["group_0"]["input_activations"] = value

            return edit

        for name, suffix, edit in (
            (MODELOPT, ".input_scale", weight_only),
            (MODELOPT, ".input_scale", lambda config: config.pop("quantization_config")),
            ("tiny-compressed-tensors", ".input_global_scale", inputs(None)),
            ("tiny-compressed-tensors", ".input_global_scale", inputs({"dynamic": True})),
        ):
            folder = self.configured(edit, folder=self.without(suffix, name=name))
            if name == MODELOPT:
                (folder / "hf_quant_config.json").unlink()
            ended = self.local(2, "audit", str(folder), "--quiet")
            self.assert_ended(ended, 0, "passed")
            self.assertEqual(ended.report["findings"], [])

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

                def edit(config, count=count):
                    config["num_experts"] = config["num_local_experts"] = count

                folder = self.configured(edit, name)
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

    def test_one_projection_of_another_kind_is_a_finding_and_the_rest_is_judged(self):
        stem = f"{LAYER}.4.up_proj"

        def bf16(tensors):
            if f"{stem}.weight" in tensors:
                tensors[f"{stem}.weight"] = ["BF16", [384, 640], bytes(2 * 384 * 640)]
            scale = tensors.get(f"{LAYER}.3.gate_proj.weight_scale")
            if scale:
                scale[2][7] = 0x7F

        texts = self.assert_findings(
            self.edited(bf16),
            [
                ("shape-unsupported", ["w3.weight"], [4]),
                ("block-scale-invalid", ["w1.weight_scale"], [3]),
            ],
        )
        text = next(text for text in texts if "shape-unsupported" not in text and "BF16" in text)
        self.assertIn(f"'{stem}.weight': is BF16 [384, 640]", text)

        def whole_expert(tensors):
            for name in list(tensors):
                if name.startswith(f"{LAYER}.0."):
                    dtype, shape, data = tensors.pop(name)
                    if name.endswith(".weight"):
                        shape = [shape[0], 2 * shape[1]]
                        tensors[name] = ["BF16", shape, bytes(4 * len(data))]

        due = ("shape-unsupported", ["w1.weight", "w2.weight", "w3.weight"], [0])
        self.assert_findings(self.edited(whole_expert), [due])

        def biased(tensors):
            if f"{stem}.weight" in tensors:
                tensors[f"{stem}.bias"] = ["F32", [384], bytes(4 * 384)]

        folder = self.edited(biased)
        texts = self.assert_findings(folder, [("shape-unsupported", ["w3.bias"], [4])])
        self.assertIn("experts with biases are not supported", texts[0])
        ended = self.local(2, "reshard", "--checkpoint", str(folder), "--layer", "1", "--quiet")
        self.assert_ended(ended, 3, "refused")

    def test_one_scale_of_another_block_is_a_finding(self):
        def halved(tensors):
            scale = tensors.get(f"{LAYER}.4.up_proj.weight_scale")
            if scale:
                scale[1:] = [[384, 20], scale[2][::2]]

        due = [("scale-extent-mismatch", ["w3.weight_scale"], [4])]
        texts = self.assert_findings(self.edited(halved), due)
        self.assertIn("is F8_E4M3 [384, 20], expected F8_E4M3 [384, 40]", texts[0])

    def test_one_stacked_tensor_of_another_kind_is_a_finding(self):
        stem = "model.language_model.layers.2.mlp.experts"

        def bf16(tensors):
            tensors[f"{stem}.down_proj"] = ["BF16", [6, 640, 384], bytes(2 * 6 * 640 * 384)]

        folder = self.edited(bf16, "tiny-fused")
        self.assert_findings(folder, [("shape-unsupported", ["w2.weight"], [])], layer=2)

        def biased(tensors):
            tensors[f"{stem}.gate_up_proj_bias"] = ["BF16", [6, 768], bytes(2 * 6 * 768)]

        folder = self.edited(biased, "tiny-fused")
        due = ("shape-unsupported", ["w1.bias", "w3.bias"], [])
        self.assert_findings(folder, [due], layer=2)

    def test_experts_that_the_config_leaves_out_in_part_are_a_finding(self):
        def ignoring(entries):
            def edit(config):
                config["quantization_config"]["ignore"] = entries

            return self.configured(edit)

        folder = ignoring([f"{LAYER}.4.up_proj", f"{LAYER}.2.up_proj"])
        texts = self.assert_findings(folder, [("shape-unsupported", ["w3.weight"], [2, 4])])
        self.assertIn("ignore", texts[0])
        folder = ignoring([f"{LAYER}.*"])
        ended = self.local(2, "audit", str(folder), "--quiet")
        self.assert_ended(ended, 0, "passed")
        lines = {c["layer"]: c["status"] for c in ended.report["checks"]}
        self.assertEqual(lines, {1: "skipped", 2: "passed"})

    def test_a_config_that_says_other_numbers_of_the_weights_is_a_finding(self):
        def weights(field, value):
            def edit(config):
                groups = config["quantization_config"]["config_groups"]
                groups["group_0"]["weights"][field] = value

            return edit

        due = [("shape-unsupported", [], [])]
        for field, value, why in (
            ("num_bits", 8, "num_bits: is 8, NVFP4 has 4"),
            ("type", "int", "type: is 'int', NVFP4 has 'float'"),
            ("group_size", 32, "group_size: is 32, NVFP4 has 16"),
        ):
            folder = self.configured(weights(field, value), "tiny-compressed-tensors")
            texts = self.assert_findings(folder, due)
            self.assertIn(f"config.json: config_groups: 'group_0': weights: {why}", texts[0])
            run = ("reshard", "--checkpoint", str(folder), "--layer", "1", "--quiet")
            ended = self.local(3, *run)
            self.assert_ended(ended, 3, "refused")
            self.assertIn(why, ended.report["findings"][0]["text"])

        def block(config):
            config["quantization_config"]["group_size"] = 32

        texts = self.assert_findings(self.configured(block, "tiny-fused"), due, layer=2)
        self.assertIn("config.json: group_size: is 32, NVFP4 has 16", texts[0])

    def test_a_config_that_says_other_sizes_than_the_experts_is_a_finding(self):
        name = "tiny-compressed-tensors"
        for field, value, why in (
            ("hidden_size", 768, "H 640"),
            ("hidden_size", 320, "H 640"),
            ("moe_intermediate_size", 512, "I 384"),
            ("moe_intermediate_size", 192, "I 384"),
        ):
            folder = self.configured(lambda config: config.update({field: value}), name)
            texts = self.assert_findings(folder, [("shape-unsupported", [], [])])
            self.assertIn(f"config.json: {field}: is {value}, but the experts of ", texts[0])
            self.assertIn(f" have {why}", texts[0])
            ended = self.local(3, "reshard", "--checkpoint", str(folder), "--layer", "1", "--quiet")
            self.assert_ended(ended, 3, "refused")
        # Padding to a multiple of 128 would explain this one.
        folder = self.configured(lambda config: config.update(moe_intermediate_size=320), name)
        self.assert_finding(folder, "shape-unsupported", [], [], code=0)
        # Of a latent model the experts see another width, which tiny-fused says.
        folder = self.configured(lambda config: config.update(hidden_size=1280), "tiny-fused")
        self.assert_ended(self.local(2, "audit", str(folder), "--quiet"), 0, "passed")

    def test_what_a_reshard_refuses_names_the_checkpoints_layer(self):
        for make, code, cause, ranks in (
            (
                lambda: self.changed(self.scale("weight_scale_2", 1e-37)),
                3,
                "scale-not-finite-positive",
                2,
            ),
            (lambda: CHECKPOINTS / MODELOPT, 3, "shape-unsupported", 4),
            (lambda: self.without(".3."), 2, "expert-missing", 2),
        ):
            folder = make()
            run = ("reshard", "--checkpoint", str(folder), "--layer", "1", "--quiet")
            for ended in (self.local(ranks, *run), self.mpi(ranks, *run)):
                self.assertEqual(ended.code, code, ended.stdout + ended.stderr)
                found = {(f["cause"], f["side"], f["layer"]) for f in ended.report["findings"]}
                self.assertEqual(found, {(cause, "checkpoint", 1)})

    def test_layers_that_are_not_nvfp4_at_all_are_lines(self):
        def bf16(tensors):
            for name in list(tensors):
                if name.startswith(LAYER):
                    dtype, shape, data = tensors.pop(name)
                    if name.endswith(".weight"):
                        shape = [shape[0], 2 * shape[1]]
                        tensors[name] = ["BF16", shape, bytes(4 * len(data))]

        ended = self.local(2, "audit", str(self.edited(bf16)), "--quiet")
        self.assert_ended(ended, 0, "passed")
        self.assertEqual(ended.report["findings"], [])
        self.assertEqual([c["status"] for c in ended.report["checks"]], ["skipped", "passed"])

    def test_kinds_of_nvfp4_experts_that_no_cut_takes_are_findings(self):
        def transposed(tensors):
            for name, entry in tensors.items():
                if len(entry[1]) == 3:
                    entry[1] = [entry[1][0], entry[1][2], entry[1][1]]

        def gpt_oss(config):
            config["model_type"] = "gpt_oss"

        for make, edit, why in (
            (self.edited, transposed, "transposed"),
            (self.configured, gpt_oss, "interleaved"),
        ):
            folder = make(edit, "tiny-fused")
            texts = self.assert_findings(folder, [("shape-unsupported", [], [])], layer=2)
            self.assertIn(why, texts[0])
            run = ("reshard", "--checkpoint", str(folder), "--layer", "2", "--quiet")
            ended = self.local(2, *run)
            self.assert_ended(ended, 3, "refused")
            found = [(f["cause"], f["side"], f["layer"]) for f in ended.report["findings"]]
            self.assertEqual(set(found), {("shape-unsupported", "checkpoint", 2)})

        # As the Nemotron family has them.
        ungated = self.without(*(f".gate_proj.{p}" for p in PARTS))
        texts = self.assert_findings(ungated, [("shape-unsupported", [], [])])
        self.assertIn("not gated", texts[0])

    def test_scales_that_were_left_out_as_ones_are_named(self):
        due = [("scale-dropped", [f"w{p}.weight_scale_2" for p in (1, 2, 3)], [])]
        folder = self.changed(self.scale("weight_scale_2", 1.0))
        self.assert_findings(folder, due)
        folder = self.changed(self.scale(".2.down_proj.weight_scale_2", 1.0))
        self.assert_ended(self.local(2, "audit", str(folder), "--quiet"), 0, "passed")

    def test_derived_scales_that_are_none_are_named(self):
        cause = "scale-not-finite-positive"
        folder = self.changed(self.scale("weight_scale_2", 1e-37))
        self.assert_findings(folder, [(cause, ["g1_alphas", "g2_alphas"], [])])
        folder = self.changed(self.scale("input_scale", 1e38))
        texts = self.assert_findings(folder, [(cause, ["a1_gscale", "a2_gscale"], [])])
        self.assertIn("a1_gscale is denormal", texts[0])

    def test_whether_the_ranks_asked_about_can_cut_the_shape_is_said(self):
        folder = str(CHECKPOINTS / MODELOPT)
        ended = self.local(2, "audit", folder, "--tp", "3", "--quiet")
        self.assert_ended(ended, 0, "passed")
        self.assertIn("tp 2, 3 can cut it", ended.report["checks"][0]["text"])
        for tp, why in (
            (4, "intermediate slice 96 and hidden 640 must be multiples of 64 and 128"),
            (5, "intermediate 384 does not split 5 ways"),
            (64, "intermediate slice 6 and hidden 640 must be multiples of 64 and 128"),
        ):
            ended = self.local(2, "audit", folder, "--tp", str(tp), "--quiet")
            self.assert_ended(ended, 1, "failed")
            found = [(f["cause"], f["side"], f["layer"]) for f in ended.report["findings"]]
            self.assertEqual(found, [("shape-unsupported", "checkpoint", n) for n in (1, 2)])
            self.assertIn(why, ended.report["findings"][0]["text"])

    def test_a_shape_that_no_number_of_ranks_can_cut_is_a_finding(self):
        def narrow(rows):
            def edit(tensors):
                for name, entry in tensors.items():
                    if not name.endswith(("weight", "weight_scale")) or "experts" not in name:
                        continue
                    dtype, shape, data = entry
                    kept = [rows, shape[1]]
                    if "down_proj" in name:
                        kept = [shape[0], shape[1] * rows // 384]
                    entry[1:] = [kept, data[: kept[0] * kept[1]]]

            return edit

        def narrowed(rows):
            folder = self.edited(narrow(rows))
            return str(
                self.configured(lambda c: c.update(moe_intermediate_size=rows), folder=folder)
            )

        ended = self.local(2, "audit", narrowed(192), "--quiet")
        self.assert_ended(ended, 0, "passed")
        self.assertIn("tp 3 can cut it", ended.report["checks"][0]["text"])
        ended = self.local(2, "audit", narrowed(64), "--quiet")
        self.assert_ended(ended, 1, "failed")
        causes = {(f["cause"], f["side"]) for f in ended.report["findings"]}
        self.assertEqual(causes, {("shape-unsupported", "checkpoint")})


if __name__ == "__main__":
    program.main()
