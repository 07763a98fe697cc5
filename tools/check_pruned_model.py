#!/usr/bin/env python3
"""A pruned model against transformers: it loads there by config.json's pruned_heads, and answers as Bertie does.

    bertie prune -m bert-base-uncased pruned --heads 1-2,3-4
    .venv/bin/python tools/check_pruned_model.py build/bertie pruned "You [MASK] me."

transformers has done without pruned heads since version 5: this takes one before it (4.46 and its tokenizers do).
"""

import json
import subprocess
import sys

import torch
import transformers

bertie, folder, text = sys.argv[1:]
if int(transformers.__version__.split(".")[0]) >= 5:
    sys.exit(f"transformers {transformers.__version__} does not read pruned_heads; this takes 4")
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
inputs = tokenizer(text, return_tensors="pt")
with torch.no_grad():
    out = model(**inputs, output_attentions=True)
at = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[0, 0]
best = out.logits[0, at].softmax(-1).topk(5)

reply = json.loads(subprocess.run([bertie, "fill-mask", "-m", folder, "--json", text], check=True, capture_output=True).stdout)
ours = reply["masks"][0]
assert [f["id"] for f in ours] == best.indices.tolist(), (ours, best)
worst = max(abs(f["score"] - p) for f, p in zip(ours, best.values.tolist()))
attention = json.loads(subprocess.run([bertie, "attend", "-m", folder, "--json", text], check=True, capture_output=True).stdout)
weights, gone = torch.tensor(attention["weights"]), model.config.pruned_heads
difference = 0.0
for layer, theirs in enumerate(out.attentions):
    left = [h for h in range(weights.shape[1]) if h not in gone.get(layer, [])]
    assert len(left) == theirs.shape[1], (layer, left, theirs.shape)
    difference = max(difference, (weights[layer, left] - theirs[0]).abs().max().item())
print(f"pruned_heads {gone}: the same five tokens, scores within {worst:.1e}, attention within {difference:.1e}")
assert worst < 2e-5 and difference < 2e-5
