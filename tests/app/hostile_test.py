"""Files that are wrong in every way that files can be: exit 2 on every rank, one line on stderr
that names the file and the field, and a report. Nobody crashes, nobody waits."""

import json
import os
import shutil
import struct

import dumps
import program

CHECKPOINT = program.ROOT / "golden/checkpoints/tiny-modelopt"
TP = "tp.rank1.safetensors"
STOCK = "stock.rank0.safetensors"


def header_edit(edit):
    """Changes the header's JSON alone; the bytes behind it stay."""

    def change(path):
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        text = edit(header)
        text = (json.dumps(header) if text is None else text).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return change


def entry_edit(tensor, **members):
    return header_edit(lambda header: header[tensor].update(members))


def raw_header(text):
    return lambda path: path.write_bytes(struct.pack("<Q", len(text)) + text.encode())


def truncated(at):
    def change(path):
        data = path.read_bytes()
        path.write_bytes(data[: at if at >= 0 else len(data) + at])

    return change


def manifest_edit(**members):
    def change(path):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest.update(members)
        path.write_text(json.dumps(manifest), encoding="utf-8")

    return change


def text(content):
    return lambda path: path.write_bytes(content.encode())


def folder_instead(path):
    path.unlink()
    path.mkdir()


def pipe_instead(path):
    path.unlink()
    os.mkfifo(path)


def link_to_itself(path):
    path.unlink()
    path.symlink_to(path)


def link_out(path):
    outside = path.parent.parent / f"outside-{path.name}"
    path.replace(outside)
    path.symlink_to(outside)


def link_in(path):
    inside = path.parent / "inside"
    inside.mkdir(exist_ok=True)
    path.replace(inside / path.name)
    path.symlink_to(f"inside/{path.name}")


def rank_too_many(path):
    shutil.copy(path.parent / TP, path.parent / "tp.rank2.safetensors")


def removed_tensor(name):
    def change(path):
        dumps.change(path, lambda file: file.tensors.pop(name))

    return change


def metadata(**members):
    return lambda path: dumps.change(path, lambda file: file.metadata.update(members))


def double_key(header):
    return json.dumps(header)[:-1] + ', "w13": ' + json.dumps(header["w13"]) + "}"


def of_two_values(file):
    file.tensors["a1_gscale"] = dumps.f32([1.0, 2.0])


