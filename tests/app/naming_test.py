"""slicecheck verify names faults that are no row of the kill matrix: what they did to a dump is one
statement, with its experts and ranks."""

import json
import struct

import dumps
import program

CHECKPOINT = program.ROOT / "golden/checkpoints/tiny-modelopt"
FOUR = ["w13", "w13_sf", "w2", "w2_sf"]
SCALARS = ["g1_alphas", "g1_scale_c", "g2_alphas"]


def source_row(dest):
    """The 32-row shuffle."""
    return dest // 32 * 32 + dest % 8 * 4 + dest % 32 // 8


def scale_at(row, column, columns):
    """The place of a scale in tiles of 128 rows x 4 scales."""
    tile = row // 128 * (columns // 4) + column // 4
    return tile * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4


def places_of(name, shape, rows):
    """The bytes of these rows of every expert."""
    experts, count, columns = shape
    for expert in range(experts):
        for row in rows:
            for column in range(columns):
                at = row * columns + column
                if name.endswith("_sf"):
                    at = scale_at(row, column, columns)
                yield expert * count * columns + at


class Naming(program.ProgramTest):
    def dump(self, *arguments, ranks=3, declared=True):
        folder = self.folder / f"dump{self.runs}"
        ended = self.local(ranks, "reshard", "--probe", "none", *arguments, "--dump", str(folder))
        self.assertEqual(ended.code, 0, ended.stderr + ended.stdout)
        if not declared:
            path = folder / "manifest.json"
            manifest = json.loads(path.read_text(encoding="utf-8"))
            del manifest["payload"]
            path.write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    def findings(self, folder):
        ended = self.local(1, "verify", str(folder))
        self.assert_ended(ended, 1, "failed")
        return [
            (f["side"], f["cause"], f["tensors"], f["experts"], f["ranks"])
            for f in ended.report["findings"]
        ]

    def test_gate_of_another_slice_beside_the_own_up_is_a_wrong_slice(self):
        for declared in (True, False):
            folder = self.dump("--payload", "numeric", "--hidden", "128", declared=declared)
            other = dumps.Tensors.read(folder / "tp.rank0.safetensors").tensors

            def exchange(file):
                for name in ("w13", "w13_sf"):
                    _, shape, data = file.tensors[name]
                    gate = [row for row in range(shape[1]) if source_row(row) % 2 == 1]
                    for at in places_of(name, shape, gate):
                        data[at] = other[name][2][at]

            dumps.change(folder / "tp.rank2.safetensors", exchange)
            due = [("tp", "wrong-slice", ["w13", "w13_sf"], [], [2])]
            self.assertEqual(self.findings(folder), due)

    def test_a_true_stock_that_holds_one_expert_twice_is_told_by_its_tp(self):
        for names, cause in ((FOUR + SCALARS, "expert-duplicated"), (["w13"], "expert-mixed")):
            folder = self.dump("--payload", "numeric", "--hidden", "128", declared=False)

            def twice(file):
                for name in names:
                    data = file.tensors[name][2]
                    half = len(data) // 2
                    data[half:] = data[:half]

            dumps.change(folder / "stock.rank1.safetensors", twice)
            tensors = [name for name in names if name not in SCALARS]
            self.assertEqual(self.findings(folder), [("stock", cause, tensors, [3], [1])])

    def test_a_true_stock_of_equal_experts_is_cut_as_it_is(self):
        folder = self.dump("--payload", "numeric", "--hidden", "128", declared=False)
        for side in ("stock", "tp"):
            for rank in range(3):

                def equal(file):
                    for name in FOUR:
                        _, shape, data = file.tensors[name]
                        each = len(data) // shape[0]
                        at = (3 if side == "tp" else 1) * each
                        if side == "tp" or rank == 1:
                            data[at : at + each] = data[at - each : at]

                dumps.change(folder / f"{side}.rank{rank}.safetensors", equal)
        self.assert_passed(self.local(1, "verify", str(folder)))

    def test_a_rank_of_the_stock_is_said_with_the_experts_that_it_holds(self):
        for experts, held in (("3", [1]), ("6", [2, 3])):
            folder = self.dump("--experts", experts, "--hidden", "128")

            def swap(file):
                data = file.tensors["w2"][2]
                for at, byte in enumerate(data):
                    data[at] = (byte << 4 | byte >> 4) & 0xFF

            dumps.change(folder / "stock.rank1.safetensors", swap)
            due = ("stock", "nibbles-swapped", ["w2"], held, [1])
            self.assertEqual(self.findings(folder)[0], due)

    def test_one_scalar_of_another_expert_is_no_missing_gather(self):
        folder = self.dump("--experts", "3", "--hidden", "128")
        for rank in range(3):

            def take(file):
                data = file.tensors["g2_alphas"][2]
                data[:4] = data[8:12]

            dumps.change(folder / f"tp.rank{rank}.safetensors", take)
        due = [("tp", "stale-derived-scalar", ["g2_alphas"], [0], [])]
        self.assertEqual(self.findings(folder), due)

    def test_bytes_never_written_into_rows_that_are_not_shuffled_are_two_faults(self):
        folder = self.dump("--payload", "numeric", "--hidden", "128", "--intermediate", "384")

        def plant(file):
            _, shape, data = file.tensors["w13_sf"]
            _, rows, columns = shape
            healthy = bytes(data)
            for row in range(rows):
                for column in range(columns):
                    data[scale_at(source_row(row), column, columns)] = healthy[
                        scale_at(row, column, columns)
                    ]
            data[300:500] = bytes(200)

        dumps.change(folder / "tp.rank2.safetensors", plant)
        due = [
            ("tp", "never-written", ["w13_sf"], [0], [2]),
            ("tp", "scale-rows-not-shuffled", ["w13_sf"], [0], [2]),
        ]
        self.assertEqual(sorted(self.findings(folder)), due)

    def test_padding_declared_otherwise_than_it_is_is_one_finding(self):
        for change in (
            {"intermediate_plain": 240},
            {"hidden_plain": 240},
            {"hidden_plain": 192, "intermediate_plain": 96},
        ):
            folder = self.dump(
                *("--payload", "numeric", "--hidden", "256", "--intermediate", "256"), ranks=2
            )
            path = folder / "manifest.json"
            manifest = json.loads(path.read_text(encoding="utf-8"))
            path.write_text(json.dumps({**manifest, **change}), encoding="utf-8")
            with self.subTest(change=change):
                due = [("stock", "padding-misplaced", FOUR, [], [])]
                self.assertEqual(self.findings(folder), due)

    def test_padded_rows_in_another_order_were_all_written(self):
        folder = self.folder / "padded"
        engine = dumps.Engine(CHECKPOINT, 2, tp=2, intermediate=512)
        engine.write(folder)

        def turn(file):
            _, shape, data = file.tensors["w13"]
            rows = dumps.rows_of(data[: shape[1] * shape[2]], shape[2])
            data[: shape[1] * shape[2]] = b"".join(reversed(rows))

        dumps.change(folder / "tp.rank1.safetensors", turn)
        due = [("tp", "unexplained", ["w13"], [0], [1])]
        self.assertEqual(self.findings(folder), due)

    def test_padding_that_a_wrong_slice_brought_along_was_written(self):
        folder = self.folder / "padded"
        dumps.Engine(CHECKPOINT, 2, tp=2, intermediate=512).write(folder)
        other = dumps.Tensors.read(folder / "tp.rank1.safetensors").tensors["w13"][2]

        def take(file):
            _, shape, data = file.tensors["w13"]
            data[: shape[1] * shape[2]] = other[: shape[1] * shape[2]]
            data[1000] ^= 4

        dumps.change(folder / "tp.rank0.safetensors", take)
        due = [("tp", cause, ["w13"], [0], [0]) for cause in ("bit-corruption", "wrong-slice")]
        self.assertEqual(sorted(self.findings(folder)), due)

    def test_the_first_rank_may_be_the_one_with_another_input_scale(self):
        folder = self.dump("--payload", "numeric", "--hidden", "128", declared=False)

        def grow(file):
            data = file.tensors["a2_gscale"][2]
            (value,) = struct.unpack("<f", data)
            data[:] = struct.pack("<f", 1.5 * value)

        dumps.change(folder / "stock.rank0.safetensors", grow)
        ended = self.local(1, "verify", str(folder))
        self.assert_ended(ended, 3, "refused")
        (found,) = ended.report["findings"]
        self.assertEqual(found["cause"], "input-scale-differs-across-ranks")
        self.assertEqual(found["ranks"], [0])

    def test_what_was_not_cut_of_one_tile_row_is_cut_along_no_axis(self):
        """H = 128: the front of the whole w2_sf is slice 0 of it."""
        folder = self.dump("--hidden", "128")
        for rank in range(3):

            def front(file):
                for name in FOUR:
                    _, shape, data = file.tensors[name]
                    each = len(data) // shape[0]
                    for expert in range(shape[0]):
                        whole = dumps.Tensors.read(
                            folder / f"stock.rank{expert // 2}.safetensors"
                        ).tensors[name][2]
                        at = expert % 2 * len(whole) // 2
                        data[expert * each : (expert + 1) * each] = whole[at : at + each]

            dumps.change(folder / f"tp.rank{rank}.safetensors", front)
        causes = {finding[1] for finding in self.findings(folder)}
        self.assertEqual(causes, {"wrong-axis-cut"})


if __name__ == "__main__":
    program.main()
