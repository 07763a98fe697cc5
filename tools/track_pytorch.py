#!/usr/bin/env python3
"""Trains a BERT on real text twice, with `bertie pretrain` and with transformers and PyTorch, from the same weights on
the same batches, and compares the losses step by step.

    build/bertie prepare TEXT… --tokenizer VOCAB --out SHARDS
    .venv/bin/python tools/track_pytorch.py SHARDS --size tiny --steps 1000 --batch 32 --work DIR

DIR gets start/ (the weights, from transformers), run/ (Bertie's), batches.jsonl (`training_driver batches`) and
losses.txt (step, PyTorch's loss, Bertie's). The schedule is transformers' warm-up and linear decay; dropout is off, so
that nothing is drawn but the batches. The head of PyTorch's model runs on the masked tokens alone, which is the same
loss in less time.

No step's losses may be further apart than --within. Sums in another order are enough for two runs to part slowly:
with `--again --fp64` PyTorch's part is done once more in double precision, against the same log.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "base": (12, 768, 12)}  # layers, hidden, heads
BETAS, EPS, DECAY, CLIP = (0.9, 0.999), 1e-6, 0.01, 1.0


def make_start(options, folder):
    layers, hidden, heads = SIZES[options.size]
    vocabulary = len((options.shards / "vocab.txt").read_text().splitlines())
    torch.manual_seed(options.seed)
    net = transformers.BertForPreTraining(transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * hidden, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
    net.save_pretrained(folder)
    return net.train()


def run(command, **more):
    print("$", *command, flush=True)
    done = subprocess.run([str(c) for c in command], text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed")


def run_bertie(options, folder):
    shutil.rmtree(folder / "run", ignore_errors=True)
    run([options.bertie, "pretrain", "--data", options.shards, "--from", folder / "start", "--out", folder / "run",
         "--steps", options.steps, "--batch", options.batch, "--max-length", options.length, "--rate", options.rate,
         "--schedule", "linear", "--warmup", options.warmup, "--dropout", 0, "--seed", options.seed,
         "--outlier", 0, "--eval-every", 0, "--log-every", 1, "--threads", options.threads, *options.more],
        stdout=subprocess.DEVNULL)
    with (folder / "batches.jsonl").open("w") as file:
        run([options.driver, "batches", options.shards, "mlm+nsp", options.length, options.seed, options.batch,
             options.steps], stdout=file)


def read_log(options, folder):
    """{step: its line}."""
    lines = map(json.loads, (folder / "run" / "log.jsonl").read_text().splitlines())
    log = {line["step"]: line for line in lines if "loss" in line}
    if sorted(log) != list(range(1, options.steps + 1)):
        sys.exit(f"the log has {len(log)} of {options.steps} steps")
    return log


def rectangle(values, offsets, fill=0):
    rows = [torch.tensor(values[a:b]) for a, b in zip(offsets[:-1], offsets[1:])]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fill)


def loss_of(net, line):
    """The mean over masked tokens and the mean over sequences, added up, as BertForPreTraining does it."""
    offsets, (words, following) = line["offsets"], line["terms"]
    ids = rectangle(line["ids"], offsets)
    mask = rectangle([1] * offsets[-1], offsets)
    states, pooled = net.bert(ids, attention_mask=mask, token_type_ids=rectangle(line["types"], offsets),
                              return_dict=False)
    states = states[mask.bool()][torch.tensor(words["rows"])]
    entropy = torch.nn.functional.cross_entropy
    return (entropy(net.cls.predictions(states), torch.tensor(words["targets"]))
            + entropy(net.cls.seq_relationship(pooled), torch.tensor(following["targets"])))


def run_pytorch(options, net, batches, log):
    decays = lambda name: not (name.endswith("bias") or "LayerNorm" in name)
    groups = [{"params": [p for n, p in net.named_parameters() if decays(n) == d], "weight_decay": DECAY * d}
              for d in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=BETAS, eps=EPS, fused=True)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, options.warmup, options.steps)
    losses = []
    with batches.open() as file:
        for step, text in enumerate(file, 1):
            rate = schedule.get_last_lr()[0]
            if abs(rate - log[step]["rate"]) > 1e-6 * options.rate:
                sys.exit(f"step {step}: Bertie's rate is {log[step]['rate']}, not {rate}")
            loss = loss_of(net, json.loads(text))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            with (options.work / "losses.txt").open("w" if step == 1 else "a") as out:
                out.write(f"{step} {losses[-1]} {log[step]['loss']}\n")
            if step % 50 == 0:
                print(f"step {step}: PyTorch {np.mean(losses[-50:]):.4f}, Bertie "
                      f"{np.mean([log[s]['loss'] for s in range(step - 49, step + 1)]):.4f}", flush=True)
    return np.array(losses)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=pathlib.Path)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--size", default="tiny", choices=SIZES)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--warmup", type=int, default=100, help="steps")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="Bertie's part is in DIR: PyTorch's alone")
    parser.add_argument("--fp64", action="store_true", help="PyTorch in double precision")
    parser.add_argument("--within", type=float, default=0.02, help="nats")
    parser.add_argument("--bertie", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build" / "bertie")
    parser.add_argument("--driver", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build" / "training_driver")
    parser.add_argument("more", nargs="*", help="more options for bertie pretrain, after --")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options.work.mkdir(parents=True, exist_ok=True)
    net = make_start(options, options.work / "start")
    if not options.again:
        run_bertie(options, options.work)
    if options.fp64:
        net = net.double()
    log = read_log(options, options.work)
    losses = run_pytorch(options, net, options.work / "batches.jsonl", log)
    mine = np.array([log[s]["loss"] for s in range(1, options.steps + 1)])
    apart = mine - losses
    window = min(50, options.steps)
    means = np.convolve(apart, np.ones(window) / window, "valid")
    print(f"{options.size}, {options.steps} steps of {options.batch} × {options.length}: loss {losses[0]:.4f} to "
          f"{losses[-window:].mean():.4f}; at most {abs(apart).max():.5f} nats apart (step {abs(apart).argmax() + 1}), "
          f"mean of {window} steps {abs(means).max():.6f}")
    sys.exit(not abs(apart).max() <= options.within)


if __name__ == "__main__":
    main()