# (file, what is done to it, words that the line must hold)
DUMP_CASES = (
    (TP, truncated(0), ["header length", "0 bytes"]),
    (TP, truncated(7), ["header length", "7 bytes"]),
    (TP, truncated(8), ["header length", "0 bytes behind it"]),
    (TP, truncated(100), ["header length"]),
    (TP, truncated(-1), ["g2_alphas", "data_offsets"]),
    (TP, truncated(-100000), ["data_offsets"]),
    (TP, lambda p: p.write_bytes(struct.pack("<Q", 1 << 63) + b"{}"), ["header length", "is 9223"]),
    (TP, lambda p: p.write_bytes(struct.pack("<Q", 10**8 + 1) + b"{}"), ["header length"]),
    (TP, raw_header("not json at all"), ["header", "does not begin with '{'"]),
    (TP, raw_header('{"w13": NaN}'), ["header", "not JSON at byte 9"]),
    (TP, raw_header('{"w13": ' + "[" * 100000), ["header", "'w13'"]),
    (TP, raw_header('{"w13": {"x": ' + "[" * 100000), ["header", "nests deeper than 128"]),
    (TP, raw_header('{"w13": {"x": 1e999999}}'), ["header", "number out of range"]),
    (TP, header_edit(double_key), ["header", "'w13' stands twice"]),
    (TP, entry_edit("w13", data_offsets=[0, 1 << 62]), ["'w13'", "data_offsets"]),
    (TP, entry_edit("w2", data_offsets=[5, 10]), ["'w2'", "data_offsets"]),
    (TP, entry_edit("w2", shape=[1 << 62, 1 << 62]), ["'w2'", "shape"]),
    (TP, entry_edit("w2", shape=[-1]), ["'w2'", "shape"]),
    (TP, entry_edit("w2", dtype="Q4"), ["'w2'", "dtype"]),
    (TP, entry_edit("w2", dtype="I8"), ["w2: is I8"]),
    (TP, entry_edit("g1_alphas", dtype="I32"), ["g1_alphas: is I32"]),
    (TP, lambda p: dumps.change(p, lambda f: f.tensors["w2"][1].reverse()), ["w2: is U8"]),
    (TP, removed_tensor("w13_sf"), ["w13_sf: is missing"]),
    (TP, removed_tensor("g2_alphas"), ["g2_alphas: is missing"]),
    (TP, metadata(intermediate="63"), ["__metadata__: intermediate: is 63"]),
    (TP, metadata(num_experts="x"), ["__metadata__: num_experts"]),
    (TP, folder_instead, ["is a folder, expected a file"]),
    (TP, pipe_instead, ["is a pipe, expected a file"]),
    (TP, link_to_itself, ["cannot be opened"]),
    (TP, lambda p: p.unlink(), ["is missing"]),
    (STOCK, removed_tensor("a2_gscale"), ["a2_gscale: is missing"]),
    (STOCK, lambda p: dumps.change(p, of_two_values), ["a1_gscale: value 1 has other bits"]),
    (STOCK, metadata(first_expert="-1"), ["first_expert: is '-1'"]),
    (STOCK, lambda p: dumps.change(p, lambda f: f.metadata.clear()), ["first_expert: is missing"]),
    ("manifest.json", text(""), ["not JSON"]),
    ("manifest.json", text("[1"), ["not JSON"]),
    ("manifest.json", text("[]"), ["is not an object"]),
    ("manifest.json", text("[" * 1000000), ["nests deeper"]),
    ("manifest.json", text('{"world": 1, "world": 2}'), ["'world' stands twice"]),
    ("manifest.json", manifest_edit(format="slicecheck-dump/9"), ["format", "'slicecheck-dump/9'"]),
    ("manifest.json", manifest_edit(world=4, tp=2), ["rank2.safetensors: is missing"]),
    ("manifest.json", manifest_edit(world=0), ["world"]),
    ("manifest.json", manifest_edit(world=1 << 64), ["world"]),
    ("manifest.json", manifest_edit(experts=6), ["w13: is U8"]),
    ("manifest.json", manifest_edit(hidden=768), ["w13: is U8"]),
    ("manifest.json", manifest_edit(hidden="640"), ["hidden"]),
    ("manifest.json", manifest_edit(tp=3), ["tp"]),
    ("manifest.json", manifest_edit(engine=None), ["engine"]),
    ("manifest.json", manifest_edit(payload={"kind": "x", "seed": 1}), ["payload"]),
    ("manifest.json", manifest_edit(ranks=[{"group": 0, "rank": 5}]), ["ranks"]),
    ("manifest.json", manifest_edit(intermediate_plain=1000), ["intermediate_plain"]),
    ("manifest.json", folder_instead, ["is a folder, expected a file"]),
    ("manifest.json", lambda p: p.unlink(), ["cannot be opened"]),
    (TP, link_out, ["is a symbolic link that leaves the folder"]),
    (STOCK, link_out, ["is a symbolic link that leaves the folder"]),
    ("manifest.json", link_out, ["is a symbolic link that leaves the folder"]),
    (
        "manifest.json",
        rank_too_many,
        ["tp.rank2.safetensors: is of no rank, the manifest's world is 2"],
    ),
)

SHARD = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def index_edit(edit):
    def change(path):
        index = json.loads(path.read_text(encoding="utf-8"))
        edit(index["weight_map"])
        path.write_text(json.dumps(index), encoding="utf-8")

    return change


def to_file(name):
    return index_edit(lambda weights: weights.update({key: name for key in weights}))


