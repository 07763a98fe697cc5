"""BERT encoders with random weights as ONNX files, in the forms that ONNX Runtime runs fastest.

Two ways to write the same encoder with ONNX Runtime's fused operators:
    attention   one Attention operator a layer, with Q, K and V in one matrix product
    multihead   three products and MultiHeadAttention, which has a flash kernel where there is no mask
The first is what onnxruntime.transformers.optimizer makes of an export of transformers' BertModel.
Inputs: ids int32 [B, S] and, with a mask, mask int32 [B, S]; output: hidden float32 [B, S, C].
"""

import dataclasses

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int = 30522
    positions: int = 512
    types: int = 2
    eps: float = 1e-12

    def flops(self, lengths):
        """2 per multiply-add of the matrix products and of attention, real tokens only."""
        c, f = self.hidden, self.ffn
        products = sum(lengths) * 2 * (4 * c * c + 2 * c * f)
        attention = sum(2 * 2 * n * n * c for n in lengths)
        return self.layers * (products + attention)


SHAPES = {"bert-base": Shape(12, 768, 12, 3072), "minilm": Shape(6, 384, 12, 1536)}
FORMS = ["attention", "multihead"]


def random_weights(shape, seed=1):
    """By Hugging Face's names; matrices are (out, in)."""
    random = np.random.default_rng(seed)
    draw = lambda *size, scale=0.05: (random.standard_normal(size, np.float32) * scale).astype(np.float32)
    c = shape.hidden
    weights = {"embeddings.word_embeddings.weight": draw(shape.vocab, c),
               "embeddings.position_embeddings.weight": draw(shape.positions, c),
               "embeddings.token_type_embeddings.weight": draw(shape.types, c)}

    def norm(name):
        weights[name + ".weight"], weights[name + ".bias"] = 1 + draw(c), draw(c)

    def dense(name, out, inner):
        weights[name + ".weight"], weights[name + ".bias"] = draw(out, inner, scale=inner**-0.5), draw(out)

    norm("embeddings.LayerNorm")
    for i in range(shape.layers):
        layer = f"encoder.layer.{i}."
        for part in ["query", "key", "value"]:
            dense(layer + "attention.self." + part, c, c)
        dense(layer + "attention.output.dense", c, c)
        norm(layer + "attention.output.LayerNorm")
        dense(layer + "intermediate.dense", shape.ffn, c)
        dense(layer + "output.dense", c, shape.ffn)
        norm(layer + "output.LayerNorm")
    return weights


class Graph:
    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def constant(self, name, value):
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def vector(self, name):
        return self.constant(name, self.weights[name])

    def matrix(self, name):
        return self.constant(name + ".transposed", self.weights[name + ".weight"].T)

    def node(self, op, inputs, outputs=1, domain="com.microsoft", **attributes):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def product(self, x, name):
        return self.node("MatMul", [x, self.matrix(name)], domain="")


def build(shape, weights, form, masked):
    g = Graph(weights)
    norm = lambda name: [g.vector(name + ".weight"), g.vector(name + ".bias")]
    tables = [g.vector(f"embeddings.{t}_embeddings.weight") for t in ["word", "position", "token_type"]]
    types = g.node("Sub", ["ids", "ids"], domain="")
    embedded = ["ids", types, *tables, *norm("embeddings.LayerNorm")] + (["mask"] if masked else [])
    x, lengths = g.node("EmbedLayerNormalization", embedded, 2, epsilon=shape.eps)
    for i in range(shape.layers):
        layer = f"encoder.layer.{i}."
        parts = [layer + "attention.self." + p for p in ["query", "key", "value"]]
        bias = g.constant(layer + "qkv.bias", np.concatenate([weights[p + ".bias"] for p in parts]))
        if form == "attention":
            qkv = g.constant(layer + "qkv", np.concatenate([weights[p + ".weight"].T for p in parts], 1))
            inputs = [x, qkv, bias] + ([lengths] if masked else [])
            mixed = g.node("Attention", inputs, num_heads=shape.heads)
        else:
            inputs = [g.product(x, p) for p in parts] + [bias] + (["mask"] if masked else [])
            mixed = g.node("MultiHeadAttention", inputs, num_heads=shape.heads)
        for inner, block in [(mixed, "attention.output"), (None, "output")]:
            if inner is None:
                raised = g.product(x, layer + "intermediate.dense")
                inner = g.node("BiasGelu", [raised, g.vector(layer + "intermediate.dense.bias")])
            y = g.product(inner, layer + block + ".dense")
            inputs = [y, x, *norm(layer + block + ".LayerNorm"), g.vector(layer + block + ".dense.bias")]
            x = g.node("SkipLayerNormalization", inputs, epsilon=shape.eps)
    g.nodes.append(helper.make_node("Identity", [x], ["hidden"]))
    tokens = lambda name: helper.make_tensor_value_info(name, TensorProto.INT32, ["B", "S"])
    graph = helper.make_graph(
        g.nodes, "bert", [tokens("ids")] + ([tokens("mask")] if masked else []),
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["B", "S", shape.hidden])],
        list(g.constants.values()))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def transformers_model(shape, weights):
    """The same encoder in transformers, to compare with. Needs torch."""
    import torch
    from transformers import BertConfig, BertModel
    config = BertConfig(vocab_size=shape.vocab, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
                        num_attention_heads=shape.heads, intermediate_size=shape.ffn, layer_norm_eps=shape.eps,
                        max_position_embeddings=shape.positions, type_vocab_size=shape.types, attn_implementation="eager")
    net = BertModel(config, add_pooling_layer=False).eval()
    missing = net.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()}, strict=False)
    assert not missing.unexpected_keys and all("position_ids" in k for k in missing.missing_keys), missing
    return net
