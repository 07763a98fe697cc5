#!/usr/bin/env python3
"""Tokenizing speed of Bertie and of Hugging Face's tokenizers on the same lines in the same run: one thread
each, ids and offsets, one call for each line.

    pip install -r tools/requirements-tokenizers.txt
    cmake --build build --target tokenize_driver
    python bench/peers/tokenizers_peer.py build/tokenize_driver --vocab DIR/vocab.txt... --text FILE [--mb 4]

--vocab takes vocab.txt and tokenizer.json files, and folders with vocab.json and merges.txt.

The two take turns; each one's best turn counts. Three ways to call the reference are timed: encode line by
line, encode_batch (with offsets made, as asked), and encode_batch_fast (which makes none); the ratio is to the
faster of the two that give offsets.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import tokenizers

import tokenizer_reference as ref


def bertie(program, vocab, options, text):
    command = [program, vocab, *map(str, options), "--time", "--repeat", "1"]
    run = subprocess.run(command, input=text, capture_output=True, check=True)
    return json.loads(run.stdout)


def clock(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--vocab", nargs="+", required=True)
    parser.add_argument("--text", nargs="+", required=True)
    parser.add_argument("--mb", type=float, default=4)
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}, best of {args.turns} turns, {args.mb} MB")
    for path in args.text:
        with open(path, "rb") as f:
            text = f.read(int(args.mb * 1e6)).decode("utf-8", "ignore")
        lines, data = text.split("\n"), text.encode()
        for vocab in args.vocab:
            peer, options = ref.open_reference(vocab)
            best = {"bertie": 1e30, "encode": 1e30, "batch": 1e30, "fast": 1e30}
            for _ in range(args.turns):
                best["bertie"] = min(best["bertie"], bertie(args.program, vocab, options, data)["seconds"])
                best["encode"] = min(best["encode"], clock(lambda: [peer.encode(line) for line in lines]))
                best["batch"] = min(best["batch"], clock(lambda: peer.encode_batch(lines)))
                best["fast"] = min(best["fast"], clock(lambda: peer.encode_batch_fast(lines)))
            speed = {k: len(data) / v / 1e6 for k, v in best.items()}
            theirs = max(speed["encode"], speed["batch"])
            place = pathlib.Path(vocab)
            name, file = place.name if place.is_dir() else place.parent.name, pathlib.Path(path).name
            print(f"{name} on {file}: bertie {speed['bertie']:.1f} MB/s, encode {speed['encode']:.2f}, encode_batch {speed['batch']:.2f} "
                  f"(without offsets {speed['fast']:.2f}); {speed['bertie'] / theirs:.1f} times", flush=True)


if __name__ == "__main__":
    main()