GATE = "model.layers.1.mlp.experts.1.gate_proj"
CHECKPOINT_CASES = (
    (SHARD, truncated(0), ["header length"]),
    (SHARD, truncated(5000), ["header length"]),
    (SHARD, truncated(-1), ["data_offsets"]),
    (SHARD, lambda p: p.unlink(), ["cannot be opened"]),
    (SHARD, folder_instead, ["is a folder"]),
    (SHARD, removed_tensor(f"{GATE}.weight"), [f"'{GATE}.weight' is missing"]),
    (SHARD, entry_edit(f"{GATE}.weight_scale_2", dtype="I32"), ["weight_scale_2", "is I32"]),
    (INDEX, text("{}"), ["weight_map: is missing"]),
    (INDEX, text('{"weight_map": {"a": "b", "a": "c"}}'), ["'a' stands twice"]),
    (INDEX, text("nonsense"), ["not JSON"]),
    (INDEX, to_file("../x.safetensors"), ["weight_map", "inside the folder"]),
    (INDEX, to_file("/etc/passwd"), ["weight_map", "inside the folder"]),
    (INDEX, to_file("none.safetensors"), ["none.safetensors: cannot be opened"]),
    (
        INDEX,
        index_edit(lambda weights: weights.pop(f"{GATE}.weight")),
        [f"'{GATE}.weight': is missing"],
    ),
    ("config.json", text("{"), ["not JSON"]),
    ("config.json", text('{"num_experts": 7}'), ["num_experts: is 7"]),
    ("hf_quant_config.json", text("[]"), ["is not an object"]),
    (SHARD, link_out, ["is a symbolic link that leaves the folder"]),
    (INDEX, link_out, ["is a symbolic link that leaves the folder"]),
    ("config.json", link_out, ["is a symbolic link that leaves the folder"]),
)


