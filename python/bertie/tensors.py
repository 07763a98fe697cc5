"""Numbers in the form in which somebody wants them. torch is imported where torch's tensors are asked for only."""

from __future__ import annotations

import sys


def is_torch(x) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def to_torch(array):
    """The same memory as a tensor, through DLPack."""
    import torch

    if not array.flags.writeable:  # torch has no tensors that may not be written to
        array = array.copy()
    return torch.from_dlpack(array)


def to_numpy(x, dtype=None):
    """An array of a list, an array or a tensor; without a copy where none is needed."""
    import numpy

    if is_torch(x):
        x = x.detach().cpu().numpy()
    return numpy.ascontiguousarray(x, dtype=dtype)
