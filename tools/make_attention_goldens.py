#!/usr/bin/env python3
"""Makes the numbers that Bertie's attention must reproduce, with PyTorch in float64 and its autograd.

    python3 -m venv .venv && .venv/bin/pip install -r tools/requirements.txt
    .venv/bin/python tools/make_attention_goldens.py            # tests/golden/attention

Exact attention comes from torch's own scaled_dot_product_attention and nn.MultiheadAttention; the other
mechanisms are written here as their papers have them, and in the way that is not Bertie's where there is
one (running sums for linear attention, for example). Inputs are float32 numbers, computed with in float64.

tests/golden/attention/<file>.safetensors holds, for each of its cases,
    <case>.<input>        F32   q (n, H*D), k (m, H*D), v (m, H*Dv), d_out (n, H*Dv) and the mechanism's own
    <case>.out            F64   (n, H*Dv)
    <case>.weights        F64   (H, n, m), where the mechanism has weights
    <case>.d.<input>      F64   gradients of sum(out * d_out)
The same versions on the same processor give the same bytes.
"""

import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/attention"
HEADS, D, DV = 2, 4, 3


class Case:
    """Draws named inputs, and keeps what a case's file needs."""

    def __init__(self, name, seed):
        self.name, self.inputs, self.extra = name, {}, {}
        self.generator = np.random.Generator(np.random.PCG64(seed))

    def draw(self, name, *shape, size=1.0):
        values = self.generator.uniform(-size, size, shape).astype(np.float32)
        return self.given(name, values)

    def given(self, name, values):
        values = np.asarray(values, np.float32)
        self.inputs[name] = torch.tensor(values.astype(np.float64), requires_grad=True)
        return self.inputs[name]

    def constant(self, name, values, dtype=np.float32):
        self.extra[f"{self.name}.{name}"] = np.ascontiguousarray(values, dtype)

    def tensors(self, out, weights=None):
        result = dict(self.extra)
        d_out = self.generator.uniform(-1, 1, out.shape).astype(np.float32)
        (out * torch.tensor(d_out.astype(np.float64))).sum().backward()
        for name, x in self.inputs.items():
            result[f"{self.name}.{name}"] = x.detach().numpy().astype(np.float32)
            result[f"{self.name}.d.{name}"] = x.grad.numpy()
        result[f"{self.name}.d_out"] = d_out
        result[f"{self.name}.out"] = out.detach().numpy()
        if weights is not None:
            result[f"{self.name}.weights"] = weights.detach().numpy()
        return {k: np.ascontiguousarray(v) for k, v in result.items()}


def heads(x, count=HEADS):
    """(n, H*D) -> (H, n, D)"""
    return x.reshape(x.shape[0], count, -1).transpose(0, 1)


def joined(x):
    """(H, n, D) -> (n, H*D)"""
    return x.transpose(0, 1).reshape(x.shape[1], -1)


def qkv(case, n, m, size=2.0):
    return (case.draw("q", n, HEADS * D, size=size), case.draw("k", m, HEADS * D, size=size),
            case.draw("v", m, HEADS * DV))


# ---- torch's own


def torch_attention(name, seed, n, m, mask=None, **options):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    if mask is not None:
        options["attn_mask"] = torch.tensor(mask)
    out = F.scaled_dot_product_attention(q, k, v, **options)
    # Values that are the identity make the output the weights.
    weights = F.scaled_dot_product_attention(q, k, torch.eye(m, dtype=torch.float64).expand(HEADS, m, m), **options)
    if mask is not None:
        case.constant("mask", mask, np.uint8)
    return case.tensors(joined(out), weights)


def torch_multi_head(name, seed, n, m, width, other_width=None):
    """Self-attention without other_width, else cross-attention from x to y."""
    case = Case(name, seed)
    count, d = HEADS, D
    module = torch.nn.MultiheadAttention(count * d, count, kdim=other_width, vdim=other_width, batch_first=True,
                                         dtype=torch.float64)
    assert width == count * d
    c, cy = count * d, other_width or count * d
    w = {n_: case.draw(n_, c, cx) for n_, cx in (("wq", c), ("wk", cy), ("wv", cy), ("wo", c))}
    b = {n_: case.draw(n_, c) for n_ in ("bq", "bk", "bv", "bo")}
    x = case.draw("x", n, c)
    y = case.draw("y", m, cy) if other_width else x
    parameters = {"in_proj_bias": torch.cat([b["bq"], b["bk"], b["bv"]]), "out_proj.weight": w["wo"],
                  "out_proj.bias": b["bo"]}
    if other_width:
        parameters |= {"q_proj_weight": w["wq"], "k_proj_weight": w["wk"], "v_proj_weight": w["wv"]}
    else:
        parameters |= {"in_proj_weight": torch.cat([w["wq"], w["wk"], w["wv"]])}
    out, weights = torch.func.functional_call(module, parameters, (x[None], y[None], y[None]),
                                              {"average_attn_weights": False})
    return case.tensors(out[0], weights[0])


# ---- where to look: sets of keys, query by query


