"""What `reshard --dump` writes, `verify` passes: over a fixed list of shapes, every payload,
groups, and each notation that the format leaves open; one byte that differs is seen in each."""

import dumps
import program

# ranks, tp, experts, hidden, intermediate, payload: one m-tile and more, one k-tile of a slice
# and more, one expert a rank and more, odd numbers of all, and what hides faults (H = 128).
CASES = (
    (2, 2, 2, 128, 128, "bytes"),
    (2, 2, 6, 384, 640, "numeric"),
    (2, 2, 4, 256, 512, "exact"),
    (3, 3, 3, 128, 192, "exact"),
    (3, 3, 9, 640, 384, "bytes"),
    (4, 4, 4, 512, 256, "numeric"),
    (4, 2, 4, 384, 256, "bytes"),
    (4, 2, 6, 128, 384, "exact"),
    (5, 5, 10, 256, 960, "numeric"),
    (6, 3, 3, 256, 576, "numeric"),
    (7, 7, 7, 128, 448, "bytes"),
    (8, 8, 8, 384, 512, "exact"),
    (8, 8, 16, 128, 1024, "numeric"),
    (8, 4, 8, 256, 256, "bytes"),
)


def other_notation(folder, ranks, experts, tp):
    """Global scales for each local expert, or for all, in place of one; the tp's block scales as
    the other of the two types that they may have."""

    def stock(count):
        def edit(file):
            for name in ("a1_gscale", "a2_gscale"):
                _, _, value = file.tensors[name]
                file.tensors[name] = ["F32", [count], value * count]

        return edit

    def tp_scales(file):
        for name in ("w13_sf", "w2_sf"):
            tensor = file.tensors[name]
            tensor[0] = "F8_E4M3" if tensor[0] == "U8" else "U8"

    for rank in range(ranks):
        count = experts if rank % 2 else experts // tp
        dumps.change(folder / f"stock.rank{rank}.safetensors", stock(count))
        dumps.change(folder / f"tp.rank{rank}.safetensors", tp_scales)


def flip_last_byte(name):
    def edit(file):
        file.tensors[name][2][-1] ^= 1

    return edit


def compared(ended):
    """How many bytes of each tensor were compared, over all groups."""
    made = {}
    for check in ended.report["checks"]:
        if check["id"].startswith("bytes."):
            made[check["id"]] = made.get(check["id"], 0) + check["compared"]
    return made


def due(case):
    """Every byte of every stock and of every tp: a group holds the layer once as each."""
    ranks, tp, experts, hidden, intermediate, _ = case
    elements = 2 * (ranks // tp) * experts * hidden * intermediate
    shares = {"w13": 1, "w13_sf": 8, "w2": 2, "w2_sf": 16}
    return {f"bytes.{tensor}": elements // share for tensor, share in shares.items()}


class RoundTrip(program.ProgramTest):
    def dump(self, ranks, tp, experts, hidden, intermediate, payload):
        folder = self.folder / f"dump{self.runs}"
        arguments = ["--experts", experts, "--hidden", hidden, "--intermediate", intermediate]
        arguments += ["--payload", payload, "--tp", tp, "--probe", "none", "--dump", folder]
        ended = self.local(ranks, "reshard", *map(str, arguments))
        self.assertEqual(ended.code, 0, ended.stderr + ended.stdout)
        return folder

    def test_what_reshard_dumps_passes_in_each_notation(self):
        for number, case in enumerate(CASES):
            with self.subTest(case=case):
                ranks, tp, experts, hidden, intermediate, _ = case
                folder = self.dump(*case)
                ended = self.local(1, "verify", str(folder))
                self.assert_passed(ended)
                self.assertEqual(compared(ended), due(case))
                other_notation(folder, ranks, experts, tp)
                self.assert_passed(self.local(2, "verify", str(folder)))
                wrong = ("w13", "w13_sf", "w2", "w2_sf")[number % 4]
                dumps.change(folder / f"tp.rank{ranks - 1}.safetensors", flip_last_byte(wrong))
                self.assert_ended(self.local(1, "verify", str(folder)), 1, "failed")


if __name__ == "__main__":
    program.main()
