#!/usr/bin/env python3
"""Hugging Face's WordPiece vocabularies of tests/golden/vocab/corpus.txt, for tests/text/word_piece_trainer_test.cc.

    pip install -r tools/requirements-tokenizers.txt
    python tools/make_vocab_goldens.py

Hugging Face breaks ties differently in each run, and a vocabulary is the beginning of every larger one. So each case
is trained ten times, and the largest size counts at which all ten have the same pieces. The file has the special
tokens and characters in order, then the pieces by code points.
"""
import os
import pathlib

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import BertWordPieceTokenizer

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "tests" / "golden" / "vocab"
# name: lower case, size at most, alphabet limit, min frequency
CASES = {"uncased": (True, 1000, 1000, 2), "cased": (False, 700, 1000, 2), "small_alphabet": (True, 600, 40, 3)}


def train(lowercase, size, alphabet, min_frequency):
    tokenizer = BertWordPieceTokenizer(lowercase=lowercase)
    tokenizer.train([str(FOLDER / "corpus.txt")], vocab_size=size, min_frequency=min_frequency,
                    limit_alphabet=alphabet, show_progress=False)
    return [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]


for name, case in CASES.items():
    runs = [train(*case) for _ in range(10)]
    size = next(n for n in range(case[1], 0, -1) if len({frozenset(run[:n]) for run in runs}) == 1)
    first = next(i for i, token in enumerate(runs[0]) if token.startswith("##"))
    tokens = runs[0][:first] + sorted(runs[0][first:size])
    (FOLDER / f"{name}.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8")
    print(f"{name}: size {size}, {len(tokens)} tokens, {first} of them special or characters")
