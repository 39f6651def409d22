"""slicecheck verify: dumps of this program and of another engine pass, and what is changed in them
is found, at its place and on its side."""

import json
import shutil
import struct

import dumps
import program

CHECKPOINT = program.ROOT / "golden/checkpoints/tiny-modelopt"
SCALARS = ["g1_alphas", "g1_scale_c", "g2_alphas"]


class Verify(program.ProgramTest):
    def dump(self, *arguments, ranks=2):
        """A dump of this program's own: reshard --dump."""
        folder = self.folder / f"dump{self.runs}"
        ended = self.local(ranks, "reshard", "--probe", "none", *arguments, "--dump", str(folder))
        self.assertEqual(ended.code, 0, ended.stderr + ended.stdout)
        return folder

    def verify(self, *arguments, ranks=1):
        return self.local(ranks, "verify", *map(str, arguments))

    def findings(self, ended, code=1, verdict="failed"):
        self.assert_ended(ended, code, verdict)
        return [(f["side"], f["cause"], f["tensors"]) for f in ended.report["findings"]]

    def checks(self, ended):
        return {check["id"]: check for check in ended.report["checks"]}

    def test_what_reshard_dumps_passes(self):
        for arguments, ranks in (
            (["--payload", "bytes"], 3),
            (["--payload", "numeric", "--experts", "8", "--hidden", "384"], 2),
            (["--payload", "exact"], 2),
            (["--tp", "2"], 4),
            (["--checkpoint", str(CHECKPOINT), "--layer", "2"], 3),
        ):
            with self.subTest(arguments=arguments):
                folder = self.dump(*arguments, ranks=ranks)
                checks = self.assert_passed(self.verify(folder))
                self.assertEqual(checks["placement"]["status"], "passed")
                self.assertGreater(checks["scalars.g2_alphas"]["compared"], 0)
                self.assert_passed(self.verify(folder, ranks=3))
                shutil.rmtree(folder)

    def test_the_seed_is_the_number_that_reshard_has(self):
        for seed in (7, 2**63 - 1, 2**63, 2**64 - 1):
            folder = self.folder / f"seed{seed}"
            made = self.local(
                2, "reshard", "--probe", "none", "--seed", str(seed), "--dump", str(folder)
            )
            for ended in (made, self.verify(folder)):
                self.assert_ended(ended, 0, "passed")
                self.assertEqual(ended.report["case"]["seed"], seed)
            shutil.rmtree(folder)

    def test_one_process_and_many_say_the_same(self):
        folder = self.dump(ranks=4)
        dumps.change(folder / "tp.rank2.safetensors", lambda f: flip(f, "w2", 77777))
        reports = [
            ended.report
            for ended in (
                self.verify(folder),
                self.verify(folder, ranks=4),
                self.mpi(3, "verify", str(folder)),
            )
        ]
        for report in reports:
            self.assertEqual(report["verdict"], "failed")
            self.assertEqual(report["findings"], reports[0]["findings"])
            self.assertEqual(
                {c["id"]: (c["status"], c["compared"], c["differing"]) for c in report["checks"]},
                {
                    c["id"]: (c["status"], c["compared"], c["differing"])
                    for c in reports[0]["checks"]
                },
            )

    def test_dumps_of_one_layer_are_told_apart(self):
        healthy = self.dump("--tp", "2", ranks=4)
        other = self.dump("--tp", "2", ranks=4)
        dumps.change(other / "tp.rank3.safetensors", lambda f: flip(f, "w13", 50000))
        for folder in (healthy, other):
            path = folder / "manifest.json"
            made = {**json.loads(path.read_text(encoding="utf-8")), "layer": 0}
            path.write_text(json.dumps(made), encoding="utf-8")
        for ended in (
            self.verify(healthy, other),
            self.mpi(3, "verify", str(healthy), str(other)),
        ):
            self.assertEqual(self.findings(ended), [("tp", "bit-corruption", ["w13"])])
            (found,) = ended.report["findings"]
            self.assertEqual((found["layer"], found["group"], found["ranks"]), (0, 3, [3]))
            at, there = ("/".join(folder.parts[-2:]) for folder in (healthy, other))
            self.assertTrue(found["text"].startswith(f"{there}: "), found["text"])
            w13 = [c for c in ended.report["checks"] if c["id"] == "bytes.w13"]
            told = [(c["group"], c["status"], c["differing"], c["text"]) for c in w13]
            passed = "passed"
            due = [(0, passed, 0, at), (1, passed, 0, at), (2, passed, 0, there)]
            self.assertEqual(sorted(told), [*due, (3, "failed", 1, there)])

    def test_a_changed_byte_is_placed(self):
        folder = self.dump(ranks=2)
        before = dumps.Tensors.read(folder / "tp.rank1.safetensors").tensors["w13"][2][50000]
        dumps.change(folder / "tp.rank1.safetensors", lambda f: flip(f, "w13", 50000))
        ended = self.verify(folder)
        self.assertEqual(self.findings(ended), [("tp", "bit-corruption", ["w13"])])
        first = ended.report["findings"][0]["first"]
        self.assertEqual(first["rank"], 1)
        self.assertEqual(first["offset"], 50000)
        self.assertEqual(first["want"][:2], f"{before:02x}")
        self.assertEqual(first["got"][:2], f"{before ^ 255:02x}")
        self.assertEqual(self.checks(ended)["bytes.w13"]["differing"], 1)
        self.assertEqual(self.checks(ended)["bytes.w2"]["status"], "passed")

    def test_a_wrong_stock_is_one_finding_and_its_exact_cut_no_second(self):
        folder = self.dump(ranks=2)
        row = 640 // 2
        dumps.change(folder / "stock.rank1.safetensors", lambda f: flip(f, "w13", 3 * row + 5))
        expert_of_rank_1 = 2 * (192 * 2) * row  # tp rank 0: experts 0 and 1 come first
        dumps.change(
            folder / "tp.rank0.safetensors",
            lambda f: flip(f, "w13", expert_of_rank_1 + 3 * row + 5),
        )
        self.assertEqual(self.findings(self.verify(folder)), [("stock", "bit-corruption", ["w13"])])

    def test_an_engine_in_another_language_passes_padded_or_not(self):
        for hidden, intermediate in ((640, 384), (768, 576)):
            for scales in ("U8", "F8_E4M3"):
                with self.subTest(hidden=hidden, scales=scales):
                    folder = self.folder / f"{hidden}{scales}"
                    engine = dumps.Engine(CHECKPOINT, 1, 3, hidden, intermediate)
                    engine.gscales = 6 if scales == "U8" else 2
                    engine.write(folder, scales)
                    self.assert_passed(self.verify(folder))
                    self.assert_passed(self.verify(folder, "--checkpoint", CHECKPOINT))
        wrong_layer = self.verify(folder, "--checkpoint", CHECKPOINT, "--layer", "2")
        self.assert_ended(wrong_layer, 1, "failed")
        self.assertEqual({f["side"] for f in wrong_layer.report["findings"]}, {"stock"})

    def test_declared_padding_is_judged_with_and_without_a_reference(self):
        engine = dumps.Engine(CHECKPOINT, 1, 3, 640, 576)
        dirty = self.folder / "dirty"
        engine.write(dirty)
        # The last row of the last slice of w2's columns: padding of I.
        dumps.change(dirty / "tp.rank2.safetensors", lambda f: flip(f, "w2", -1))
        engine.together = 192
        together = self.folder / "together"
        engine.write(together)
        for more in ([], ["--checkpoint", CHECKPOINT]):
            self.assertEqual(
                self.findings(self.verify(dirty, *more)), [("tp", "padding-dirty", ["w2"])]
            )
            ended = self.verify(together, *more)
            stock = [found for found in self.findings(ended) if found[0] == "stock"]
            self.assertEqual(stock, [("stock", "padding-misplaced", ["w13", "w13_sf"])])

    def test_gate_unlike_up_is_an_error_unless_g1_scale_c_carries_it(self):
        changed = self.folder / "checkpoint"
        shutil.copytree(CHECKPOINT, changed)
        name = "model.layers.1.mlp.experts.4.up_proj.weight_scale_2"
        for path in changed.glob("*.safetensors"):
            path.chmod(0o644)
            file = dumps.Tensors.read(path)
            if name in file.tensors:
                (scale,) = struct.unpack("<f", file.tensors[name][2])
                file.tensors[name][2][:] = struct.pack("<f", scale * 1.25)
                file.write(path)
        checkpoint = ("--checkpoint", changed)
        for carried in (False, True):
            engine = dumps.Engine(changed, 1, 3)
            if carried:
                engine.scalars["g1_scale_c"][4] *= 1.25
            folder = self.folder / f"dump{carried}"
            engine.write(folder)
            for stock in (True, False):
                ended = self.verify(folder, *checkpoint)
                self.assert_ended(ended, *((0, "passed") if carried else (1, "failed")))
                (found,) = ended.report["findings"]
                self.assertEqual(found["cause"], "gate-up-scale-mismatch", stock)
                self.assertEqual(found["severity"], "warning" if carried else "error")
                self.assertEqual((found["side"], found["experts"]), ("checkpoint", [4]))
                self.assertEqual(found["tensors"], ["w1.weight_scale_2", "w3.weight_scale_2"])
                self.assertIn("largest ratio is 1.25; ", found["text"])
                checks = self.checks(ended)
                due = "warning" if carried else "failed"
                self.assertEqual(checks["scales.relation"]["status"], due)
                if stock and not carried:  # without the checkpoint nobody can tell
                    self.assert_passed(self.verify(folder))
                for path in folder.glob("stock.*"):
                    path.unlink()

    def test_files_that_may_be_absent_may_be_absent(self):
        folder = self.dump(ranks=2)
        for rank in (0, 1):
            (folder / f"tp.rank{rank}.safetensors").rename(self.folder / f"kept{rank}")
        ended = self.verify(folder)
        self.assert_ended(ended, 0, "passed")
        self.assertNotIn("scalars.g1_alphas", self.checks(ended))
        for rank in (0, 1):
            (self.folder / f"kept{rank}").rename(folder / f"tp.rank{rank}.safetensors")
            (folder / f"stock.rank{rank}.safetensors").unlink()
        ended = self.verify(folder)
        self.assert_ended(ended, 0, "passed")
        self.assertNotIn("placement", self.checks(ended))
        dumps.change(folder / "tp.rank0.safetensors", lambda f: flip(f, "w2_sf", 0))
        self.assertEqual(self.verify(folder).code, 1)

    def test_several_layers_are_judged_apart(self):
        folders = []
        for layer in (1, 2):
            folders.append(self.folder / f"layer{layer}")
            dumps.Engine(CHECKPOINT, layer, 2).write(folders[-1])
        self.assert_passed(self.verify(*folders, "--checkpoint", CHECKPOINT))
        dumps.change(folders[1] / "tp.rank0.safetensors", lambda f: flip(f, "w2", 9))
        ended = self.verify(*folders)
        self.assert_ended(ended, 1, "failed")
        self.assertEqual([f["layer"] for f in ended.report["findings"]], [2])
        failed = {(c["id"], c["layer"]) for c in ended.report["checks"] if c["status"] == "failed"}
        self.assertEqual(failed, {("bytes.w2", 2)})

    def test_groups_are_judged_apart_in_the_order_that_the_manifest_gives(self):
        folder = self.dump("--tp", "2", ranks=4)
        dumps.change(folder / "tp.rank3.safetensors", lambda f: flip(f, "w2", 9))
        ended = self.verify(folder)
        self.assert_ended(ended, 1, "failed")
        self.assertEqual([f["group"] for f in ended.report["findings"]], [1])
        self.assertEqual([f["ranks"] for f in ended.report["findings"]], [[3]])
        dumps.change(folder / "tp.rank3.safetensors", lambda f: flip(f, "w2", 9))
        # The same files under other numbers, and a manifest that says so.
        order = [2, 0, 3, 1]
        for kind in ("stock", "tp"):
            for rank in range(4):
                (folder / f"{kind}.rank{rank}.safetensors").rename(self.folder / f"{kind}{rank}")
            for rank in range(4):
                (self.folder / f"{kind}{rank}").rename(
                    folder / f"{kind}.rank{order[rank]}.safetensors"
                )
        self.assertEqual(self.verify(folder).code, 3)
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        manifest["ranks"] = [None] * 4
        for rank in range(4):
            manifest["ranks"][order[rank]] = {"group": rank // 2, "rank": rank % 2}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        self.assert_passed(self.verify(folder))

    def test_another_layer_or_seed_is_one_finding_that_says_which(self):
        folder = self.dump("--payload", "bytes", ranks=3)
        path = folder / "manifest.json"
        due = json.loads(path.read_text(encoding="utf-8"))
        for change, said in (
            ({"layer": 5}, "that is layer 0 of seed 1, where layer 5 is due"),
            ({"payload": {"kind": "bytes", "seed": 2}}, "another than 2, which is due"),
        ):
            path.write_text(json.dumps({**due, **change}), encoding="utf-8")
            ended = self.verify(folder)
            tensors = ["w13", "w13_sf", "w2", "w2_sf", "g1_alphas", "g1_scale_c", "g2_alphas"]
            found = self.findings(ended)
            self.assertEqual(found, [("stock", "payload-of-other-layer", tensors)])
            self.assertIn(f"their seed is 1, {said}", ended.report["findings"][0]["text"])

    def test_a_wrong_declaration_of_padding_is_no_other_layer(self):
        folder = self.dump("--payload", "numeric", "--hidden", "256", "--intermediate", "256")
        path = folder / "manifest.json"
        due = json.loads(path.read_text(encoding="utf-8"))
        for change in ({"intermediate_plain": 240}, {"hidden_plain": 240}, {"hidden_plain": 192}):
            with self.subTest(change=change):
                path.write_text(json.dumps({**due, **change}), encoding="utf-8")
                ended = self.verify(folder)
                self.assert_ended(ended, 1, "failed")
                causes = {found["cause"] for found in ended.report["findings"]}
                self.assertFalse(
                    causes & {"payload-of-other-layer", "gate-up-swapped", "rows-not-shuffled"},
                    causes,
                )

    def test_scalars_placement_and_scales_are_named(self):
        def scalar(rank, kind, name, index, edit):
            def change(file):
                data = file.tensors[name][2]
                (value,) = struct.unpack_from("<f", data, 4 * index)
                struct.pack_into("<f", data, 4 * index, edit(value))

            return lambda folder: dumps.change(folder / f"{kind}.rank{rank}.safetensors", change)

        def ulp(value):
            return struct.unpack("<f", struct.pack("<I", dumps.float_bits(value) + 1))[0]

        def first_expert(folder):
            dumps.change(
                folder / "stock.rank1.safetensors",
                lambda file: file.metadata.update(first_expert="0"),
            )

        cases = (
            (scalar(0, "tp", "g1_alphas", 1, ulp), 1, ("tp", "scalar-rounding", ["g1_alphas"])),
            (
                scalar(1, "stock", "a1_gscale", 0, ulp),
                3,
                ("stock", "input-scale-differs-across-ranks", ["a1_gscale"]),
            ),
            (
                scalar(1, "stock", "g1_alphas", 0, lambda value: float("nan")),
                3,
                ("stock", "scale-not-finite-positive", ["g1_alphas"]),
            ),
            (first_expert, 3, ("stock", "not-linear-placement", [])),
        )
        for number, (edit, code, due) in enumerate(cases):
            with self.subTest(due=due):
                folder = self.folder / f"scalars{number}"
                dumps.Engine(CHECKPOINT, 1, 2).write(folder)
                edit(folder)
                ended = self.verify(folder)
                self.assertIn(due, self.findings(ended, code, {1: "failed", 3: "refused"}[code]))

    def test_a_refused_shape_is_said_with_its_dump(self):
        good, bad = self.folder / "good", self.folder / "bad"
        for layer, folder in ((1, good), (2, bad)):
            dumps.Engine(CHECKPOINT, layer, 2).write(folder)
        path = bad / "manifest.json"
        made = {**json.loads(path.read_text(encoding="utf-8")), "experts": 5}
        path.write_text(json.dumps(made), encoding="utf-8")
        ended = self.verify(good, bad)
        self.assert_ended(ended, 3, "refused")
        (line,) = ended.own_lines()
        self.assertIn("/bad: 2 ranks x 2 experts is not 5 experts", line)
        self.assertEqual([found["layer"] for found in ended.report["findings"]], [2])

    def test_scalars_that_differ_are_counted(self):
        engine = dumps.Engine(CHECKPOINT, 1, 3)
        folder = self.folder / "counted"
        engine.write(folder)

        def edit(file):
            for name in SCALARS:
                data = file.tensors[name][2]
                data[4 * 2 : 4 * 2 + 4] = data[4 * 5 : 4 * 5 + 4]

        for rank in range(3):
            dumps.change(folder / f"tp.rank{rank}.safetensors", edit)
        ended = self.verify(folder)
        self.assertEqual(self.findings(ended), [("tp", "expert-mixed", SCALARS)])
        for name in SCALARS:
            check = self.checks(ended)[f"scalars.{name}"]
            told = (check["status"], check["compared"], check["differing"])
            self.assertEqual(told, ("failed", 18, 3))

    def test_scales_that_differ_are_counted(self):
        def rank_1(folder, edit):
            dumps.change(folder / "stock.rank1.safetensors", edit)

        def three_halves(name):
            def edit(file):
                data = file.tensors[name][2]
                for at in range(0, len(data), 4):
                    (value,) = struct.unpack_from("<f", data, at)
                    struct.pack_into("<f", data, at, value * 1.5)

            return edit

        def invalid(file):
            for offset in (3, 700, 701):
                file.tensors["w2_sf"][2][offset] = 0x7F

        for check, edit, code, differing in (
            ("scales.global", three_halves("a2_gscale"), 3, 1),
            ("scales.relation", three_halves("g1_scale_c"), 1, 2),
            ("scales.block", invalid, 1, 3),
        ):
            with self.subTest(check=check):
                folder = self.folder / check
                dumps.Engine(CHECKPOINT, 1, 3).write(folder)
                rank_1(folder, edit)
                ended = self.verify(folder)
                self.assert_ended(ended, code, "failed" if code == 1 else "refused")
                found = self.checks(ended)[check]
                self.assertEqual((found["status"], found["differing"]), ("failed", differing))

    def test_scalars_that_moved_with_their_experts_are_of_the_one_finding(self):
        folder = self.dump("--payload", "numeric", "--experts", "6", ranks=3)
        order = [0, 2, 4, 1, 3, 5]  # round-robin: experts 0 and 5 stay

        def edit(file):
            for name in ("w13", "w13_sf", "w2", "w2_sf", *SCALARS):
                data = file.tensors[name][2]
                each = len(data) // 6
                experts = [bytes(data[e * each : (e + 1) * each]) for e in order]
                file.tensors[name][2] = bytearray(b"".join(experts))

        for rank in range(3):
            dumps.change(folder / f"tp.rank{rank}.safetensors", edit)
        ended = self.verify(folder)
        (found,) = self.findings(ended)
        self.assertEqual(found[0], "tp")
        self.assertIn(found[1], ("placement-round-robin", "placement-permuted"))
        self.assertEqual(found[2], ["w13", "w13_sf", "w2", "w2_sf", *SCALARS])
        for name in SCALARS:
            check = self.checks(ended)[f"scalars.{name}"]
            self.assertEqual((check["status"], check["differing"]), ("failed", 12))

    def test_ranks_must_have_the_same_tp_scalars(self):
        def add(ulp, rank):
            def edit(file):
                data = file.tensors["g1_alphas"][2]
                (bits,) = struct.unpack_from("<I", data, 8)
                struct.pack_into("<I", data, 8, bits + ulp)

            dumps.change(folder / f"tp.rank{rank}.safetensors", edit)

        folder = self.folder / "agreeing"
        dumps.Engine(CHECKPOINT, 1, 3).write(folder)
        for rank in range(3):
            (folder / f"stock.rank{rank}.safetensors").unlink()
        against = (folder, "--checkpoint", CHECKPOINT)
        self.assert_passed(self.verify(*against))
        for rank in range(3):
            add(3, rank)
        self.assert_passed(self.verify(*against))  # 3 ulp of the checkpoint, all alike
        add(-2, 1)  # nearer to the checkpoint, and alone
        ended = self.verify(*against)
        self.assertEqual(self.findings(ended), [("tp", "scalar-rounding", ["g1_alphas"])])
        (found,) = ended.report["findings"]
        self.assertEqual((found["ranks"], found["experts"]), ([1], [2]))
        self.assertIn("2 ulp apart", found["text"])
        self.assertEqual(self.checks(ended)["scalars.g1_alphas"]["differing"], 1)

    def test_tp_scalars_are_moved_and_not_made_again_from_the_checkpoint(self):
        folder = self.folder / "again"
        dumps.Engine(CHECKPOINT, 1, 3).write(folder)

        def edit(file):
            (bits,) = struct.unpack_from("<I", file.tensors["g2_alphas"][2], 0)
            struct.pack_into("<I", file.tensors["g2_alphas"][2], 0, bits + 3)

        dumps.change(folder / "stock.rank1.safetensors", edit)
        ended = self.verify(folder, "--checkpoint", CHECKPOINT)
        self.assertEqual(self.findings(ended), [("tp", "scalar-rounding", ["g2_alphas"])])
        self.assertEqual(ended.report["findings"][0]["experts"], [2])

    def test_a_cut_along_the_other_axis_is_named_by_its_extents(self):
        folder = self.dump(ranks=2)

        def edit(file):
            shape = file.tensors["w2"][1]
            file.tensors["w2"][1] = [shape[0], shape[1] // 2, shape[2] * 2]

        for rank in (0, 1):
            dumps.change(folder / f"tp.rank{rank}.safetensors", edit)
        ended = self.verify(folder)
        self.assertEqual(self.findings(ended), [("tp", "wrong-axis-cut", ["w2"])])
        self.assertEqual(self.checks(ended)["bytes.w2"]["status"], "failed")


def flip(file, tensor, offset):
    file.tensors[tensor][2][offset] ^= 255


if __name__ == "__main__":
    program.main()
