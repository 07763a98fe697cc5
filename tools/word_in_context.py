#!/usr/bin/env python3
"""How well the vectors of `bertie senses` tell senses apart: Word-in-Context, the same word in two sentences.

    tools/word_in_context.py FILE --model MODEL [--bertie build/bertie]

FILE has a line of JSON for each pair: "label" (1: the same sense) and "text" ("Word: w. Sentence 1: … Sentence 2: …").
For each layer, the cosine above which two places have the same sense is chosen on one half of the words and measured on
the other, and the other way round; the accuracy is that of both. The last line is that of the layer, too, being chosen so. A pair whose word is not found in both sentences, or
only in another form ("took" for "take"), is judged by the more frequent answer.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pairs_of(file):
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        parts = re.fullmatch(r"Word: (.*?)\. Sentence 1: (.*) Sentence 2: (.*)", row["text"], re.S)
        yield *parts.groups(), int(row["label"])


def cosines_of(a, word, texts):
    """A row of cosines by layer for each pair of texts that has the word; those without it are left out."""
    places = list(range(len(texts)))
    while len(places) > 1:
        command = [a.bertie, "senses", "-m", a.model, "--json", "--layer", "1", "--", word, *(texts[i] for i in places)]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode == 0:
            out = json.loads(done.stdout)
            first = {}  # place of each text
            for number, place in enumerate(out["places"]):
                first.setdefault(places[place["text"]], number)
            return first, out["cosines"]
        missing = re.search(r"text (\d+) does not have the word", done.stderr)
        if not missing:
            raise SystemExit(done.stderr)
        del places[int(missing[1]) - 1]
    return {}, []


def best_threshold(rows):
    """Of (cosine, label): where to cut, so that most are right."""
    rows = sorted(rows)
    right = sum(label for _, label in rows)  # all are the same
    best = right, -1.0
    for i, (cosine, label) in enumerate(rows):
        right += 1 - 2 * label
        if right > best[0] and (i + 1 == len(rows) or rows[i + 1][0] > cosine):
            best = right, cosine
    return best[1]


def right_on(learn, measure, layer):
    cut = best_threshold([(p["cosines"][layer], p["label"]) for p in learn if p["cosines"]])
    usual = sum(p["label"] for p in learn) * 2 >= len(learn)
    return sum((p["cosines"][layer] > cut if p["cosines"] else usual) == p["label"] for p in measure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--bertie", default=ROOT / "build/bertie")
    a = parser.parse_args()
    pairs = [{"word": w, "texts": (x, y), "label": label, "cosines": None} for w, x, y, label in pairs_of(a.file)]
    by_word = collections.defaultdict(list)
    for pair in pairs:
        by_word[pair["word"]].append(pair)
    for word, some in by_word.items():
        texts = [text for pair in some for text in pair["texts"]]
        places, cosines = cosines_of(a, word, texts)
        for i, pair in enumerate(some):
            if 2 * i in places and 2 * i + 1 in places:
                pair["cosines"] = [layer[places[2 * i]][places[2 * i + 1]] for layer in cosines]
    found = sum(pair["cosines"] is not None for pair in pairs)
    layers = len(next(pair["cosines"] for pair in pairs if pair["cosines"]))
    print(f"{len(pairs)} pairs, {found} with the word in both sentences")
    numbers = {word: number for number, word in enumerate(by_word)}
    halves = [[p for p in pairs if numbers[p["word"]] % 2 == half] for half in (0, 1)]
    for layer in range(layers):
        right = sum(right_on(learn, measure, layer) for learn, measure in (halves, halves[::-1]))
        print(f"layer {layer}: {100 * right / len(pairs):.1f}%")
    chosen, right = [], 0
    for learn, measure in (halves, halves[::-1]):
        chosen.append(max(range(layers), key=lambda layer: right_on(learn, learn, layer)))
        right += right_on(learn, measure, chosen[-1])
    print(f"the layer chosen, too: {100 * right / len(pairs):.1f}% (layers {chosen[0]} and {chosen[1]})")


if __name__ == "__main__":
    main()
