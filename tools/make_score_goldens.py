#!/usr/bin/env python3
"""How likely texts are, token by token, by Hugging Face transformers: tests/golden/tasks/*/scores.json.

    .venv/bin/python tools/make_score_goldens.py

For each masked model there the logarithm of each token's probability with that token masked; for the causal one that
of each token after <|endoftext|> and those before it. Weights are those of the folder, in double.
"""

import json
import pathlib

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

TASKS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tasks"
TEXTS = ["The bank deposited the money near the river bank, and nobody noticed until Thursday.", "It",
         "Zoë Müller-Østergård met João at 10:45 in Kraków.", "unforgettable unforgettable!", "",
         "Please remember to water the orchard, feed the cat and lock the observatory before you leave."]


@torch.no_grad()
def masked(net, tokenizer, text):
    encoded = tokenizer(text, return_special_tokens_mask=True)
    ids = torch.tensor([encoded["input_ids"]])
    for place, special in enumerate(encoded["special_tokens_mask"]):
        if special:
            continue
        changed = ids.clone()
        changed[0, place] = tokenizer.mask_token_id
        yield int(ids[0, place]), net(changed).logits[0, place].log_softmax(-1)


@torch.no_grad()
def causal(net, tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    if ids:
        logits = net(torch.tensor([[net.config.bos_token_id, *ids]])).logits[0].log_softmax(-1)
        yield from zip(ids, logits)


def main():
    for folder in sorted(TASKS.iterdir()):
        if folder.name.startswith("fill-mask"):
            kind, scores = AutoModelForMaskedLM, masked
        elif folder.name.startswith("text-generation"):
            kind, scores = AutoModelForCausalLM, causal
        else:
            continue
        net = kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        rows = []
        for text in TEXTS:
            tokens = [{"id": id, "log_probability": round(float(p[id]), 7), "likeliest": int(p.argmax()),
                       "likeliest_log_probability": round(float(p.max()), 7)} for id, p in scores(net, tokenizer, text)]
            rows.append(json.dumps({"text": text, "scores": tokens}, ensure_ascii=False))
        (folder / "scores.json").write_text("[" + ",\n".join(rows) + "]\n", encoding="utf-8")
        print(folder.name, sum(len(json.loads(row)["scores"]) for row in rows), "tokens")


if __name__ == "__main__":
    main()