def mask_of(n, m, keys):
    mask = np.zeros((n, m), bool)
    for i in range(n):
        for j in keys(i):
            if 0 <= j < m:
                mask[i, j] = True
    return mask


def strided_keys(i, stride):
    return set(range(i - stride + 1, i + 1)) | set(range(i, -1, -stride))


def fixed_keys(i, stride, summary):
    start = i // stride * stride
    return set(range(start, i + 1)) | {b + stride - 1 - s for b in range(0, start, stride) for s in range(summary)}


# ---- Philox4x32-10, and what Bertie draws from it


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's known answer


def words(seed, stream):
    i = 0
    while True:
        yield from philox([i & 0xFFFFFFFF, i >> 32, stream & 0xFFFFFFFF, stream >> 32], [seed & 0xFFFFFFFF, seed >> 32])
        i += 1


def dropout_mask(rate, seed, sequence, n, m):
    threshold = min(round(rate * 65536), 65535)
    mask = np.zeros((HEADS, n, m))
    for h, i, j in np.ndindex(HEADS, n, m):
        row = philox([i, j // 128 * 16 + j % 16, h, sequence], [seed & 0xFFFFFFFF, seed >> 32])
        halves = [x for word in row for x in (word & 0xFFFF, word >> 16)]
        mask[h, i, j] = (halves[j % 128 // 16] >= threshold) * 65536 / (65536 - threshold)
    return torch.tensor(mask)


def big_bird_mask(n, block, window, global_, random, seed):
    """Keys are queries. Floyd's sampling among the blocks that are neither global nor in the window."""
    blocks = -(-n // block)
    mask = np.zeros((HEADS, n, n), bool)
    for h in range(HEADS):
        for b in range(blocks):
            near = {c for c in range(blocks) if abs(c - b) <= window // 2}
            candidates = [c for c in range(global_, blocks) if c not in near]
            draws, taken = words(seed, h << 32 | b), set()
            for i in range(len(candidates) - min(random, len(candidates)), len(candidates)):
                product = next(draws) * (i + 1)
                while product & 0xFFFFFFFF < -(i + 1) % 2**32 % (i + 1):
                    product = next(draws) * (i + 1)
                at = product >> 32
                taken.add(i if at in taken else at)
            seen = set(range(blocks)) if b < global_ else near | set(range(global_)) | {candidates[t] for t in taken}
            for c in seen:
                mask[h, b * block:(b + 1) * block, c * block:(c + 1) * block] = True
    return mask


# ---- the other mechanisms, as their papers have them


def softmax_with_dropout(name, seed, n, m, rate, dropout_seed):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    weights = torch.softmax(q @ k.mT / math.sqrt(D), -1) * dropout_mask(rate, dropout_seed, 0, n, m)
    return case.tensors(joined(weights @ v), weights)


def general(name, seed, n, m, dk):
    case = Case(name, seed)
    q, k, v = case.draw("q", n, HEADS * D), case.draw("k", m, HEADS * dk), case.draw("v", m, HEADS * DV)
    w = case.draw("w", HEADS * D, dk, size=2)
    weights = torch.softmax(torch.einsum("hid,hde,hje->hij", heads(q), w.reshape(HEADS, D, dk), heads(k)), -1)
    return case.tensors(joined(weights @ heads(v)), weights)


def additive(name, seed, n, m, dk, a):
    case = Case(name, seed)
    q, k, v = case.draw("q", n, HEADS * D), case.draw("k", m, HEADS * dk), case.draw("v", m, HEADS * DV)
    w1, w2 = case.draw("w1", HEADS * a, D), case.draw("w2", HEADS * a, dk)
    v_a = case.draw("additive_v", HEADS, a, size=2)
    from_q = heads(q) @ w1.reshape(HEADS, a, D).mT
    from_k = heads(k) @ w2.reshape(HEADS, a, dk).mT
    scores = (torch.tanh(from_q[:, :, None] + from_k[:, None]) * v_a[:, None, None]).sum(-1)
    weights = torch.softmax(scores, -1)
    return case.tensors(joined(weights @ heads(v)), weights)


def adaptive_span(name, seed, n, m, spans, ramp, both_sides):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    z = case.given("spans", spans)
    distance = torch.arange(n)[:, None] - torch.arange(m)[None]
    mask = ((ramp + z[:, None, None] - distance.abs()) / ramp).clamp(0, 1)
    if not both_sides:
        mask = mask * (distance >= 0)
    weights = torch.softmax(q @ k.mT / math.sqrt(D), -1) * mask
    weights = weights / weights.sum(-1, keepdim=True)
    return case.tensors(joined(weights @ v), weights)


def by_features(phi_q, phi_k, v, causal):
    """(n, R), (m, R), (m, Dv) with the sums of phi(k) v^T running along the keys."""
    kv, z = phi_k[..., None] * v[..., None, :], phi_k
    kv, z = (kv.cumsum(1), z.cumsum(1)) if causal else (kv.sum(1, keepdim=True), z.sum(1, keepdim=True))
    return (phi_q[..., None] * kv).sum(2) / (phi_q * z).sum(2)[..., None]


def linear(name, seed, n, m, causal):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    return case.tensors(joined(by_features(F.elu(q) + 1, F.elu(k) + 1, v, causal)))


def performer(name, seed, n, m, features, causal):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m, size=1))
    omega = np.random.Generator(np.random.PCG64(seed + 1000)).normal(size=(HEADS, features, D)).astype(np.float32)
    case.constant("omega", omega)
    omega = torch.tensor(omega.astype(np.float64))

    def phi(x):
        x = x * D**-0.25
        return torch.exp(x @ omega.mT - (x * x).sum(-1, keepdim=True) / 2) / math.sqrt(features)

    return case.tensors(joined(by_features(phi(q), phi(k), v, causal)))


def linformer(name, seed, n, m, rank, columns):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    e, f = case.draw("e", rank, columns), case.draw("f", rank, columns)
    weights = torch.softmax(q @ (e[:, :m] @ k).mT / math.sqrt(D), -1)
    return case.tensors(joined(weights @ (f[:, :m] @ v)))


def nystrom(name, seed, n, m, landmarks, iterations):
    case = Case(name, seed)
    q, k, v = (heads(x) for x in qkv(case, n, m))
    count = min(landmarks, n, m)

    def means(x):
        rows = x.shape[1]
        return torch.stack([x[:, l * rows // count:(l + 1) * rows // count].mean(1) for l in range(count)], 1)

    q_mean, k_mean = means(q), means(k)
    a, b, c = (torch.softmax(x @ y.mT / math.sqrt(D), -1) for x, y in ((q, k_mean), (q_mean, k_mean), (q_mean, k)))
    eye = torch.eye(count, dtype=torch.float64)
    z = b.mT / (b.abs().sum(-2).amax(-1) * b.abs().sum(-1).amax(-1))[:, None, None]
    for _ in range(iterations):
        bz = b @ z
        z = 0.25 * z @ (13 * eye - bz @ (15 * eye - bz @ (7 * eye - bz)))
    return case.tensors(joined(a @ z @ (c @ v)))


FILES = {
    "torch_attention": lambda: [
        torch_attention("self", 1, 6, 6),
        torch_attention("cross", 2, 5, 9),
        torch_attention("one_query", 3, 1, 7),
        torch_attention("one_key", 4, 4, 1),
        torch_attention("scale", 5, 5, 6, scale=0.75),
        torch_attention("causal", 6, 7, 7, is_causal=True),
        torch_attention("causal_cross", 7, 4, 7, is_causal=True),
        torch_attention("causal_at_end", 8, 4, 7, mask_of(4, 7, lambda i: range(i + 4))),
        torch_attention("mask", 9, 6, 7, mask_of(6, 7, lambda i: [i % 3, (5 * i + 2) % 7, 6 - i])),
        torch_attention("window", 10, 8, 8, mask_of(8, 8, lambda i: range(i - 1, i + 3))),
        torch_attention("window_and_global", 11, 8, 8,
                        mask_of(8, 8, lambda i: range(8) if i in (0, 5) else {0, 5, i - 1, i, i + 1})),
        torch_attention("strided", 12, 9, 9, mask_of(9, 9, lambda i: strided_keys(i, 3))),
        torch_attention("fixed", 13, 9, 9, mask_of(9, 9, lambda i: fixed_keys(i, 4, 2))),
        torch_attention("big_bird", 14, 19, 19, big_bird_mask(19, 2, 3, 1, 2, 2**40 + 5)),
    ],
    "torch_multi_head": lambda: [
        torch_multi_head("self", 21, 5, 5, HEADS * D),
        torch_multi_head("cross", 22, 4, 6, HEADS * D, 5),
    ],
    "dropout": lambda: [
        softmax_with_dropout("few", 31, 6, 7, np.float32(0.3), 2**33 + 17),
        softmax_with_dropout("many_keys", 32, 2, 150, np.float32(0.1), 5),
    ],
    "scores": lambda: [
        general("general", 41, 5, 6, 3),
        additive("additive", 42, 5, 6, 3, 7),
    ],
    "adaptive_span": lambda: [
        adaptive_span("back", 51, 8, 8, [0.5, 3.25], 2.0, False),
        adaptive_span("both_sides", 52, 6, 8, [0.5, 3.25], 2.0, True),
    ],
    "linear_time": lambda: [
        linear("linear", 61, 6, 8, False),
        linear("linear_causal", 62, 7, 7, True),
        performer("performer", 63, 6, 8, 10, False),
        performer("performer_causal", 64, 7, 7, 10, True),
        linformer("linformer", 65, 5, 6, 4, 9),
        nystrom("nystrom", 66, 8, 12, 4, 6),
        nystrom("nystrom_uneven", 67, 7, 10, 3, 2),
    ],
}


def main():
    torch.manual_seed(0)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, cases in FILES.items():
        tensors = {}
        for case in cases():
            assert not tensors.keys() & case.keys()
            assert all(np.isfinite(x).all() for x in case.values())
            tensors |= case
        save_file(tensors, GOLDEN / f"{name}.safetensors")


if __name__ == "__main__":
    main()
