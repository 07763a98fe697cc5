"""Attention(Q, K, V) = softmax(Q·Kᵀ/√D)·V on arrays, forward and back, and how alike vectors are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _bertie
from ._bertie import Compute, Look, Score
from .tensors import is_torch, to_numpy, to_torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Arrays, lists or torch's tensors; what is given as tensors comes back as tensors.
Numbers = Any
Offsets = Optional[Sequence[int]]


class Saved:
    """What attention_backward needs of attention_forward."""

    __slots__ = ("call", "q", "k", "v", "out", "log_sums", "shapes", "as_torch")
    call: _bertie.AttentionCall
    q: NDArray
    k: NDArray
    v: NDArray
    out: NDArray
    log_sums: Optional[NDArray]
    shapes: list[tuple[int, ...]]
    as_torch: bool


def _chosen(kinds, choice):
    """A Look, Compute or Score; or the name of one that needs no numbers."""
    if isinstance(choice, kinds):
        return choice
    make = getattr(kinds, choice, None) if isinstance(choice, str) and not choice.startswith("_") else None
    if make is None:
        names = [name for name in vars(kinds) if not name.startswith("_")]
        raise ValueError(f"{choice!r} is no {kinds.__name__}; there are {', '.join(names)}")
    return make()


def _offsets(given, shape):
    """Where sequences begin: as given, or every shape[-2] rows where there are axes before the last two."""
    if given is not None:
        return [int(o) for o in given]
    if len(shape) == 2:
        return []
    sequences = 1
    for size in shape[:-2]:
        sequences *= size
    return [i * shape[-2] for i in range(sequences + 1)]


def _rows(x, name):
    array = to_numpy(x, "float32")
    if array.ndim < 2:
        raise ValueError(f"{name} has {array.ndim} axes; it takes (…, tokens, heads·size)")
    return array


def _run(q, k, v, heads, look, compute, score, causal, dropout, seed, q_offsets, k_offsets, threads, weights, keep):
    saved = Saved()
    saved.as_torch = is_torch(q)
    arrays = [_rows(x, name) for x, name in ((q, "q"), (k, "k"), (v, "v"))]
    if causal:
        if look not in ("full", "causal"):
            raise ValueError("causal=True is look='causal': give one of them")
        look = "causal"
    saved.call = _bertie.AttentionCall(
        heads,
        _chosen(Score, score),
        _chosen(Look, look),
        _chosen(Compute, compute),
        dropout,
        seed,
        _offsets(q_offsets, arrays[0].shape),
        _offsets(k_offsets, arrays[1].shape) if k_offsets is not None or arrays[1].ndim > 2 else [],
        threads or len(os.sched_getaffinity(0)),
    )
    saved.shapes = [x.shape for x in arrays]
    saved.q, saved.k, saved.v = (x.reshape(-1, x.shape[-1]) for x in arrays)
    saved.out, found, saved.log_sums = saved.call.forward(saved.q, saved.k, saved.v, weights, keep)
    out = saved.out.reshape(*arrays[0].shape[:-1], arrays[2].shape[-1])
    if found is not None and q_offsets is None and k_offsets is None:
        lead = arrays[0].shape[:-2] + ((heads,) if heads > 1 else ())
        found = found.reshape(*lead, arrays[0].shape[-2], arrays[1].shape[-2])
    if saved.as_torch:
        out, found = to_torch(out), None if found is None else to_torch(found)
    return out, found, saved


def attention(
    q: Numbers,
    k: Numbers,
    v: Numbers,
    *,
    heads: int = 1,
    look: Union[Look, str] = "full",
    compute: Union[Compute, str] = "softmax",
    score: Union[Score, str] = "scaled_dot",
    causal: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    q_offsets: Offsets = None,
    k_offsets: Offsets = None,
    weights: bool = False,
    threads: int = 0,
) -> Any:
    """Attention of queries (…, n, H·D) to keys (…, m, H·D) and values (…, m, H·Dv): (…, n, H·Dv).

    The axes before the last two are a batch, so that torch's (batch, heads, tokens, size) is taken as it is, each head
    a sequence of its own; with `heads` the last axis holds several heads beside each other. q_offsets and k_offsets
    say where sequences of different lengths begin in (tokens, H·D), from 0 to the number of tokens.

    look, compute, score: a Look, Compute or Score, or its name ("causal", "performer", "dot"). weights: also how much
    each query looks at each key. Arrays of float32 without gaps are not copied; torch's tensors give torch's tensors.
    """
    out, found, _ = _run(
        q, k, v, heads, look, compute, score, causal, dropout, seed, q_offsets, k_offsets, threads, weights, False
    )
    return (out, found) if weights else out


def attention_forward(
    q: Numbers,
    k: Numbers,
    v: Numbers,
    *,
    heads: int = 1,
    look: Union[Look, str] = "full",
    compute: Union[Compute, str] = "softmax",
    score: Union[Score, str] = "scaled_dot",
    causal: bool = False,
    dropout: float = 0.0,
    seed: int = 0,
    q_offsets: Offsets = None,
    k_offsets: Offsets = None,
    threads: int = 0,
) -> tuple[Any, Saved]:
    """attention, and what attention_backward needs of it: (out, saved)."""
    out, _, saved = _run(
        q, k, v, heads, look, compute, score, causal, dropout, seed, q_offsets, k_offsets, threads, False, True
    )
    return out, saved


def attention_backward(saved: Saved, d_out: Numbers) -> dict[str, Any]:
    """From ∂loss/∂out to the gradients of everything that went in: a dict of q, k, v, and of what a score, look or
    compute has to learn (w; w1, w2, additive_v; spans; e, f)."""
    d_out = _rows(d_out, "d_out")
    found = saved.call.backward(
        saved.q, saved.k, saved.v, saved.out, saved.log_sums, d_out.reshape(-1, d_out.shape[-1])
    )
    for name, shape in zip("qkv", saved.shapes):
        found[name] = found[name].reshape(shape)
    return {name: to_torch(g) for name, g in found.items()} if saved.as_torch else found


def similarity(a: Numbers, b: Numbers = None) -> NDArray:
    """The cosine of each row of a with each row of b, or of a."""
    a = to_numpy(a, "float32")
    return _bertie.similarity(a, a if b is None else to_numpy(b, "float32"))


def rank(query: Numbers, rows: Numbers, top: Optional[int] = None) -> list[_bertie.Ranked]:
    """The rows most like the query by their cosine, best first: Ranked(index, score)."""
    return _bertie.rank(to_numpy(query, "float32"), to_numpy(rows, "float32"), top)
