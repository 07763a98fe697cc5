#!/usr/bin/env python3
"""Every attention weight and the last hidden states of Google's bert-base-uncased for a few texts, by Hugging Face
transformers in fp32: what tests/model/bert_base_test.cc compares with.

    python3 -m venv .venv && .venv/bin/pip install -r tools/requirements.txt
    .venv/bin/python tools/make_bert_base_golden.py DIR         # DIR: config.json, model.safetensors, vocab.txt

tests/golden/bert-base-uncased/expected.safetensors, for each text i:
    i.ids, i.types    I32 [n]
    i.attention       F32 [12, 12, n, n]: layer, head, query, key
    i.hidden          F32 [n, 768]: the last hidden states
    i.masked          F32 [vocabulary]: logits at the text's [MASK], where it has one
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertForMaskedLM, BertTokenizerFast

TEXTS = [("The bank deposited the money near the river bank.",), ("You found me.", "Paris is the [MASK] of France.")]


def main():
    folder = sys.argv[1]
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    model = BertForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    tensors = {}
    for i, texts in enumerate(TEXTS):
        inputs = tokenizer(*texts, return_tensors="pt")
        with torch.no_grad():
            out = model(**inputs, output_attentions=True, output_hidden_states=True)
        ids = inputs["input_ids"][0]
        tensors[f"{i}.ids"] = ids.to(torch.int32)
        tensors[f"{i}.types"] = inputs["token_type_ids"][0].to(torch.int32)
        tensors[f"{i}.attention"] = torch.stack([a[0] for a in out.attentions]).contiguous()
        tensors[f"{i}.hidden"] = out.hidden_states[-1][0].contiguous()
        masks = (ids == tokenizer.mask_token_id).nonzero()
        if len(masks):
            tensors[f"{i}.masked"] = out.logits[0, masks[0, 0]].contiguous()
    to = Path(__file__).resolve().parent.parent / "tests/golden/bert-base-uncased"
    to.mkdir(parents=True, exist_ok=True)
    save_file(tensors, to / "expected.safetensors")


if __name__ == "__main__":
    main()
