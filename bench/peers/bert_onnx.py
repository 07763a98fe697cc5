"""BERT encoders as ONNX files, in the forms that ONNX Runtime runs fastest.

Two ways to write the same encoder with ONNX Runtime's fused operators:
    attention   one Attention operator a layer, with Q, K and V in one matrix product
    multihead   three products and MultiHeadAttention, which has a flash kernel where there is no mask
The first is what onnxruntime.transformers.optimizer makes of an export of transformers' BertModel.
Inputs: ids int32 [B, S] and, with a mask, mask int32 [B, S]; output: hidden float32 [B, S, C].
"""

import dataclasses
import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

FORMS = ["attention", "multihead"]


@dataclasses.dataclass(frozen=True)
class Shape:
    layers: int
    hidden: int
    heads: int
    eps: float

    @staticmethod
    def of(folder):
        config = json.loads((folder / "config.json").read_text())
        return Shape(config["num_hidden_layers"], config["hidden_size"], config["num_attention_heads"],
                     config.get("layer_norm_eps", 1e-12))


def weights_of(folder):
    """By transformers' names for BertModel, in fp32; matrices are (out, in). Older files say gamma and beta."""
    newer = lambda name: name.removeprefix("bert.").replace(".gamma", ".weight").replace(".beta", ".bias")
    return {newer(name): value.astype(np.float32) for name, value in load_file(folder / "model.safetensors").items()
            if np.issubdtype(value.dtype, np.floating)}


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
