#!/usr/bin/env python3
"""Keeps of a fine-tuned model what differs from the model that it came from, small enough to ride along with it.

    head.py FINETUNED BASE OUT [RANK]

FINETUNED was made from BASE with `bertie finetune`. The changes of matrices that BASE has are cut to RANK (default 48) by
singular values and stored as two factors, lora_A and lora_B (src/model/low_rank.h); biases, norms and what BASE does not
have, which is the head, are stored as they are; all in bf16. Writes OUT/head.safetensors; OUT/model.safetensors.index.json,
which finds the rest in base.safetensors; and OUT/config.json. Needs NumPy.
"""
import json
import pathlib
import shutil
import struct
import sys

import numpy


def read(file):
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        numbers = data[8 + size:][slice(*about["data_offsets"])]
        if about["dtype"] == "BF16":
            floats = (numpy.frombuffer(numbers, "<u2").astype("<u4") << 16).view("<f4")
        elif about["dtype"] == "F32":
            floats = numpy.frombuffer(numbers, "<f4")
        else:
            raise SystemExit(f"{file}: {name} is {about['dtype']}, not BF16 or F32")
        tensors[name] = floats.reshape(about["shape"])
    return tensors


def bf16(array):
    bits = numpy.ascontiguousarray(array, "<f4").view("<u4")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")  # to the nearest, ties to even


def write(tensors, file):
    header, at, parts = {"__metadata__": {"format": "pt"}}, 0, []
    for name, array in sorted(tensors.items()):
        parts.append(bf16(array).tobytes())
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # numbers begin at a multiple of 64
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    if len(sys.argv) not in (4, 5):
        raise SystemExit(__doc__)
    finetuned, base, out = map(pathlib.Path, sys.argv[1:4])
    rank = int(sys.argv[4]) if len(sys.argv) > 4 else 48
    known, learned = read(base / "model.safetensors"), read(finetuned / "model.safetensors")
    own, where, lost = {}, {}, []
    for name, array in sorted(learned.items()):
        before = known.get(name)
        if before is not None and numpy.array_equal(before, array):
            where[name] = "base.safetensors"
        elif before is not None and array.ndim == 2 and min(array.shape) > rank:
            u, s, v = numpy.linalg.svd(array.astype("f8") - before, full_matrices=False)
            lost.append((s[rank:] ** 2).sum() / (s ** 2).sum())
            root = numpy.sqrt(s[:rank])
            stem = name.removesuffix(".weight")
            where[name] = "base.safetensors"
            own[f"{stem}.lora_A.weight"] = root[:, None] * v[:rank]
            own[f"{stem}.lora_B.weight"] = u[:, :rank] * root
        else:
            own[name] = array
    if not own:
        raise SystemExit(f"{finetuned} is {base}: nothing of it changed")
    where.update(dict.fromkeys(own, "head.safetensors"))
    out.mkdir(parents=True, exist_ok=True)
    write(own, out / "head.safetensors")
    size = sum(2 * a.size for a in own.values()) + sum(2 * known[n].size for n, f in where.items() if f[0] == "b")
    (out / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": dict(sorted(where.items()))}, indent=1) + "\n")
    shutil.copy(finetuned / "config.json", out)
    print(f"{out}: {len(own)} tensors, {(out / 'head.safetensors').stat().st_size / 1e6:.2f} MB; "
          f"rank {rank} leaves out {100 * numpy.mean(lost or [0]):.1f}% of what changed (mean of squares)")


if __name__ == "__main__":
    main()
