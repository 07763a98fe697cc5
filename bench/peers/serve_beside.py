#!/usr/bin/env python3
"""`bertie serve` beside other services of embeddings: one after the other, in turn, the same load.

    .venv/bin/python bench/peers/serve_beside.py MODEL TEXTS [--fastapi PYTHON] [--infinity PYTHON] [--rounds 3]

TEXTS has a text a line (SST-2's dev sentences, say). --fastapi: a Python with fastapi, uvicorn and
sentence-transformers[onnx]; --infinity: one with infinity-emb[torch,optimum,server]. Nothing else should run meanwhile.
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("texts")
    p.add_argument("--fastapi")
    p.add_argument("--infinity")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=15)
    p.add_argument("--clients", default="1,64")
    a = p.parse_args()
    port = 8098
    services = {"bertie": ([str(ROOT / "build/bertie"), "serve", f"m={a.model}", "--port", str(port), "-q"], [])}
    if a.fastapi:
        for backend in ("onnx", "torch"):
            services[f"FastAPI + sentence-transformers ({backend})"] = (
                [a.fastapi, str(ROOT / "bench/peers/serve_fastapi.py"), a.model, "--port", str(port), "--backend", backend], [])
    if a.infinity:
        for engine in ("optimum", "torch"):
            services[f"infinity-emb ({engine})"] = (
                [str(pathlib.Path(a.infinity).parent / "infinity_emb"), "v2", "--model-id", a.model, "--engine", engine, "--port",
                 str(port), "--device", "cpu"], ["--path", "/embeddings", "--field", "input"])
    results = {}
    for _ in range(a.rounds):
        for name, (command, options) in services.items():
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            try:
                path = options[1] if options else "/embed"
                field = options[3] if options else "inputs"
                body = json.dumps({field: "hello"}).encode()
                for _ in range(600):
                    try:
                        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{path}", body,
                                                                      {"Content-Type": "application/json"}), timeout=5)
                        break
                    except OSError:
                        time.sleep(0.2)
                        if server.poll() is not None:
                            break
                if server.poll() is not None:
                    print(json.dumps({"service": name, "error": "it did not start"}), flush=True)
                    continue
                for clients in a.clients.split(","):
                    run = subprocess.run([str(ROOT / "build/bertie_serve_load"), "load", "--port", str(port), "--texts", a.texts,
                                          "--clients", clients, "--seconds", str(a.seconds), "--check",
                                          "1" if name == "bertie" else "0", *options], capture_output=True, text=True)
                    line = json.loads(run.stdout) if run.stdout else {"error": run.stderr}
                    results.setdefault((name, clients), []).append(line)
                    print(json.dumps({"service": name, "clients": int(clients), **line}), flush=True)
            finally:
                if server.poll() is None:
                    os.killpg(server.pid, signal.SIGTERM)
                    server.wait()
    print("\n| service | clients | texts a second | p50 ms | p99 ms |\n|---|---|---|---|---|")
    for (name, clients), lines in results.items():
        good = [line for line in lines if line.get("answered")]
        if good:
            best = max(good, key=lambda line: line["per_second"])
            print(f"| {name} | {clients} | {best['per_second']:.0f} | {best['p50_ms']:.1f} | {best['p99_ms']:.1f} |")


if __name__ == "__main__":
    main()
