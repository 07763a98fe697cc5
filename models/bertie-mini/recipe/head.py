#!/usr/bin/env python3
"""Keeps of a fine-tuned model what differs from the model that it came from, so that the two can share the rest.

    head.py FINETUNED BASE OUT

Writes OUT/head.safetensors with the tensors of FINETUNED/model.safetensors that BASE/model.safetensors does not have, or
has with other numbers, in bf16; OUT/model.safetensors.index.json, which finds the others in base.safetensors; and
OUT/config.json. Both models are in bf16 (bertie convert --dtype bf16). Needs nothing but Python.
"""
import json
import pathlib
import shutil
import struct
import sys


def tensors_of(file):
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    numbers = data[8 + size:]
    return {name: (about["dtype"], about["shape"], numbers[slice(*about["data_offsets"])])
            for name, about in header.items()}


def save(tensors, file):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, numbers) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(numbers)]}
        at += len(numbers)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # numbers begin at a multiple of 64
    file.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(numbers for _, _, numbers in tensors.values()))


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    finetuned, base, out = map(pathlib.Path, sys.argv[1:])
    known, learned = tensors_of(base / "model.safetensors"), tensors_of(finetuned / "model.safetensors")
    for name, (dtype, _, _) in [*known.items(), *learned.items()]:
        if dtype != "BF16":
            raise SystemExit(f"{name} is {dtype}: convert both models with --dtype bf16 first")
    own = {name: tensor for name, tensor in sorted(learned.items()) if known.get(name) != tensor}
    out.mkdir(parents=True, exist_ok=True)
    save(own, out / "head.safetensors")
    where = {name: "head.safetensors" if name in own else "base.safetensors" for name in sorted(learned)}
    size = sum(len(numbers) for _, _, numbers in learned.values())
    (out / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1) + "\n")
    shutil.copy(finetuned / "config.json", out)
    print(f"{out}: {len(own)} of {len(learned)} tensors, {(out / 'head.safetensors').stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
