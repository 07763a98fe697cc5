"""From nothing to a model's first hidden states: ONNX Runtime and Bertie, for encode.py --startup."""

import json
import statistics
import subprocess
import sys
import time

TOKENS = 8


def worker(path, threads, level):
    """In a process of its own: session and first run, imports excluded."""
    import numpy as np
    import onnxruntime
    ids = np.arange(1000, 1000 + TOKENS, dtype=np.int32)[None]
    started = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(level)
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, {"ids": ids})
    print((time.perf_counter() - started) * 1e3)


def saved_graph(model, work):
    """A graph that ONNX Runtime has optimized and saved itself."""
    import bert_onnx
    import onnx
    import onnxruntime
    path = work / "startup-saved.onnx"
    if not path.exists():
        work.mkdir(parents=True, exist_ok=True)
        source = work / "startup.onnx"
        onnx.save(bert_onnx.build(bert_onnx.Shape.of(model), bert_onnx.weights_of(model), "attention", False), source)
        settings = onnxruntime.SessionOptions()
        settings.optimized_model_filepath = str(path)
        settings.log_severity_level = 3  # it warns that the file is for this machine: it is
        onnxruntime.InferenceSession(str(source), settings, providers=["CPUExecutionProvider"])
    path.read_bytes()  # into the page cache
    return path


def answer_of(command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


def compare(options, model, work):
    import onnxruntime
    path, levels = saved_graph(model, work), onnxruntime.GraphOptimizationLevel
    ort, bertie = {levels.ORT_DISABLE_ALL: [], levels.ORT_ENABLE_ALL: []}, []
    for _ in range(options.rounds):
        for level, times in ort.items():  # the quicker of two settings counts
            times.append(float(answer_of([sys.executable, __file__, path, options.threads, level.value])))
        load = answer_of([options.build / "bertie", "bench", "load", model, "--threads", options.threads, "--json"])
        bertie.append(json.loads(load.strip().splitlines()[-1])["milliseconds"])
    best = min(ort.values(), key=min)
    print(f"{options.threads} threads: ONNX Runtime {min(best):.1f} ms (median {statistics.median(best):.1f}), Bertie "
          f"{min(bertie):.1f} ms (median {statistics.median(bertie):.1f}), ratio {min(best) / min(bertie):.1f}")


if __name__ == "__main__":
    worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
