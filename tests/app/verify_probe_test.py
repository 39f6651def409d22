"""A dump with probe files alone, as an engine in any language writes it, judged by the program: the
values that the seed's own code gave on the same rows over NCCL. No code of src makes them."""

import functools
import json
import math
import struct

import program

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
NAN = 0x7FC0
# T, K, H, seed and noise of the recorded cases, and rel L2 at 2, 3, 4, 7 and 8 ranks.
RANKS = (2, 3, 4, 7, 8)
CASES = (
    (
        (4, 2, 128, 11, 0.0),
        (
            0.002905734502320234,
            0.0031159898560194827,
            0.0033127035956317177,
            0.003682408426240147,
            0.003938016107135179,
        ),
    ),
    (
        (16, 4, 256, 12, 1e-2),
        (
            0.014418402823519527,
            0.017689706237878362,
            0.020335628917673505,
            0.02688899651744288,
            0.028649451332939044,
        ),
    ),
    (
        (33, 8, 128, 13, 1e-4),
        (
            0.0029430519308795504,
            0.0030739426640140452,
            0.0032640723536277966,
            0.003815235201764838,
            0.003962703924925171,
        ),
    ),
    (
        (5, 1, 384, 14, 1.0),
        (
            1.423573041739194,
            1.7289901747152725,
            1.9811467422817504,
            2.6100791653737114,
            2.77573818017657,
        ),
    ),
)
SMALL = CASES[0][0]


