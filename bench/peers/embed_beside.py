#!/usr/bin/env python3
"""A file of sentences to vectors, from end to end: `bertie embed` beside sentence-transformers on each of its backends.

    bench/peers/embed_beside.py --model all-MiniLM-L6-v2 --data SST-2/train.tsv [--sentences 20000] [--threads 2]

In an environment with torch and sentence-transformers[onnx,openvino]. Of the peers the time of encode() alone counts, on a
loaded and warmed model, with the batch size of 16, 32, 64 or 128 that is the quickest for 2,000 of the sentences; of Bertie the
whole command, with starting, loading, reading and writing. In turn, --rounds times; what is printed is the best and the median.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def backends(a):
    """Those that can be had: name and encode(sentences, batch_size)."""
    import sentence_transformers
    import torch
    torch.set_num_threads(a.threads)
    for backend in ["torch", "onnx", "openvino"]:
        try:
            more = {}
            if backend == "onnx":
                import onnxruntime
                session = onnxruntime.SessionOptions()
                session.intra_op_num_threads = a.threads
                more = {"model_kwargs": {"session_options": session, "provider": "CPUExecutionProvider"}}
            model = sentence_transformers.SentenceTransformer(str(a.model), backend=backend, device="cpu", **more)
            model.encode(["warm"])
        except Exception as error:
            print(f"{backend} cannot be had: {error}", file=sys.stderr)
            continue
        yield f"sentence-transformers {sentence_transformers.__version__} {backend}", (
            lambda texts, batch, m=model: m.encode(texts, batch_size=batch, show_progress_bar=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="a table with the sentences in its first column")
    parser.add_argument("--sentences", type=int, default=20000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bertie", default=ROOT / "build/bertie")
    a = parser.parse_args()
    texts = [line.split("\t")[0] for line in a.data.open(encoding="utf-8")][1:a.sentences + 1]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "texts.txt"
        file.write_text("\n".join(texts) + "\n", encoding="utf-8")

        def bertie(*options):
            subprocess.run([a.bertie, "embed", "-q", "-m", a.model, "-t", str(a.threads), "--file", file, "--force", "--npy",
                            f"{folder}/vectors.npy", *options], check=True)
        runs = {"Bertie fp32": bertie, "Bertie int8": lambda: bertie("--precision", "int8")}
        for name, encode in backends(a):
            batch = min([16, 32, 64, 128], key=lambda size: seconds(lambda: encode(texts[:2000], size)))
            runs[f"{name}, batches of {batch}"] = lambda encode=encode, batch=batch: encode(texts, batch)
        taken = {name: [] for name in runs}
        for _ in range(a.rounds):
            for name, run in runs.items():
                taken[name].append(seconds(run))
                print(f"{taken[name][-1]:.1f} s {name}", file=sys.stderr, flush=True)
    for name, all_taken in taken.items():
        print(json.dumps({"what": name, "sentences": len(texts), "threads": a.threads, "best": min(all_taken),
                          "p50": statistics.median(all_taken)}))


if __name__ == "__main__":
    main()
