#!/usr/bin/env python3
"""Times ONNX Runtime and Bertie on the same encoders, turn by turn in one run. See README.md beside it."""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

import bert_onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 0.7  # of runs for each graph in each round; at least five runs
STARTUP_TOKENS = 8


def sst2_lengths():
    header = (ROOT / "src/cli/sst2_lengths.h").read_text()
    return [int(n) for n in re.search(r"kSst2Lengths\[32\] = \{([^}]*)\}", header)[1].split(",")]


def lengths_of(shape):
    if shape == "sst2x32":
        return sst2_lengths()
    batch, length = shape.split("x")
    return [int(length)] * int(batch)


def graph_file(cache, model, form, masked):
    """The ONNX file, made where it is not there yet."""
    path = cache / f"{model}-{form}{'-masked' if masked else ''}.onnx"
    if not path.exists():
        shape = bert_onnx.SHAPES[model]
        unfinished = path.with_suffix(".part")
        onnx.save(bert_onnx.build(shape, bert_onnx.random_weights(shape), form, masked), unfinished)
        unfinished.rename(path)
    return path


def session_of(path, threads, level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = level
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def padded(lengths):
    """ids and mask, [B, longest]."""
    mask = (np.arange(max(lengths))[None] < np.array(lengths)[:, None]).astype(np.int32)
    ids = np.random.default_rng(0).integers(1000, 30000, mask.shape).astype(np.int32) * mask
    return ids, mask


def bound(session, feeds, hidden):
    """A run without copies: inputs and output stay where they are."""
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    output = np.empty((*feeds["ids"].shape, hidden), np.float32)
    binding.bind_output("hidden", "cpu", 0, np.float32, output.shape, output.ctypes.data)
    keep = (output, feeds)
    return lambda: (session.run_with_iobinding(binding), keep)


class OrtCase:
    """All the graphs that could be ONNX Runtime's fastest for one model, shape and number of threads."""

    def __init__(self, cache, model, shape, threads):
        lengths = lengths_of(shape)
        hidden = bert_onnx.SHAPES[model].hidden
        mixed = len(set(lengths)) > 1
        ids, mask = padded(lengths)
        feeds = {"ids": ids, "mask": mask} if mixed else {"ids": ids}
        self.runs, self.times = {}, {}
        for form in bert_onnx.FORMS:
            session = session_of(graph_file(cache, model, form, mixed), threads)
            self.runs[form] = bound(session, feeds, hidden)
        if mixed:  # the other way to serve a mixed batch: no padding, no batch either
            session = session_of(graph_file(cache, model, "attention", False), threads)
            singles = [bound(session, {"ids": ids[b:b + 1, :n].copy()}, hidden) for b, n in enumerate(lengths)]
            self.runs["one by one"] = lambda: [run() for run in singles]
        for name, run in self.runs.items():
            self.times[name] = []
            run(), run()

    def round(self):
        for name, run in self.runs.items():
            started = time.perf_counter()
            taken = []
            while len(taken) < 5 or time.perf_counter() - started < SECONDS:
                begin = time.perf_counter()
                run()
                taken.append((time.perf_counter() - begin) * 1e3)
            self.times[name] += taken
        time.sleep(0.1)  # its threads spin for a while after a run

    def result(self):
        batched = {name: t for name, t in self.times.items() if name != "one by one"}
        form = min(batched, key=lambda name: min(batched[name]))
        single = self.times.get("one by one")
        return {"form": form, "milliseconds": min(batched[form]), "median": statistics.median(batched[form]),
                "one_by_one": min(single) if single else None}


def ask_bertie(program, *arguments):
    """The last JSON line of what it prints, or None where it is not built yet."""
    if not program or not program.exists():
        return None
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(options):
    print("| model | shape | threads | ORT ms | Bertie ms | ratio | ratio of medians | ORT of peak | Bertie of peak "
          "| ORT graph | ORT one by one ms |\n|---|---|---|---|---|---|---|---|---|---|---|")
    for model in options.model:
        for threads in options.threads:
            for shape in options.shape:
                ort, bertie = OrtCase(options.cache, model, shape, threads), []
                for _ in range(options.rounds):
                    ort.round()
                    answer = ask_bertie(options.bertie, "bench", "encode", "--model", model, "--shape", shape,
                                        "--threads", str(threads))
                    bertie += [answer] if answer else []
                print_row(model, shape, threads, ort.result(), bertie)


def print_row(model, shape, threads, ort, bertie):
    flops = bert_onnx.SHAPES[model].flops(lengths_of(shape))
    ours, ratio, medians, peaks = "–", "–", "–", ["–", "–"]
    if bertie:
        best = min(b["milliseconds"] for b in bertie)
        median = statistics.median(b["median_milliseconds"] for b in bertie)
        peak = max(b["peak_gflops"] for b in bertie)
        ours, ratio, medians = f"{best:.2f}", f"{ort['milliseconds'] / best:.2f}", f"{ort['median'] / median:.2f}"
        peaks = [f"{flops / ms / 1e6 / peak:.0%}" for ms in (ort["milliseconds"], best)]
    single = f"{ort['one_by_one']:.2f}" if ort["one_by_one"] else ""
    print(f"| {model} | {shape} | {threads} | {ort['milliseconds']:.2f} | {ours} | {ratio} | {medians} | {peaks[0]} "
          f"| {peaks[1]} | {ort['form']} | {single} |", flush=True)


def startup_worker(path, threads, level):
    """In a process of its own: session and first run, imports excluded."""
    ids = padded([STARTUP_TOKENS])[0]
    started = time.perf_counter()
    session = session_of(path, threads, onnxruntime.GraphOptimizationLevel(level))
    session.run(None, {"ids": ids})
    print((time.perf_counter() - started) * 1e3)


def startup(options):
    """ONNX Runtime reads a graph it has optimized and saved itself, at the quicker of two settings."""
    path = options.cache / "minilm-saved.onnx"
    if not path.exists():
        settings = onnxruntime.SessionOptions()
        settings.optimized_model_filepath = str(path)
        settings.log_severity_level = 3  # it warns that the file is for this machine: it is
        source = graph_file(options.cache, "minilm", "attention", False)
        onnxruntime.InferenceSession(str(source), settings, providers=["CPUExecutionProvider"])
    path.read_bytes()  # into the page cache
    levels = onnxruntime.GraphOptimizationLevel
    for threads in options.threads:
        ort, bertie = {levels.ORT_DISABLE_ALL: [], levels.ORT_ENABLE_ALL: []}, []
        for _ in range(options.rounds):
            for level, times in ort.items():
                worker = [sys.executable, __file__, "--startup-worker", str(path), str(threads), str(level.value)]
                times.append(float(subprocess.run(worker, capture_output=True, text=True, check=True).stdout))
            answer = ask_bertie(options.bertie, "bench", "load", str(options.startup), "--threads", str(threads))
            bertie += [answer["milliseconds"]] if answer else []
        best = min(ort.values(), key=min)
        line = f"{threads} threads: ONNX Runtime {min(best):.1f} ms (median {statistics.median(best):.1f})"
        if bertie:
            line += (f", Bertie {min(bertie):.1f} ms (median {statistics.median(bertie):.1f}), "
                     f"ratio {min(best) / min(bertie):.1f}")
        print(line, flush=True)


def verify(options):
    """Every graph against transformers, padded rows left out."""
    import torch
    for model in options.model:
        shape = bert_onnx.SHAPES[model]
        net = bert_onnx.transformers_model(shape, bert_onnx.random_weights(shape))
        ids, mask = padded([40, 17, 5, 1])
        for masked in [False, True]:
            with torch.no_grad():
                known = torch.from_numpy(mask) if masked else None
                expected = net(torch.from_numpy(ids).long(), attention_mask=known).last_hidden_state.numpy()
            for form in bert_onnx.FORMS:
                session = session_of(graph_file(options.cache, model, form, masked), 1)
                hidden = session.run(None, {"ids": ids, "mask": mask} if masked else {"ids": ids})[0]
                off = np.abs((hidden - expected) * (mask[..., None] if masked else 1)).max()
                print(f"{model} {form}{' masked' if masked else ''}: {off:.1e} off transformers")
                if not off < 1e-4:
                    sys.exit("too far off")


def main():
    if sys.argv[1:2] == ["--startup-worker"]:
        return startup_worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__)
    words = lambda text: text.split(",")
    parser.add_argument("--model", type=words, default=["bert-base", "minilm"], help="bert-base,minilm")
    parser.add_argument("--shape", type=words, default=["1x128", "8x128", "sst2x32"], help="1x128,8x128,sst2x32")
    parser.add_argument("--threads", type=lambda t: [int(n) for n in t.split(",")], default=[1, 2], help="1,2")
    parser.add_argument("--rounds", type=int, default=5, help="turns of both programs")
    parser.add_argument("--bertie", type=pathlib.Path, default=ROOT / "build" / "bertie")
    parser.add_argument("--no-bertie", dest="bertie", action="store_const", const=None, help="time ONNX Runtime alone")
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "bertie-onnx",
                        help="where the ONNX files are kept (2.1 GB)")
    parser.add_argument("--startup", type=pathlib.Path, metavar="MODEL_DIR",
                        help="time load to first embedding instead; MODEL_DIR is MiniLM for Bertie")
    parser.add_argument("--verify", action="store_true", help="compare the graphs with transformers instead")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    if options.bertie and not options.bertie.exists() and not options.verify:
        print(f"{options.bertie} is not built: ONNX Runtime alone", file=sys.stderr)
    (verify if options.verify else startup if options.startup else compare)(options)


if __name__ == "__main__":
    main()
