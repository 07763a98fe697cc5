#!/usr/bin/env python3
"""Times PyTorch's scaled_dot_product_attention and Bertie's attention, turn by turn. See README.md beside it."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS, HEAD_SIZE = 12, 64
PASSES = ["forward", "forward+backward"]
LOOKS = ["full", "causal"]  # Bertie's names of the mechanisms
LONG_CALL = 2  # seconds: such a call is measured once a round, without a warm-up


class TorchCase:
    """One length and look. Inputs are (1, heads, n, head size), the layout that PyTorch likes best."""

    def __init__(self, n, look):
        generator = torch.Generator().manual_seed(7)
        draw = lambda: torch.rand(1, HEADS, n, HEAD_SIZE, generator=generator) * 2 - 1
        self.q, self.k, self.v, self.d_out = draw(), draw(), draw(), draw()
        self.causal = look == "causal"
        self.times = {name: [] for name in PASSES}

    def forward(self):
        with torch.no_grad():
            return torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.causal)

    def both(self):
        for x in (self.q, self.k, self.v):
            x.requires_grad_(True)
            x.grad = None
        out = torch.nn.functional.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=self.causal)
        out.backward(self.d_out)

    def round(self, name, seconds):
        run = self.forward if name == "forward" else self.both
        first = clock(run)
        if first > LONG_CALL * 1e3:
            self.times[name].append(first)
            return
        taken, started = [], time.perf_counter()
        while len(taken) < 3 or time.perf_counter() - started < seconds:
            taken.append(clock(run))
        self.times[name] += taken


def clock(run):
    """Milliseconds."""
    begin = time.perf_counter()
    run()
    return (time.perf_counter() - begin) * 1e3


def ask_bertie(options, n, look):
    """{pass: what `bertie bench attention --json` says about it}."""
    command = [options.bertie, "bench", "attention", "--json", "--n", str(n), "--mechanism", look, "--threads",
               str(options.threads), "--seconds", str(options.seconds)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return {point["pass"]: point for point in map(json.loads, done.stdout.splitlines())}


def compare(options, n, look):
    """A row for each pass. The two take turns, so that both meet the same clock speed and neighbors."""
    case, answers = TorchCase(n, look), []
    for _ in range(options.rounds):
        for name in PASSES:
            case.round(name, options.seconds)
        time.sleep(0.1)  # its threads spin for a while after a run
        answers.append(ask_bertie(options, n, look))
    peak = max(point["peak_gflops"] for answer in answers for point in answer.values())
    for name in PASSES:
        torch_best, bertie_best = min(case.times[name]), min(a[name]["milliseconds"] for a in answers)
        torch_median = statistics.median(case.times[name])
        bertie_median = statistics.median(a[name]["median_milliseconds"] for a in answers)
        yield {"mechanism": look, "pass": name, "n": n, "threads": options.threads,
               "torch_milliseconds": torch_best, "bertie_milliseconds": bertie_best,
               "ratio": bertie_best / torch_best, "ratio_of_medians": bertie_median / torch_median,
               "bertie_fraction_of_peak": max(a[name]["gflops"] for a in answers) / peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    words = lambda text: text.split(",")
    parser.add_argument("--n", type=lambda text: [int(n) for n in text.split(",")],
                        default=[128 << i for i in range(8)], help="lengths: 128,256 … 16384")
    parser.add_argument("--look", type=words, default=LOOKS, help="full,causal")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="of both")
    parser.add_argument("--rounds", type=int, default=3, help="turns of both programs")
    parser.add_argument("--seconds", type=float, default=0.3, help="of runs, for each pass in each round")
    parser.add_argument("--bertie", type=pathlib.Path, default=ROOT / "build" / "bertie")
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead of the table")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not options.bertie.exists():
        sys.exit(f"{options.bertie} is not built: make")
    if not options.json:
        print("| n | look | pass | PyTorch ms | Bertie ms | Bertie / PyTorch | of medians | Bertie of peak |\n"
              "|---|---|---|---|---|---|---|---|")
    for n in options.n:
        for look in options.look:
            for row in compare(options, n, look):
                print(json.dumps(row) if options.json else
                      f"| {n} | {look} | {row['pass']} | {row['torch_milliseconds']:.3f} "
                      f"| {row['bertie_milliseconds']:.3f} | {row['ratio']:.2f} | {row['ratio_of_medians']:.2f} "
                      f"| {row['bertie_fraction_of_peak']:.0%} |", flush=True)


if __name__ == "__main__":
    main()
