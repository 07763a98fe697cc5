#!/usr/bin/env python3
"""Writes tests/golden/convert: small random models as TensorFlow's scripts named their tensors, in .npz files, and
what transformers calls the same tensors. With a program, converts them and looks at the result with transformers.

  python tools/make_convert_goldens.py               # writes the files
  python tools/make_convert_goldens.py build/bertie  # converts them with it, and compares every tensor
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parent.parent / "tests/golden/convert"
KEEP_EMBEDDINGS = "word_embeddings|position_embeddings|token_type_embeddings"


def google(name, value):
    """Today's name to that of google-research/bert, and the array that goes with it."""
    value = value.numpy()
    name = re.sub(r"\.layer\.(\d+)\.", r".layer_\1.", name)
    if re.search(r"LayerNorm\.(weight|bias)$", name):
        name = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    elif re.search(f"({KEEP_EMBEDDINGS})" + r"\.weight$", name):
        name = name[: -len(".weight")]
    elif name.startswith("cls.seq_relationship."):
        name = name.replace(".weight", ".output_weights").replace(".bias", ".output_bias")
    elif name == "cls.predictions.bias":
        name = "cls.predictions.output_bias"
    elif name.startswith("classifier."):
        name = name.replace("classifier.weight", "output_weights").replace("classifier.bias", "output_bias")
    elif name.startswith("qa_outputs."):
        name = name.replace("qa_outputs.", "cls.squad.output_").replace("output_weight", "output_weights")
    elif name.endswith(".weight"):
        name, value = name[: -len(".weight")] + ".kernel", value.T
    return name.replace(".", "/"), value


def google_albert(name, value):
    value = value.numpy()
    name = name.replace("albert.", "bert.", 1) if name.startswith("albert.") else name
    name = re.sub(r"encoder\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.",
                  r"encoder.transformer.group_\1.inner_group_\2.", name)
    for today, then in [("attention.LayerNorm.", "LayerNorm."), ("full_layer_layer_norm.", "LayerNorm_1."),
                        ("attention.query.", "attention_1.self.query."), ("attention.key.", "attention_1.self.key."),
                        ("attention.value.", "attention_1.self.value."),
                        ("attention.dense.", "attention_1.output.dense."), (".ffn.", ".ffn_1.intermediate.dense."),
                        (".ffn_output.", ".ffn_1.intermediate.output.dense."), ("pooler.", "pooler.dense.")]:
        name = name.replace(today, then, 1)
    if name.startswith("predictions."):
        name = "cls.predictions." + ("output_bias" if name == "predictions.bias" else "transform." + name[12:])
    if name.startswith("sop_classifier.classifier."):
        name = name.replace("sop_classifier.classifier.", "cls.seq_relationship.output_").replace("_weight", "_weights")
    elif re.search(r"LayerNorm(_1)?\.(weight|bias)$", name):
        name = name[: name.rindex(".")] + (".gamma" if name.endswith("weight") else ".beta")
    elif re.search(f"({KEEP_EMBEDDINGS})" + r"\.weight$", name):
        name = name[: -len(".weight")]
    elif name.endswith(".weight"):
        name, value = name[: -len(".weight")] + ".kernel", value.T
    return name.replace(".", "/"), value


def openai(name, value):
    value = value.numpy()
    name = re.sub(r"^transformer\.", "model.", name)
    name = re.sub(r"\.h\.(\d+)\.", r".h\1.", name)
    norm = re.search(r"ln_(1|2|f)\.", name)
    if re.search(r"w[tp]e\.weight$", name):
        name = name[: -len(".weight")]
    elif name.endswith(".weight"):
        name = name[: -len("weight")] + ("g" if norm else "w")
        value = value if norm else value[None]  # a convolution
    else:
        name = name[: -len("bias")] + "b"
    return name.replace(".", "/"), value


SHAPE = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
             max_position_embeddings=12)
MODELS = {
    "bert": (google, transformers.BertForPreTraining, transformers.BertConfig(**SHAPE)),
    "bert_classifier": (google, transformers.BertForSequenceClassification,
                        transformers.BertConfig(**SHAPE, num_labels=3)),
    "bert_squad": (google, transformers.BertForQuestionAnswering, transformers.BertConfig(**SHAPE)),
    "albert": (google_albert, transformers.AlbertForPreTraining,
               transformers.AlbertConfig(**SHAPE, embedding_size=8, num_hidden_groups=2)),
    "gpt2": (openai, transformers.GPT2LMHeadModel,
             transformers.GPT2Config(vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=12)),
}


def tensors_of(net):
    """What safetensors files hold: tied tensors once."""
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        return transformers.modeling_utils.load_state_dict(f"{folder}/model.safetensors")


def write():
    torch.manual_seed(4)
    for name, (rename, kind, config) in MODELS.items():
        net = kind(config)
        for p in net.parameters():
            torch.nn.init.normal_(p)
        folder = OUT / name
        folder.mkdir(parents=True, exist_ok=True)
        tensors = tensors_of(net)
        arrays = dict(rename(k, v) for k, v in tensors.items())
        assert len(arrays) == len(tensors)
        if name == "bert":  # as it comes out of a training checkpoint
            kernel = "bert/pooler/dense/kernel"
            arrays |= {"global_step": np.int64(7), kernel + "/adam_m": arrays[kernel], kernel + "/adam_v": arrays[kernel]}
        np.savez_compressed(folder / "model.npz", **arrays)
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors", {"format": "pt"})
        text = json.loads(config.to_json_string(use_diff=False))
        keep = set(SHAPE) | {"embedding_size", "num_hidden_groups", "n_embd", "n_layer", "n_head", "n_positions",
                             "model_type", "type_vocab_size", "id2label", "label2id", "architectures"}
        text = {k: v for k, v in text.items() if k in keep} | {"architectures": [kind.__name__]}
        if name == "bert":  # Google's file has neither of them
            del text["model_type"], text["architectures"]
        (folder / "config.json").write_text(json.dumps(text, indent=2) + "\n")


def check(program):
    for name, (_, kind, _) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([program, "convert", OUT / name / "model.npz", f"{folder}/new"], check=True)
            net, info = kind.from_pretrained(f"{folder}/new", output_loading_info=True)
            assert not any(info.values()), info
            expected = transformers.modeling_utils.load_state_dict(OUT / name / "expected.safetensors")
            have = tensors_of(net)
            assert expected.keys() == have.keys(), expected.keys() ^ have.keys()
            for k, v in expected.items():
                assert torch.equal(v.view(torch.int32), have[k].view(torch.int32)), k
            same = (pathlib.Path(folder) / "new/model.safetensors").read_bytes() == (
                OUT / name / "expected.safetensors").read_bytes()
            print(f"{name}: transformers loads it; {len(expected)} tensors, the same bits; file the same bytes: {same}")


if len(sys.argv) > 1:
    check(sys.argv[1])
else:
    write()
