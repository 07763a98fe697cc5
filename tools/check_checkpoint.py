#!/usr/bin/env python3
"""Loads what Bertie's training wrote with Hugging Face transformers: no tensor is missing or unknown, and the loss of
a batch is what Bertie says.

    .venv/bin/python tools/check_checkpoint.py RUN/checkpoint-100 ...     # folders of `bertie pretrain`
    build/training_driver save tests/golden/families DIR                  # a learner of every family and head
    .venv/bin/python tools/check_checkpoint.py DIR/*

Each model gets sequences of random tokens, up to as many as it takes, with random targets for the heads that
config.json's architecture has; transformers computes the loss in fp64 as in make_gradient_goldens.py, Bertie
(`training_driver losses`) in fp32.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

from make_gradient_goldens import Draw, one_by_one, pack, sequences_for

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 1e-5  # relative
HEADS = {  # what an architecture's name ends in: what make_gradient_goldens.py calls it, what model/family.h does
    "ForMaskedLM": ("masked-lm", ["masked language model"]),
    "ForPreTraining": ("pretraining", ["masked language model", "next sentence"]),
    "ForNextSentencePrediction": ("next-sentence", ["next sentence"]),
    "ForSequenceClassification": ("sequence-classification", ["sequence classification"]),
    "ForTokenClassification": ("token-classification", ["token classification"]),
    "ForQuestionAnswering": ("question-answering", ["question answering"]),
    "LMHeadModel": ("causal-lm", ["language model"]),
    "MTModel": ("seq2seq", ["language model"])}


def batch_line(packed, names):
    """A line for training_driver, from what a golden file would hold."""
    line = {k.replace("source.", "").replace(".", "_"): v.tolist() for k, v in packed.items()
            if k.split(".")[-1] in ("ids", "types", "offsets")}
    line["terms"] = [{"head": names[0], **{k: packed[k].flatten().tolist() for k in ("rows", "targets", "values")
                                           if k in packed}}]
    if "labels" in packed:
        line["terms"].append({"head": names[1], "targets": packed["labels"].tolist()})
    return json.dumps(line)


def check(folder, driver):
    """What is wrong; None where nothing is."""
    config = json.loads((folder / "config.json").read_text())
    architecture = config["architectures"][0]
    ending = next((e for e in HEADS if architecture.endswith(e)), None)
    if ending is None:
        return f"{architecture} has no head"
    head, names = HEADS[ending]
    net, info = getattr(transformers, architecture).from_pretrained(
        folder, attn_implementation="eager", dtype=torch.float64, output_loading_info=True)
    if any(info.values()):
        return f"loading: { {k: v for k, v in info.items() if v} }"
    net.eval()
    longest = min(getattr(net.config, "max_position_embeddings", 128), 128) - 9  # RoBERTa's begin at pad + 1
    lengths = [(n, n // 2 + 1) for n in (longest, 2, 1, longest // 2 + 1)]
    sequences = sequences_for(net, f"{config['model_type']}-{head}-0", lengths, Draw(5))
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write(batch_line(pack(head, sequences), names) + "\n")
        file.flush()
        done = subprocess.run([driver, "losses", folder, file.name], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip()
    theirs, ours = one_by_one(net, head, sequences).item(), json.loads(done.stdout)["loss"]
    if not abs(theirs - ours) <= TOLERANCE * theirs:
        return f"the loss is {ours}, by transformers {theirs}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--driver", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build" / "training_driver")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    wrong = {folder: why for folder in options.folders if (why := check(folder, options.driver))}
    for folder, why in wrong.items():
        print(f"{folder}: {why}")
    print(f"{len(options.folders) - len(wrong)} of {len(options.folders)} checkpoints are what they should be")
    sys.exit(len(wrong) > 0)


if __name__ == "__main__":
    main()