class Hostile(program.ProgramTest):
    def assert_unusable(self, ended, file, words):
        self.assert_ended(ended, 2, "unusable")
        lines = ended.own_lines()
        self.assertEqual(len(lines), 1, ended.stderr)
        for word in [file, *words]:
            self.assertIn(word, lines[0])
        return ended

    def dump(self):
        folder = self.folder / "dump"
        if not folder.exists():
            ended = self.local(2, "reshard", "--probe", "none", "--dump", str(folder))
            self.assertEqual(ended.code, 0, ended.stderr)
        return folder

    def broken(self, healthy, file, edit):
        folder = self.folder / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(healthy, folder)
        for each in folder.iterdir():
            each.chmod(0o644)
        edit(folder / file)
        return folder

    def test_broken_dumps(self):
        for number, (file, edit, words) in enumerate(DUMP_CASES):
            with self.subTest(number=number, file=file, words=words):
                folder = self.broken(self.dump(), file, edit)
                # A missing file is told by its name, and not the manifest that asks for it.
                name = file if "rank2" not in words[0] and "w13: is" not in words[0] else ""
                self.assert_unusable(self.local(1, "verify", str(folder)), name, words)

    def test_broken_dumps_under_mpirun(self):
        for number in (0, 5, 6, 26, 34, 40):
            file, edit, words = DUMP_CASES[number]
            with self.subTest(number=number, file=file, words=words):
                folder = self.broken(self.dump(), file, edit)
                name = "" if "rank2" in words[0] else file
                self.assert_unusable(self.mpi(3, "verify", str(folder)), name, words)

    def test_a_scale_that_a_file_lacks_or_has_of_others_is_told_with_its_side_rank_and_tensor(self):
        def of_others(name):
            """Scales of all 4 experts where the 2 of a rank are due, or the reverse."""

            def change(file):
                held = file.tensors[name]
                half = len(held[2]) // 2
                twice = held[1][0] == 2
                held[2] = held[2] * 2 if twice else held[2][:half]
                held[1] = [4 if twice else 2, *held[1][1:]]

            return lambda path: dumps.change(path, change)

        missing, extent = "scale-missing", "scale-extent-mismatch"
        for side, rank, tensor, cause, edit in (
            ("tp", 1, "w2_sf", missing, removed_tensor("w2_sf")),
            ("tp", 0, "g1_scale_c", missing, removed_tensor("g1_scale_c")),
            ("stock", 1, "a1_gscale", missing, removed_tensor("a1_gscale")),
            ("stock", 1, "w13_sf", extent, of_others("w13_sf")),
            ("tp", 1, "g2_alphas", extent, of_others("g2_alphas")),
        ):
            file = f"{side}.rank{rank}.safetensors"
            folder = self.broken(self.dump(), file, edit)
            for launch in (self.local, self.mpi):
                with self.subTest(side=side, tensor=tensor, launch=launch.__name__):
                    ended = launch(2, "verify", str(folder))
                    self.assert_unusable(ended, file, [tensor])
                    (found,) = ended.report["findings"]
                    self.assertEqual(found["cause"], cause)
                    self.assertEqual(found["side"], side)
                    self.assertEqual(found["ranks"], [rank])
                    self.assertEqual(found["tensors"], [tensor])

    def test_broken_checkpoints(self):
        for number, (file, edit, words) in enumerate(CHECKPOINT_CASES):
            with self.subTest(number=number, file=file, words=words):
                folder = self.broken(CHECKPOINT, file, edit)
                named = "" if "cannot be opened" in words[0] else file
                arguments = ["reshard", "--checkpoint", str(folder), "--layer", "1"]
                self.assert_unusable(self.local(2, *arguments), named, words)

    def test_broken_checkpoints_under_mpirun(self):
        for number in (2, 3, 7):
            file, edit, words = CHECKPOINT_CASES[number]
            with self.subTest(number=number, file=file, words=words):
                folder = self.broken(CHECKPOINT, file, edit)
                arguments = ["reshard", "--checkpoint", str(folder), "--layer", "1"]
                self.assert_unusable(self.mpi(2, *arguments), "", words)

    def test_links_inside_the_folder_are_followed(self):
        folder = self.broken(self.dump(), TP, link_in)
        link_in(folder / STOCK)
        link_in(folder / "manifest.json")
        self.assert_passed(self.local(1, "verify", str(folder)))
        folder = self.broken(CHECKPOINT, SHARD, link_in)
        link_in(folder / INDEX)
        ended = self.local(2, "reshard", "--checkpoint", str(folder), "--layer", "1")
        self.assert_passed(ended)

    def test_what_is_no_case(self):
        sound = json.loads((program.ROOT / "golden/corpus/reshard-two-m-tiles.json").read_text())
        shape = sound["shape"]

        def case(**members):
            return lambda path: path.write_text(json.dumps({**sound, **members}), encoding="utf-8")

        def instead(make):
            def change(path):
                path.touch()
                make(path)

            return change

        for number, (make, word) in enumerate(
            (
                (case(shape={**shape, "hidden": 100}), "shape: "),
                (case(shape={**shape, "hidden": 1}), "shape: "),
                (case(shape={**shape, "intermediate": 100}), "shape: "),
                (case(shape={**shape, "tp": 1}), "shape: "),
                (case(shape={**shape, "experts": 1 << 40}), "is not in [1, 65536]"),
                (case(shape={**shape, "hidden": 65536, "intermediate": 65536}), "larger than"),
                (case(shape=[]), "shape.experts: is no whole number"),
                (case(again="1"), "again: is no whole number"),
                (case(law="No.such_law"), "law: no law is named"),
                (lambda path: path.write_text('{"again": 1, "again": 1}'), "'again' stands twice"),
                (lambda path: path.write_bytes(b"\xff\n"), "not JSON"),
                (lambda path: path.write_text("[" * 100000), "nests deeper"),
                (lambda path: path.write_bytes(b" " * ((1 << 20) + 1)), "expected at most 1048576"),
                (instead(folder_instead), "is a folder, expected a file"),
                (instead(pipe_instead), "is a pipe, expected a file"),
            )
        ):
            with self.subTest(word=word, number=number):
                path = self.folder / f"case{number}"
                make(path)
                self.assert_unusable(self.local(2, "replay", str(path)), path.name, [word])
        path = self.folder / "two\nlines"
        self.assert_unusable(self.local(2, "replay", str(path)), "two\\x0alines", ["opened"])

    def test_a_report_that_contradicts_itself_has_no_exit_code(self):
        ended = self.local(2, "reshard", "--probe", "none")
        made = ended.report
        path = self.folder / "edited.json"
        first, *others = made["checks"]
        finding = {"cause": "unexplained", "severity": "error", "side": "tp", "text": "x"}
        finding |= {"tensors": [], "ranks": [], "experts": [], "layer": 0, "group": 0}
        finding |= {"explained": 1.0, "also_possible": []}
        for members, word in (
            ({"checks": [{**first, "status": "failed"}, *others]}, "verdict: is passed, but"),
            ({"findings": [finding]}, "verdict: is passed, but the checks and findings say failed"),
            ({"checks": []}, "say not-run"),
            ({"checks": [{**first, "status": "skipped"}]}, "say not-run"),
            ({"checks": [{**first, "id": "control.x", "status": "failed"}]}, "say inconclusive"),
            ({"checks": [{**first, "compared": -1}]}, "/checks/0/compared: is not what"),
            ({"checks": [{**first, "id": "A B\n"}]}, "/checks/0/id: is not what"),
            ({"more": 1}, "/more: is not what"),
        ):
            with self.subTest(word=word):
                path.write_text(json.dumps({**made, **members}), encoding="utf-8")
                told = program.launch(
                    [program.PROGRAM, "report", "--exit-code", str(path)], self.folder / "none"
                )
                self.assertEqual(told.code, 2, told.stdout + told.stderr)
                (line,) = told.stderr.splitlines()
                self.assertIn(f"edited.json: {word}" if word[0] in "/v" else word, line)

    def test_what_is_no_report(self):
        path = self.folder / "old\nreport.json"
        made = json.loads((program.ROOT / "tests/report/example.json").read_text("utf-8"))
        for name, value in (("checks", None), ("verdict", "x\ny"), ("command", 1), ("schema", "")):
            with self.subTest(name=name):
                path.write_text(json.dumps({**made, name: value}), encoding="utf-8")
                ended = program.launch([program.PROGRAM, "report", str(path)], path / "none")
                self.assertEqual(ended.code, 2, ended.stderr)
                (line,) = ended.stderr.splitlines()
                self.assertIn("report.json: ", line)
                self.assertIn(f"{name}: is ", line.replace(": type must be", ": is"))
        for instead in (lambda: path.write_bytes(b"\xff\n"), lambda: pipe_instead(path)):
            instead()
            ended = program.launch([program.PROGRAM, "report", str(path)], path / "none")
            self.assertEqual(ended.code, 2, ended.stderr)
            self.assertEqual(len(ended.stderr.splitlines()), 1, ended.stderr)

    def test_what_is_no_dump(self):
        self.assert_unusable(self.local(1, "verify", str(self.folder / "none")), "none", [])
        (self.folder / "empty").mkdir()
        self.assert_unusable(
            self.local(1, "verify", str(self.folder / "empty")), "empty/manifest.json", []
        )
        folder = self.broken(self.dump(), "manifest.json", manifest_edit())
        for each in folder.glob("*.safetensors"):
            each.unlink()
        self.assert_unusable(
            self.local(1, "verify", str(folder)), "broken", ["neither stock nor tp nor probe"]
        )
        folder = self.broken(self.dump(), "manifest.json", manifest_edit(payload=None))
        for each in folder.glob("stock*"):
            each.unlink()
        self.assert_unusable(
            self.local(1, "verify", str(folder)), "manifest.json", ["payload: is missing"]
        )
        self.assert_unusable(
            self.local(1, "verify", str(self.dump()), "--checkpoint", str(CHECKPOINT)),
            "manifest.json",
            ["layer: is missing"],
        )
        self.assert_unusable(
            self.local(
                1, "verify", str(self.dump()), "--checkpoint", str(CHECKPOINT), "--layer", "1"
            ),
            "manifest.json",
            ["payload: contradicts --checkpoint"],
        )

    def test_shapes_that_cannot_be_cut_are_refused(self):
        folder = self.broken(self.dump(), "manifest.json", manifest_edit(intermediate=320))
        ended = self.local(1, "verify", str(folder))
        self.assert_ended(ended, 3, "refused")
        self.assertIn("intermediate slice 160", ended.own_lines()[0])


if __name__ == "__main__":
    program.main()
