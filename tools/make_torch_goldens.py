#!/usr/bin/env python3
"""Writes tests/golden/torch: what torch.save makes of a few tensors, today's way and the older one; and a pickle that calls
something. Needs PyTorch (tools/requirements.txt).

    tools/make_torch_goldens.py
"""
import collections
import os
import pathlib
import pickle

import torch

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "torch"


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/called",)


def main():
    OUT.mkdir(exist_ok=True)
    six = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    tensors = collections.OrderedDict(
        {"a.weight": six, "a.bias": torch.tensor([1.0, 2.0], dtype=torch.float16), "tied": six,
         "transposed": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(), "part": torch.arange(10.0)[3:7],
         "ids": torch.arange(4), "b": torch.ones(3, dtype=torch.bfloat16), "scalar": torch.tensor(2.5),
         "empty": torch.zeros(0, 3)})
    tensors._metadata = collections.OrderedDict({"": {"version": 1}})
    torch.save(tensors, OUT / "today.bin")
    torch.save(tensors, OUT / "older.bin", _use_new_zipfile_serialization=False)
    layer = torch.nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[3.0, 4.0]]))
        layer.bias.fill_(5.0)
    torch.save({"epoch": 3, "state_dict": dict(layer.named_parameters()), "args": {"rate": 0.1}}, OUT / "training.pt")
    torch.save({"weight": six.expand(2, 2, 3)}, OUT / "repeats.pt")
    torch.save({"weight": six, "more": Evil()}, OUT / "calls.bin", _use_new_zipfile_serialization=False)
    (OUT / "pickle.bin").write_bytes(pickle.dumps({"weight": Evil()}, protocol=2))


if __name__ == "__main__":
    main()
