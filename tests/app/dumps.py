"""Dump folders and checkpoints as files: read, changed and written again, and an engine of its own
that makes a dump from plain experts, in this language and by these sources alone."""

import json
import pathlib
import struct


class Tensors:
    """A safetensors file: metadata and {name: [dtype, shape, bytes]} in the order of the bytes."""

    def __init__(self, metadata, tensors):
        self.metadata = metadata
        self.tensors = tensors

    @classmethod
    def read(cls, path):
        data = pathlib.Path(path).read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__", {})
        behind = data[8 + length :]
        tensors = {}
        for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            tensors[name] = [entry["dtype"], entry["shape"], bytearray(behind[begin:end])]
        return cls(metadata, tensors)

    def write(self, path):
        header = {"__metadata__": self.metadata} if self.metadata else {}
        end = 0
        for name, (dtype, shape, data) in self.tensors.items():
            header[name] = {
                "dtype": dtype,
                "shape": shape,
                "data_offsets": [end, end + len(data)],
            }
            end += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        behind = b"".join(bytes(data) for _, _, data in self.tensors.values())
        pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + behind)


def change(path, edit):
    """Reads a safetensors file, lets `edit` change it, writes it again."""
    file = Tensors.read(path)
    edit(file)
    file.write(path)


def float_bits(value):
    return struct.unpack("<I", struct.pack("<f", value))[0]


def rows_of(data, row_bytes):
    return [bytes(data[at : at + row_bytes]) for at in range(0, len(data), row_bytes)]


