#!/usr/bin/env python3
"""Continuing a text token by token: transformers' GPT-2 beside Bertie, turn by turn, both in fp32.

  python bench/peers/torch_generate.py --program build/bertie [--threads 1 2] [--rounds 3]

Both read a prompt of 128 tokens and add 64, greedily, with a key/value cache and weights of GPT-2's shape
(random: the time does not depend on them). A round is the best of what fits into --seconds.
"""
import argparse
import json
import subprocess
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PROMPT, NEW = 128, 64


def torch_round(net, ids, seconds):
    best_prompt, best_token, begin = 1e9, 1e9, time.perf_counter()
    with torch.inference_mode():
        while True:
            start = time.perf_counter()
            out = net(ids, use_cache=True, logits_to_keep=1)
            token = out.logits[:, -1:].argmax(-1)
            best_prompt = min(best_prompt, time.perf_counter() - start)
            start = time.perf_counter()
            for _ in range(NEW - 1):
                out = net(token, past_key_values=out.past_key_values, use_cache=True)
                token = out.logits[:, -1:].argmax(-1)
            best_token = min(best_token, (time.perf_counter() - start) / (NEW - 1))
            if time.perf_counter() - begin > seconds:
                return best_prompt * 1e3, best_token * 1e3


def bertie_round(program, threads, seconds):
    line = subprocess.run([program, "bench", "generate", "--json", "--threads", str(threads), "--seconds", str(seconds)],
                          check=True, capture_output=True, text=True).stdout
    result = json.loads(line)
    return result["prompt_milliseconds"], result["milliseconds_per_token"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/bertie")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    arguments = parser.parse_args()
    net = GPT2LMHeadModel(GPT2Config()).eval()
    ids = torch.randint(50257, (1, PROMPT))
    print(f"PyTorch {torch.__version__}; best of {arguments.rounds} rounds")
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        theirs, ours = [], []
        for _ in range(arguments.rounds):
            theirs.append(torch_round(net, ids, arguments.seconds))
            ours.append(bertie_round(arguments.program, threads, arguments.seconds))
        for i, what in enumerate(["prompt of 128", "each token"]):
            a, b = min(x[i] for x in theirs), min(x[i] for x in ours)
            print(f"{threads} threads  {what:14} PyTorch {a:8.1f} ms  Bertie {b:8.1f} ms  {a / b:5.2f}x")


if __name__ == "__main__":
    main()
