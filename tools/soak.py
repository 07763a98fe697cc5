#!/usr/bin/env python3
"""Asks a `bertie serve` of its own for a long time, every kind of thing, and watches its memory.

    tools/soak.py MODEL TEXTS [--minutes 30]

Prints a line of JSON a minute, and at the end the slope of the resident memory over the last two thirds.
"""
import argparse
import http.client
import json
import pathlib
import random
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "tasks"


def resident_mb(process):
    for line in open(f"/proc/{process}/status", encoding="utf-8"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("texts")
    p.add_argument("--minutes", type=float, default=30)
    p.add_argument("--clients", type=int, default=4)
    p.add_argument("--port", type=int, default=8094)
    p.add_argument("--bertie", default=str(ROOT / "build" / "bertie"))
    a = p.parse_args()
    texts = [line for line in open(a.texts, encoding="utf-8").read().split("\n") if line]
    tasks = ("fill-mask-bert", "text-classification-bert", "token-classification-bert", "question-answering-bert", "next-sentence-bert")
    server = subprocess.Popen([a.bertie, "serve", f"m={a.model}", *(f"{t}={GOLDEN / t}" for t in tasks), "--port", str(a.port), "-q"])
    time.sleep(1)
    end = time.time() + 60 * a.minutes
    counts = {}

    def ask(seed):
        draw = random.Random(seed)
        connection = http.client.HTTPConnection("127.0.0.1", a.port)
        while time.time() < end:
            some = draw.sample(texts, draw.randint(1, 8))
            path, body = draw.choice([
                ("/embed", {"inputs": some}), ("/v1/embeddings", {"input": some, "encoding_format": "base64"}),
                ("/embed_all", {"inputs": some}), ("/attention", {"text": some[0], "model": "m"}),
                ("/attention", {"text": some[0], "format": "npy", "precision": "uint8"}), ("/explain", {"text": some[0]}),
                ("/predict", {"inputs": [[t] for t in some], "truncate": True}), ("/tokenize", {"inputs": some}),
                ("/rerank", {"query": some[0], "texts": some}), ("/similarity", {"inputs": {"source_sentence": some[0], "sentences": some}}),
                ("/pipeline/fill-mask", {"inputs": "a [MASK] film"}), ("/pipeline/token-classification", {"inputs": some}),
                ("/pipeline/question-answering", {"inputs": {"question": "who?", "context": some[0]}}),
                ("/next-sentence", {"pairs": [[t, some[0]] for t in some]}), ("/embed", {"inputs": 7}), ("/nothing", {})])
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                reply = connection.getresponse()
                if draw.random() < 0.02:
                    connection.close()  # in the middle of a reply
                else:
                    reply.read()
                key = f"{path} {reply.status}"
            except (OSError, http.client.HTTPException) as error:
                key = type(error).__name__
                connection.close()
            counts[key] = counts.get(key, 0) + 1
            if draw.random() < 0.05:
                connection.close()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(a.clients)]
    for thread in threads:
        thread.start()
    start, rows = time.time(), []
    while time.time() < end:
        time.sleep(min(10, max(0.1, end - time.time())))
        rows.append(((time.time() - start) / 60, resident_mb(server.pid)))
        if len(rows) % 6 == 0:
            print(json.dumps({"minute": round(rows[-1][0], 1), "resident_mb": round(rows[-1][1], 1), "requests": sum(counts.values())}), flush=True)
    for thread in threads:
        thread.join()
    server.terminate()
    late = rows[len(rows) // 3:]
    mean_t, mean_m = (sum(x[i] for x in late) / len(late) for i in (0, 1))
    slope = sum((t - mean_t) * (m - mean_m) for t, m in late) / max(1e-9, sum((t - mean_t) ** 2 for t, _ in late))
    print(json.dumps({"replies": dict(sorted(counts.items())), "resident_mb": [round(min(m for _, m in late), 1), round(max(m for _, m in late), 1)],
                      "slope_mb_per_minute": round(slope, 4), "exit_code": server.wait(60)}))
    return slope > 0.5


if __name__ == "__main__":
    sys.exit(main())