def shuffled(rows):
    """out[d] = in[32 (d // 32) + 4 (d % 8) + (d % 32) // 8]"""
    return [rows[d // 32 * 32 + d % 8 * 4 + d % 32 // 8] for d in range(len(rows))]


def interleaved(rows):
    """Rows of scales in tiles of 128 rows x 4 scales."""
    columns = len(rows[0])
    out = bytearray(len(rows) * columns)
    for m, row in enumerate(rows):
        tile_row = m // 128 * (columns // 4) * 512 + m % 32 * 16 + m % 128 // 32 * 4
        for k in range(0, columns, 4):
            at = tile_row + k // 4 * 512
            out[at : at + 4] = row[k : k + 4]
    return bytes(out)


class Plain:
    """One expert: {w1, w3, w2: (weight rows, scale rows)}."""

    def __init__(self, projections):
        self.projections = projections

    @classmethod
    def of_checkpoint(cls, shards, layer, expert):
        made = {}
        for short, name in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
            stem = f"model.layers.{layer}.mlp.experts.{expert}.{name}"
            made[short] = tuple(
                rows_of(shards[f"{stem}.{part}"][2], shards[f"{stem}.{part}"][1][1])
                for part in ("weight", "weight_scale")
            )
        return cls(made)

    def padded(self, hidden, intermediate):
        """Zeros at the end of H and of I, of each projection."""
        made = {}
        for short, (weight, scale) in self.projections.items():
            out, inner = (intermediate, hidden) if short != "w2" else (hidden, intermediate)
            made[short] = tuple(
                [row.ljust(inner // per, b"\0") for row in rows]
                + [bytes(inner // per)] * (out - len(rows))
                for rows, per in ((weight, 2), (scale, 16))
            )
        return Plain(made)

    def slice(self, tp, d):
        made = {}
        for short, parts in self.projections.items():
            if short == "w2":
                made[short] = tuple(
                    [row[d * len(row) // tp : (d + 1) * len(row) // tp] for row in rows]
                    for rows in parts
                )
            else:
                made[short] = tuple(
                    rows[d * len(rows) // tp : (d + 1) * len(rows) // tp] for rows in parts
                )
        return Plain(made)

    def converted(self, together=0):
        """{w13, w13_sf, w2, w2_sf}. `together`: so many rows of padding that belong to the end of
        each half lie at the end of both."""
        stacked = [self.projections["w3"][part] + self.projections["w1"][part] for part in (0, 1)]
        if together:
            half = len(stacked[0]) // 2
            stacked = [
                rows[: half - together]
                + rows[half : 2 * half - together]
                + [bytes(len(rows[0]))] * (2 * together)
                for rows in stacked
            ]
        pairs = [
            shuffled(
                [row for i in range(len(rows) // 2) for row in (rows[i], rows[i + len(rows) // 2])]
            )
            for rows in stacked
        ]
        weight, scale = self.projections["w2"]
        return {
            "w13": b"".join(pairs[0]),
            "w13_sf": interleaved(pairs[1]),
            "w2": b"".join(shuffled(weight)),
            "w2_sf": interleaved(shuffled(scale)),
        }


def f32(values):
    return ["F32", [len(values)], bytearray(struct.pack(f"<{len(values)}f", *values))]


def matrices(converted, extents, scales):
    """The four tensors of some experts. extents: {name: [rows, columns]}."""
    made = {}
    for name, (rows, columns) in extents.items():
        data = bytearray(b"".join(expert[name] for expert in converted))
        dtype = scales if name.endswith("_sf") else "U8"
        made[name] = [dtype, [len(converted), rows, columns], data]
    return made


def shape_of(hidden, intermediate):
    return {
        "w13": [2 * intermediate, hidden // 2],
        "w13_sf": [2 * intermediate, hidden // 16],
        "w2": [hidden, intermediate // 2],
        "w2_sf": [hidden, intermediate // 16],
    }


class Engine:
    """Makes the dump of a layer of tiny-modelopt, padded to H and I, for `tp` ranks."""

    EXPERTS, HIDDEN, INTERMEDIATE = 6, 640, 384

    def __init__(self, checkpoint, layer, tp, hidden=HIDDEN, intermediate=INTERMEDIATE):
        shards = {}
        for file in sorted(pathlib.Path(checkpoint).glob("*.safetensors")):
            shards.update(Tensors.read(file).tensors)
        self.tp, self.hidden, self.intermediate, self.layer = tp, hidden, intermediate, layer
        self.plain = [
            Plain.of_checkpoint(shards, layer, e).padded(hidden, intermediate)
            for e in range(self.EXPERTS)
        ]
        self.scalars = self._scalars(shards)
        self.together = 0
        self.gscales = 1  # how many values a gscale has

    def _scalars(self, shards):
        def value(expert, name, part):
            stem = f"model.layers.{self.layer}.mlp.experts.{expert}.{name}_proj.{part}"
            return struct.unpack("<f", shards[stem][2])[0]

        every = range(self.EXPERTS)
        a13 = max(value(e, name, "input_scale") for e in every for name in ("gate", "up"))
        a2 = max(value(e, "down", "input_scale") for e in every)
        alphas = [a13 * value(e, "gate", "weight_scale_2") for e in every]
        rounded = [struct.unpack("<f", struct.pack("<f", alpha))[0] for alpha in alphas]
        a2_gscale = struct.unpack("<f", struct.pack("<f", 1 / a2))[0]
        return {
            "g1_alphas": alphas,
            "g1_scale_c": [alpha * a2_gscale for alpha in rounded],
            "g2_alphas": [a2 * value(e, "down", "weight_scale_2") for e in every],
            "a1_gscale": [1 / a13],
            "a2_gscale": [1 / a2],
        }

    def write(self, folder, scales="U8"):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True)
        manifest = {
            "format": "slicecheck-dump/1",
            "world": self.tp,
            "experts": self.EXPERTS,
            "hidden": self.hidden,
            "intermediate": self.intermediate,
            "engine": "tests 1",
            "layer": self.layer,
        }
        if self.hidden != self.HIDDEN:
            manifest["hidden_plain"] = self.HIDDEN
        if self.intermediate != self.INTERMEDIATE:
            manifest["intermediate_plain"] = self.INTERMEDIATE
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        held = self.EXPERTS // self.tp
        whole = shape_of(self.hidden, self.intermediate)
        part = shape_of(self.hidden, self.intermediate // self.tp)
        per_expert = ("g1_alphas", "g1_scale_c", "g2_alphas")
        for rank in range(self.tp):
            mine = range(rank * held, (rank + 1) * held)
            stock = matrices(
                [self.plain[e].converted(self.together) for e in mine], whole, "F8_E4M3"
            )
            for name in per_expert:
                stock[name] = f32([self.scalars[name][e] for e in mine])
            for name in ("a1_gscale", "a2_gscale"):
                stock[name] = f32(self.scalars[name] * self.gscales)
            Tensors({"first_expert": str(rank * held)}, stock).write(
                folder / f"stock.rank{rank}.safetensors"
            )
            tp = matrices(
                [plain.slice(self.tp, rank).converted() for plain in self.plain], part, scales
            )
            for name in per_expert:
                tp[name] = f32(self.scalars[name])
            Tensors(
                {"intermediate": str(self.intermediate // self.tp), "num_experts": "6"}, tp
            ).write(folder / f"tp.rank{rank}.safetensors")
