#!/usr/bin/env python3
"""Loads a folder that `bertie finetune` or `bertie distill` wrote with Hugging Face transformers, and compares the
answers of both for the rows of a labelled file.

    .venv/bin/python tools/check_finetuned.py KIND FOLDER FILE [--rows 200] [--bertie build/bertie]

KIND is classify, pair, tag or answer; FILE is JSON lines with `text`, `text` and `text_pair`, or `question` and
`context`. No tensor may be missing or unknown, and every probability must be within 2e-5.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE = 2e-5
CLASSES = {"classify": "AutoModelForSequenceClassification", "pair": "AutoModelForSequenceClassification",
           "tag": "AutoModelForTokenClassification", "answer": "AutoModelForQuestionAnswering"}


def bertie_says(a, rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
        file.flush()
        more = {"tag": ["--group", "none", "--keep-outside"], "classify": ["--top", "1000"],
                "pair": ["--top", "1000"]}.get(a.kind, [])
        columns = {"classify": ["--column", "text"], "tag": ["--column", "text"],
                   "pair": ["--column", "text", "--column-pair", "text_pair"],
                   "answer": ["--column", "question", "--column-pair", "context"]}[a.kind]
        command = [a.bertie, a.kind, "-m", a.folder, "-f", file.name, *columns, *more, "--json", "-q"]
        printed = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True).stdout
    return [json.loads(line) for line in printed.splitlines()]


def scores_of(config, logits):
    if config.problem_type == "regression" or len(config.id2label) == 1:
        return logits
    return torch.sigmoid(logits) if config.problem_type == "multi_label_classification" else logits.softmax(-1)


@torch.no_grad()
def transformers_says(kind, net, tokenizer, row):
    if kind == "answer":
        inputs = tokenizer(row["question"], row["context"], return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0]
        out = net(**inputs)
        inside = torch.tensor([s == 1 for s in inputs.sequence_ids(0)])
        start, end = (x[0].masked_fill(~inside, -torch.inf).softmax(-1) for x in (out.start_logits, out.end_logits))
        both = torch.triu(start[:, None] * end[None, :])
        both = both * (torch.arange(len(end))[None] - torch.arange(len(start))[:, None] < 15)
        place = int(both.argmax())
        i, j = divmod(place, len(end))
        return row["context"][offsets[i][0]:offsets[j][1]], float(both.max())
    inputs = tokenizer(row["text"], row.get("text_pair") if kind == "pair" else None, return_tensors="pt",
                       truncation=True)
    scores = scores_of(net.config, net(**inputs).logits[0])
    names = net.config.id2label
    if kind == "tag":
        special = tokenizer.get_special_tokens_mask(inputs["input_ids"][0].tolist(), already_has_special_tokens=True)
        return [(names[int(s.argmax())], float(s.max())) for s, x in zip(scores, special) if not x]
    return {names[i]: float(s) for i, s in enumerate(scores)}


def differences(kind, ours, theirs):
    if kind == "answer":
        best = ours["answers"][0]
        return [abs(best["score"] - theirs[1]) if best["text"] == theirs[0] else 1]
    if kind == "tag":
        tokens = ours["entities"]
        if [t["label"] for t in tokens] != [label for label, _ in theirs]:
            return [1]
        return [abs(t["score"] - score) for t, (_, score) in zip(tokens, theirs)]
    return [abs(label["score"] - theirs[label["label"]]) for label in ours["labels"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=CLASSES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--bertie", type=pathlib.Path, default=ROOT / "build/bertie")
    a = parser.parse_args()
    rows = [json.loads(line) for line in a.file.read_text(encoding="utf-8").splitlines()[:a.rows]]
    net, info = getattr(transformers, CLASSES[a.kind]).from_pretrained(
        a.folder, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
    wrong = {key: value for key, value in info.items() if value}
    if wrong:
        sys.exit(f"{a.folder}: transformers says of its tensors: {wrong}")
    net.eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(a.folder)
    worst = 0
    for number, (row, ours) in enumerate(zip(rows, bertie_says(a, rows), strict=True)):
        most = max(differences(a.kind, ours, transformers_says(a.kind, net, tokenizer, row)), default=0)
        if most > TOLERANCE:
            print(f"row {number + 1}: {most:.2e}: {row}", file=sys.stderr)
        worst = max(worst, most)
    print(f"{a.folder}: {len(rows)} rows, the largest difference is {worst:.1e}")
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
