#!/usr/bin/env python3
"""Loads models with Hugging Face transformers and compares what they give with tests/golden/families.

    build/save_models tests/golden/families DIR           # Bertie loads them all, encoder-decoders too, and saves
    .venv/bin/python tools/check_saved_models.py DIR      # DIR/<name>/ for names of tests/golden/families
    .venv/bin/python tools/check_saved_models.py          # the goldens themselves

DIR/<name>/ is what Bertie saved from the golden of that name, with Model::save or `bertie convert`: a tensor that is
missing, misnamed, turned or rounded wrongly is seen.
Every tensor that the file holds must be one that transformers knows, and none may be missing.
"""

import json
import pathlib
import sys

import safetensors.torch
import torch
import transformers

from make_family_goldens import FAMILIES, run, run_pair

TOLERANCE = 2e-6  # the same weights on the same library


def load(folder):
    config = json.loads((folder / "config.json").read_text())
    kind = getattr(transformers, config["architectures"][0])
    more = {}
    if config["architectures"][0].endswith("Model") and not config["architectures"][0].endswith(("MTModel", "HeadModel")):
        names = safetensors.torch.load_file(folder / "model.safetensors").keys()
        if not any("pooler" in n for n in names) and config["model_type"] not in ("distilbert", "gpt2"):
            more["add_pooling_layer"] = False
    net, info = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True,
                                     **more)
    wrong = {k: v for k, v in info.items() if v}
    return net.eval(), wrong


def packed_parts(values, offsets):
    return [values[a:b].long() for a, b in zip(offsets[:-1], offsets[1:])]


def results(net, expected):
    """Everything that `expected` holds besides ids and continuations, from net."""
    if "source.ids" in expected:
        pairs = zip(packed_parts(expected["source.ids"], expected["source.offsets"]),
                    packed_parts(expected["target.ids"], expected["target.offsets"]))
        parts = [run_pair(net, *pair) for pair in pairs]
    else:
        ids = packed_parts(expected["ids"], expected["offsets"])
        types = packed_parts(expected["types"], expected["offsets"]) if "types" in expected else [None] * len(ids)
        parts = [run(net, *pair) for pair in zip(ids, types)]
    return {key: torch.cat([p[key] for p in parts]) for key in parts[0]}


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FAMILIES
    folders = sorted(f for f in root.iterdir() if (f / "config.json").exists())
    if not folders:
        raise SystemExit(f"{root}: no models")
    failed = 0
    for folder in folders:
        expected = safetensors.torch.load_file(FAMILIES / folder.name / "expected.safetensors")
        net, wrong = load(folder)
        got = results(net, expected)
        # transformers gives what the golden holds, and nothing that it lacks
        inputs = {"ids", "types", "offsets"}
        missing = {k for k in expected if not k.startswith(("generate.", "source.", "target."))} - inputs - got.keys()
        worst = max((got[k] - expected[k]).abs().max().item() for k in got)
        bad = bool(wrong or missing or not worst <= TOLERANCE)
        failed += bad
        if bad:
            print(f"{folder.name}: off by {worst:.1e}; loading {wrong}; missing {sorted(missing)}")
    print(f"{len(folders) - failed} of {len(folders)} models as expected")
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
