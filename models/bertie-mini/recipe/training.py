#!/usr/bin/env python3
"""Joins the logs of runs that went on from each other into one, with what the page draws and no more.

    training.py LOG... > training.jsonl

Where a run's folder still has its last checkpoint, that says how long it was; else its log's last line does. A training.jsonl may
be the first LOG. Steps and tokens go on counting; of the lines that are no evaluations at most 300 stay, each the mean of its neighbours.
"""
import json
import pathlib
import sys

MOST = 300
KEYS = ["token_loss", "token_accuracy", "label_loss", "label_accuracy", "rate", "tokens_per_second"]


def rounded(x):
    return float(f"{x:.4g}")


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    points, evaluations, steps, tokens = [], [], 0, 0
    for name in sys.argv[1:]:
        last_step = last_tokens = 0
        with open(name, encoding="utf-8") as file:
            for line in file:
                entry = json.loads(line)
                last_step = entry["step"]
                entry["step"] += steps
                if "tokens" in entry:
                    last_tokens = entry["tokens"]
                    entry["tokens"] += tokens
                    points.append(entry)
                else:
                    evaluations.append(entry)
        state = pathlib.Path(name).parent / "last" / "state.json"
        if state.exists():
            at_end = json.loads(state.read_text())
            last_step, last_tokens = at_end["step"], at_end["tokens"]
        steps += last_step
        tokens += last_tokens
    size = max(1, -(-len(points) // MOST))
    lines = []
    for at in range(0, len(points), size):
        some = points[at:at + size]
        mean = {}
        for key in KEYS:
            values = [p[key] for p in some if p.get(key) is not None]
            if values:
                mean[key] = rounded(sum(values) / len(values))
        lines.append({"step": some[-1]["step"], "tokens": some[-1]["tokens"], **mean})
    for e in evaluations:
        kept = {key: rounded(value) for key, value in e.items() if key.startswith("held_out_") and value is not None}
        watched = [{"text": w["text"], "masks": [[{"token": g["token"], "score": rounded(g["score"])} for g in mask]
                                                 for mask in w["masks"]]} for w in e.get("watched", [])]
        lines.append({"step": e["step"], **kept, **({"watched": watched} if watched else {})})
    for line in sorted(lines, key=lambda entry: entry["step"]):
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