def mix64(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def words(seed, tag):
    key = mix64(seed ^ (((16 * tag + 7) * GOLDEN) & MASK))
    return lambda j: mix64((key + (j + 1) * GOLDEN) & MASK)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


@functools.lru_cache(maxsize=32)
def centred(seed, tag, count):
    """float32(2 u - 1) of words 0 to count - 1."""
    word = words(seed, tag)
    return [f32(2 * ((word(j) >> 40) / 2**24) - 1) for j in range(count)]


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def rank_rows(case, rank, ranks):
    """This rank's EP rows and map, TP rows and map."""
    tokens, top_k, hidden, seed, noise = case
    routes = tokens * top_k
    base = centred(seed, 1, routes * hidden)
    parts = [centred(seed, 10 + q, routes * hidden) for q in range(ranks - 1)]
    own = centred(seed, 50 + rank, routes * hidden)
    owner = words(seed, 0)

    def part(j):
        if rank < ranks - 1:
            return f32(parts[rank][j] * 0.5)
        left = base[j]
        for each in parts:
            left = f32(left - f32(each[j] * 0.5))
        return left

    ep_rows, ep_map = [NAN] * (2 * hidden), []
    for route in range(routes):
        mine = owner(route) % ranks == rank
        ep_map.append(len(ep_rows) // hidden if mine else -1)
        if mine:
            ep_rows += [bf16(base[route * hidden + h]) for h in range(hidden)]
    tp_rows, tp_map = [NAN] * (2 * hidden), []
    for route in reversed(range(routes)):
        for j in range(route * hidden, (route + 1) * hidden):
            tp_rows.append(bf16(f32(part(j) + f32(f32(noise) * own[j]))))
    tp_map = [2 + routes - 1 - route for route in range(routes)]
    return ep_rows, ep_map, tp_rows, tp_map


def write_probe(path, case, rows):
    _, top_k, hidden = case[:3]
    ep_rows, ep_map, tp_rows, tp_map = rows
    bits = {"BF16": "H", "I32": "i"}
    tensors = [
        (name, dtype, shape, struct.pack(f"<{len(values)}{bits[dtype]}", *values))
        for name, dtype, shape, values in (
            ("ep_rows", "BF16", [len(ep_rows) // hidden, hidden], ep_rows),
            ("ep_permuted_idx", "I32", [len(ep_map) // top_k, top_k], ep_map),
            ("tp_rows", "BF16", [len(tp_rows) // hidden, hidden], tp_rows),
            ("tp_permuted_idx", "I32", [len(tp_map)], tp_map),
        )
    ]
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


class VerifyProbe(program.ProgramTest):
    def dump(self, case, ranks, **members):
        """Members of None are not in the manifest."""
        folder = self.folder / f"dump-{case[3]}-{ranks}-{self.runs}"
        folder.mkdir()
        manifest = {
            "format": "slicecheck-dump/1",
            "world": ranks,
            "experts": 4 * ranks,
            "hidden": case[2],
            "intermediate": 64 * ranks,
            "engine": "a kernel",
            "tokens": case[0],
            "top_k": case[1],
            **members,
        }
        manifest = {name: value for name, value in manifest.items() if value is not None}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        for rank in range(ranks):
            path = folder / f"probe.rank{rank}.safetensors"
            write_probe(path, case, rank_rows(case, rank, ranks))
        return folder

    def verify(self, *arguments):
        report = self._report()
        command = [program.PROGRAM, "verify", *map(str, arguments), "--report", str(report)]
        return program.launch(command, report)

    def test_rows_alone_give_the_seeds_values(self):
        for case, values in CASES:
            for ranks, due in zip(RANKS, values):
                with self.subTest(case=case, ranks=ranks):
                    self.assert_judged(self.verify(self.dump(case, ranks)), case, due)

    def test_spread_over_processes_the_values_are_the_same(self):
        case, values = CASES[3]
        for ranks, due in zip(RANKS, values):
            with self.subTest(ranks=ranks):
                folder = self.dump(case, ranks)
                for processes in (2, ranks):
                    self.assert_judged(self.mpi(processes, "verify", str(folder)), case, due)

    def assert_judged(self, ended, case, due):
        """Rel L2 to 1e-9; above the bound of 3 floors where the noise is not below them."""
        noisy = case[4] > 1e-3
        self.assert_ended(ended, *((1, "failed") if noisy else (0, "passed")))
        (probe,) = ended.report["probes"]
        self.assertTrue(math.isclose(probe["rel_l2"], due, rel_tol=1e-9), probe)
        self.assertEqual(
            [(check["id"], check["status"]) for check in ended.report["checks"]],
            [
                ("probe.routes", "passed"),
                ("probe.random", "failed" if noisy else "passed"),
                ("control.random", "skipped"),
            ],
        )
        causes = [finding["cause"] for finding in ended.report["findings"]]
        self.assertEqual(causes, ["rel-l2-above-bound"] if noisy else [])

    def test_a_probe_without_routes_has_nothing_to_compare(self):
        folder = self.dump((0, 2, 128, 11, 0.0), 2, tokens=None, top_k=None)
        ended = self.verify(folder)
        self.assert_ended(ended, 1, "failed")
        (found,) = ended.report["findings"]
        self.assertEqual(found["cause"], "reference-zero")
        routes = ended.report["checks"][0]
        self.assertEqual((routes["id"], routes["status"]), ("probe.routes", "not-run"))

    def test_a_given_bound_and_processes_judge_alike(self):
        folder = self.dump(SMALL, 2)
        self.assert_ended(self.verify(folder, "--rel-l2-max", "0.0029"), 1, "failed")
        self.assert_ended(self.mpi(2, "verify", str(folder)), 0, "passed")

    def test_a_link_that_leaves_the_folder_is_unusable_and_named(self):
        folder = self.dump(SMALL, 2)
        file = folder / "probe.rank1.safetensors"
        file.replace(self.folder / "outside")
        file.symlink_to(self.folder / "outside")
        line = self.assert_unusable(self.verify(folder), "probe.rank1.safetensors")
        self.assertIn("is a symbolic link that leaves the folder", line)

    def test_routes_that_differ_between_ranks_or_sides_are_unusable_and_named(self):
        other = (5, 2, 128, 11, 0.0)
        for rows, words in (
            (rank_rows(other, 1, 2), "ep_permuted_idx: has 10 routes, the group's first rank 8"),
            (
                rank_rows(SMALL, 1, 2)[:2] + rank_rows(other, 1, 2)[2:],
                "tp_permuted_idx: has 10 routes, ep_permuted_idx 8",
            ),
        ):
            with self.subTest(words=words):
                folder = self.dump(SMALL, 2, tokens=None, top_k=None)
                write_probe(folder / "probe.rank1.safetensors", SMALL, rows)
                line = self.assert_unusable(self.verify(folder), "probe.rank1.safetensors")
                self.assertIn(words, line)

    def assert_unusable(self, ended, file):
        self.assert_ended(ended, 2, "unusable")
        (line,) = ended.own_lines()
        self.assertIn(file, line)
        return line

    def test_a_file_that_is_cut_short_is_unusable_and_named(self):
        folder = self.dump(SMALL, 2)
        file = folder / "probe.rank1.safetensors"
        file.write_bytes(file.read_bytes()[:-2])
        self.assert_unusable(self.verify(folder), "probe.rank1.safetensors")


if __name__ == "__main__":
    program.main()
