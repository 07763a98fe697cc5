#!/usr/bin/env python3
"""Learning a WordPiece vocabulary: Bertie and Hugging Face's BertWordPieceTokenizer on the same text in the same
run, turn by turn, both with the same number of threads; and how far the two vocabularies agree.

    pip install -r tools/requirements-tokenizers.txt
    python bench/peers/vocab_peer.py build/bertie --text FILE... [--size 30522] [--threads 2] [--turns 3]

Hugging Face breaks ties in the order of a hash table, which is another one in each run: its own vocabularies differ
from turn to turn. The table shows by how many pieces, and by how many Bertie's (always the same) differs from them.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HUGGING_FACE = """
import sys, time
from tokenizers import BertWordPieceTokenizer
import tokenizers
out, size, lowercase, *files = sys.argv[1:]
start = time.perf_counter()
t = BertWordPieceTokenizer(lowercase=lowercase == "1")
t.train(files, vocab_size=int(size), min_frequency=2, limit_alphabet=1000, show_progress=False)
seconds = time.perf_counter() - start
with open(out, "w", encoding="utf-8") as f:
    f.writelines(token + "\\n" for token, _ in sorted(t.get_vocab().items(), key=lambda item: item[1]))
print(seconds, tokenizers.__version__)
"""


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8").split("\n")[:-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--text", nargs="+", required=True, help="plain text files")
    parser.add_argument("--size", type=int, default=30522)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--cased", action="store_true")
    args = parser.parse_args()
    env = dict(os.environ, RAYON_NUM_THREADS=str(args.threads), TOKENIZERS_PARALLELISM="true")
    megabytes = sum(os.path.getsize(path) for path in args.text) / 1e6
    ours, theirs, vocabularies, version = [], [], [], ""
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.turns):
            command = [args.program, "vocab", "--size", str(args.size), "--threads", str(args.threads), "--json",
                       "--out", f"{folder}/bertie/vocab.txt", *(["--cased"] if args.cased else []), *args.text]
            start = time.perf_counter()  # of the whole process
            subprocess.run(command, check=True, capture_output=True)
            ours.append(time.perf_counter() - start)
            run = subprocess.run([sys.executable, "-c", HUGGING_FACE, f"{folder}/hf.txt", str(args.size),
                                  "0" if args.cased else "1", *args.text],
                                 check=True, capture_output=True, text=True, env=env)
            seconds, version = run.stdout.split()
            theirs.append(float(seconds))  # without Python's start and imports
            vocabularies.append(read(f"{folder}/hf.txt"))
        bertie = read(f"{folder}/bertie/vocab.txt")
    print(f"{megabytes:.1f} MB, {args.size} tokens, {args.threads} threads, tokenizers {version}, best of {args.turns} turns")
    print(f"bertie       {min(ours):7.2f} s  {megabytes / min(ours):6.1f} MB/s")
    print(f"hugging face {min(theirs):7.2f} s  {megabytes / min(theirs):6.1f} MB/s")
    print(f"ratio        {min(theirs) / min(ours):7.1f}")
    for i, one in enumerate(vocabularies):
        others = [len(set(one) - set(other)) for other in vocabularies[:i]]
        print(f"hugging face's turn {i + 1}: {len(one)} pieces; bertie has {len(set(bertie) & set(one))} of them, "
              f"{len(set(one) - set(bertie))} not; not in its own earlier turns: {others}")


if __name__ == "__main__":
    main()
