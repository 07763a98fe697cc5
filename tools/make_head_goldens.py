#!/usr/bin/env python3
"""What single heads of attention do, by Hugging Face transformers and PyTorch, for small models of tests/golden/families.

    .venv/bin/python tools/make_head_goldens.py      # tests/golden/heads

tests/golden/heads/<family>-<head>-<i>.safetensors, of the model in tests/golden/families that has this name:
    ids, types              I32 [n]; one sequence; types absent where the family has none
    off                     I32 [k, 2]: layer and head, from 0, of heads whose output is zeroed before the output
                            projection, as head_mask did where transformers still had it
    off.hidden, off.logits  F32: the last hidden state and the logits then
    target                  I32 [2]: the row (masked-lm: of the sequence; else 0) and the class of one logit
    logit                   F64 [1]: that logit, with all heads on
    gradient.0 .. .L-1      F32 [heads, n, n]: its gradient by each layer's attention weights

All is computed in fp64 and rounded at the end. L counts applied layers, as in make_family_goldens.py.
"""

import pathlib

import numpy as np
import safetensors.numpy
import torch

from make_gradient_goldens import Draw, load, sequence_inputs

HEADS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "heads"
MODELS = [
    "bert-masked-lm-0", "bert-masked-lm-1", "bert-sequence-classification-1", "roberta-masked-lm-0",
    "roberta-sequence-classification-0", "distilbert-masked-lm-1", "distilbert-sequence-classification-0",
    "albert-masked-lm-1", "gpt2-sequence-classification-0", "gpt2-sequence-classification-1"]
OUTPUTS = ("attention.output.dense", "attention.out_lin", "attention.dense", "attn.c_proj")
TOKENS = 11


def run(net, inputs):
    return net(**{key: value[None] for key, value in inputs.items()}, output_attentions=True, output_hidden_states=True)


def switched_off(net, inputs, off, size):
    """Each attention in turn is a layer, also where one module is used again and again."""
    layer = 0

    def silence(_, args):
        nonlocal layer
        context = args[0].clone()
        for at, head in off:
            if at == layer:
                context[..., head * size:(head + 1) * size] = 0
        layer += 1
        return (context, *args[1:])

    hooks = [module.register_forward_pre_hook(silence)
             for name, module in net.named_modules() if name.endswith(OUTPUTS)]
    out = run(net, inputs)
    for hook in hooks:
        hook.remove()
    assert layer == len(out.attentions), (layer, len(out.attentions))
    return out


def make(name):
    net = load(name)
    draw = Draw(len(name))
    inputs = sequence_inputs(net, name, TOKENS, draw)
    out = run(net, inputs)
    depth, heads = len(out.attentions), out.attentions[0].shape[1]
    off = sorted({(int(draw.integers(0, depth, 1)), int(draw.integers(0, heads, 1))) for _ in range(3)})
    logits = out.logits[0]
    row = int(draw.integers(0, TOKENS, 1)) if logits.dim() == 2 else 0
    kind = int(draw.integers(0, logits.shape[-1], 1))
    logit = logits[row, kind] if logits.dim() == 2 else logits[kind]
    gradients = torch.autograd.grad(logit, out.attentions)
    with torch.no_grad():
        without = switched_off(net, inputs, off, out.hidden_states[-1].shape[-1] // heads)
    numbers = {
        "ids": inputs["input_ids"].int(), "off": torch.tensor(off).int(), "off.hidden": without.hidden_states[-1][0].float(),
        "off.logits": without.logits[0].float(), "target": torch.tensor([row, kind]).int(), "logit": logit.detach()[None]}
    if "token_type_ids" in inputs:
        numbers["types"] = inputs["token_type_ids"].int()
    for layer, gradient in enumerate(gradients):
        numbers[f"gradient.{layer}"] = gradient[0].float()
    assert (without.logits - out.logits).abs().max() > 1e-3, name
    HEADS.mkdir(exist_ok=True)
    safetensors.numpy.save_file({key: np.ascontiguousarray(value.numpy()) for key, value in numbers.items()},
                                HEADS / f"{name}.safetensors")
    print(name, off, logit.item(), [float(g.abs().max()) for g in gradients])


for model in MODELS:
    make(model)
