#!/usr/bin/env python3
"""Writes tests/golden/onnx: a small random BERT as torch.onnx exports it. Needs PyTorch, onnx, onnxscript, and a
transformers that both exporters take (4.46.3).

    tools/make_onnx_goldens.py

model.safetensors and config.json are the model itself. named.onnx is by the exporter that optimum uses, whose nodes are
called by their modules; numbered.onnx the same with nodes called by numbers, as older versions did; wrapped.onnx with
sentence-transformers' module before each name; today.onnx is by today's exporter, with its numbers in another file;
lists.onnx has its numbers one by one; fresh*.onnx
are of a model that never learned, many of whose parameters are equal; the others stand for what ONNX Runtime's quantization
and optimizer make.
"""
import copy
import pathlib
import shutil
import tempfile
import warnings

import onnx
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "onnx"


def export(model, file, dynamo):
    ids = torch.arange(6).reshape(1, 6)
    axes = {name: {0: "batch", 1: "length"} for name in ("input_ids", "attention_mask")}
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (), f"{folder}/a.onnx", kwargs={"input_ids": ids, "attention_mask": torch.ones_like(ids)},
                          input_names=list(axes), dynamic_axes=axes, dynamo=dynamo)
        graph = onnx.load(f"{folder}/a.onnx")
    for node in graph.graph.node:  # where in Python it came from
        del node.metadata_props[:]
        node.doc_string = ""
    del graph.graph.value_info[:]
    if file:
        onnx.save(graph, file)
    return graph


def number_nodes(graph, file):
    numbered = copy.deepcopy(graph)
    for i, node in enumerate(numbered.graph.node):
        node.name = f"{node.op_type}_{i}"
    onnx.save(numbered, file)


def of_one_node(kind, domain, file):
    node = onnx.helper.make_node(kind, ["a.weight", "b"], ["c"], domain=domain)
    weight = onnx.helper.make_tensor("a.weight", onnx.TensorProto.FLOAT, [1], [1.0])
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], [weight])), file)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=12, max_position_embeddings=10, attn_implementation="eager")
    model = transformers.BertForMaskedLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    for name in ("bert.encoder.layer.0.output.dense.bias", "bert.encoder.layer.1.output.LayerNorm.bias"):
        torch.nn.init.zeros_(model.get_parameter(name))  # equal numbers, which exporters store once
    model.save_pretrained(OUT)
    (OUT / "generation_config.json").unlink(missing_ok=True)
    model.config.return_dict = False
    graph = export(model, OUT / "named.onnx", False)
    today = export(model, None, True)
    onnx.save(today, OUT / "today.onnx", save_as_external_data=True, location="today.onnx.data", size_threshold=0)
    number_nodes(graph, OUT / "numbered.onnx")
    lists = copy.deepcopy(graph)
    for constant in lists.graph.initializer:  # numbers one by one, and not as bytes
        values = onnx.numpy_helper.to_array(constant)
        constant.CopyFrom(onnx.helper.make_tensor(constant.name, constant.data_type, constant.dims, values.flatten()))
    onnx.save(lists, OUT / "lists.onnx")
    wrapped = copy.deepcopy(graph)
    for constant in wrapped.graph.initializer:
        if "::" not in constant.name:
            constant.name = "0.auto_model." + constant.name
    for node in wrapped.graph.node:
        node.name = "/0/auto_model" + node.name
        for i, name in enumerate(node.input):
            if name.endswith((".weight", ".bias")):
                node.input[i] = "0.auto_model." + name
    onnx.save(wrapped, OUT / "wrapped.onnx")
    of_one_node("MatMulInteger", "", OUT / "integers.onnx")
    of_one_node("DequantizeLinear", "", OUT / "dequantized.onnx")
    of_one_node("SkipLayerNormalization", "com.microsoft", OUT / "fused.onnx")
    fresh = transformers.BertModel(config).eval()
    fresh.save_pretrained(OUT / "fresh")
    (OUT / "fresh" / "model.safetensors").rename(OUT / "fresh.safetensors")
    shutil.rmtree(OUT / "fresh")
    fresh.config.return_dict = False
    number_nodes(export(fresh, None, False), OUT / "fresh_numbered.onnx")
    export(fresh, OUT / "fresh_today.onnx", True)
    for file in OUT.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
