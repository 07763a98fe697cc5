#!/usr/bin/env python3
"""BERT's pre-training step: transformers + PyTorch beside Bertie, turn by turn in one run. See README.md beside it.

    .venv/bin/python bench/peers/torch_pretrain.py                       # tiny mini small base: about half an hour
    .venv/bin/python bench/peers/torch_pretrain.py --size tiny --rounds 5 --json
    .venv/bin/python bench/peers/torch_pretrain.py --memory --size base  # peak memory, each in a process of its own
    .venv/bin/python bench/peers/torch_pretrain.py --alone --mode eager,eager-default    # PyTorch without Bertie

A step is forward, backward, clipping to norm 1 and AdamW, on 32 sequences of 128 tokens with 15% masked, dropout 0.1.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIZES = {  # layers, hidden, heads; FFN is 4 × hidden
    "tiny": (2, 128, 2), "mini": (4, 256, 4), "small": (4, 512, 8), "medium": (8, 512, 8), "base": (12, 768, 12)}
LONG_STEP = 5  # seconds: such a step is measured once a round
VOCABULARY, MASK, IGNORED = 30522, 103, -100
# What PyTorch is asked to do. "eager" and "compile" are as one writes it: labels of -100 where nothing is to be
# predicted, so that the head gives logits for every token. The others are for information.
MODES = ["eager", "compile", "eager-default", "eager-masked", "compile-masked", "eager-bf16", "compile-bf16"]
SHOWN = ["eager", "compile", "eager-masked", "compile-masked", "eager-bf16", "compile-bf16"]


def operations(size, sequences, length, masked):
    """Of a step, as Bertie counts them: two for each multiply-add of the matrix products and of attention, with the
    head at the masked tokens alone; the way back is twice the way there."""
    layers, c, _ = SIZES[size]
    tokens = sequences * length
    body = layers * (tokens * 2 * 12 * c * c + sequences * 4 * length * length * c)
    return 3 * (body + masked * 2 * (c * c + c * VOCABULARY) + sequences * 2 * (c * c + 2 * c))


def make_batch(sequences, length):
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1000, VOCABULARY, (sequences, length), generator=generator)
    labels = torch.full_like(ids, IGNORED)
    for s in range(sequences):
        at = torch.randperm(length - 2, generator=generator)[:round(0.15 * length)] + 1
        labels[s, at] = ids[s, at]
        ids[s, at] = MASK
    types = (torch.arange(length) >= length // 2).long().expand(sequences, length).contiguous()
    return {"input_ids": ids, "token_type_ids": types, "labels": labels,
            "next_sentence_label": torch.randint(2, (sequences,), generator=generator)}


def masked_loss(net, batch):
    """What a user could write to spare the head the tokens that have no label."""
    states, pooled = net.bert(batch["input_ids"], token_type_ids=batch["token_type_ids"], return_dict=False)
    rows = batch["rows"]
    words = net.cls.predictions(states.flatten(0, 1).index_select(0, rows))
    loss = torch.nn.functional.cross_entropy(words, batch["labels"].flatten().index_select(0, rows))
    return loss + torch.nn.functional.cross_entropy(net.cls.seq_relationship(pooled), batch["next_sentence_label"])


class Case:
    """One way to do a step. Those of a size share their weights, so that a large model is in memory once."""

    def __init__(self, net, mode):
        self.net, self.mode, self.times = net, mode, []
        self.half = "bf16" in mode
        run = (lambda batch: masked_loss(net, batch)) if "masked" in mode else (
            lambda batch: net(**{k: v for k, v in batch.items() if k != "rows"}).loss)
        self.loss = torch.compile(run) if "compile" in mode else run
        no_decay = [p for n, p in net.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
        decay = [p for n, p in net.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
        groups = [{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}]
        # fused: what transformers' Trainer takes, and the quickest on a CPU by far
        self.optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6, fused=None if "default" in mode else True)

    def step(self, batch):
        context = torch.autocast("cpu", dtype=torch.bfloat16) if self.half else contextlib.nullcontext()
        with context:
            loss = self.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def round(self, batch, seconds):
        """Adds the times of steps, in ms; the first of all, which allocate and compile, are left out."""
        if not self.times:
            for _ in range(3 if "compile" in self.mode else 1):
                self.step(batch)
        begin, taken = time.perf_counter(), []
        while len(taken) < 2 or time.perf_counter() - begin < seconds:
            start = time.perf_counter()
            self.step(batch)
            taken.append((time.perf_counter() - start) * 1e3)
            if len(taken) == 1 and taken[0] > LONG_STEP * 1e3:
                break
        self.times += taken if len(taken) == 1 else taken[1:]  # caches are others' after their turn


def make_net(size):
    layers, hidden, heads = SIZES[size]
    torch.manual_seed(1)
    return transformers.BertForPreTraining(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * hidden)).train()


def setup(options):
    torch.set_num_threads(options.threads)
    batch = make_batch(options.sequences, options.length)
    batch["rows"] = (batch["labels"].flatten() != IGNORED).nonzero().flatten()
    return batch


def bertie_command(options, size, seconds, more=()):
    return [str(options.bertie), "bench", "pretrain", "--json", "--size", size, "--threads", str(options.threads),
            "--shape", f"{options.sequences}x{options.length}", "--seconds", str(seconds), *more]


def ask_bertie(options, size, seconds, more=()):
    command = bertie_command(options, size, seconds, more)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(options, size):
    """Rows of a size: each mode of PyTorch and Bertie, all measured in every round."""
    batch, net = setup(options), make_net(size)
    cases = [Case(net, mode) for mode in options.mode]
    ours = {"Bertie": ()}
    answers = {name: [] for name in ours}
    for _ in range(options.rounds):
        for case in cases:
            case.round(batch, options.seconds)
            time.sleep(0.3)  # its threads spin for a while after a run
        for name, more in ours.items() if not options.alone else ():
            answers[name].append(ask_bertie(options, size, options.seconds, more))
    tokens = options.sequences * options.length
    work = operations(size, options.sequences, options.length, len(batch["rows"]))
    rows = [{"name": "PyTorch " + c.mode, "best": min(c.times), "median": statistics.median(c.times)} for c in cases]
    rows += [{"name": name, "best": min(a["milliseconds"] for a in got),
              "median": statistics.median(a["median_milliseconds"] for a in got)} for name, got in answers.items() if got]
    peak = max((a["peak_gflops"] for got in answers.values() for a in got), default=options.peak)
    mine = next((r for r in rows if r["name"] == "Bertie"), None)
    for r in rows:
        r |= {"size": size, "tokens_per_second": tokens / r["best"] * 1e3}
        r |= {"gflops": work / r["best"] / 1e6, "fraction": work / r["best"] / 1e6 / peak if peak else None}
        if mine:
            r |= {"ratio": r["best"] / mine["best"], "median_ratio": r["median"] / mine["median"]}
    return rows


def measure_memory(options, size):
    """Peak resident memory in MiB of a few steps, each in a fresh process."""
    mine = [sys.executable, __file__, "--once", "--size", size, "--threads", str(options.threads)]
    commands = {"PyTorch " + m: [*mine, "--mode", m] for m in options.mode}
    if not options.alone:
        commands["Bertie"] = bertie_command(options, size, 0.1)
    for name, command in commands.items():
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{' '.join(command)} failed")
        yield {"name": name, "size": size, "peak_mib": usage.ru_maxrss / 1024}


def show(rows, as_json):
    for r in rows:
        if as_json:
            print(json.dumps(r), flush=True)
        elif "peak_mib" in r:
            print(f"{r['size']:7} {r['name']:24} {r['peak_mib']:8.0f} MiB", flush=True)
        else:
            share = f"{100 * r['fraction']:4.0f}%" if r["fraction"] else "    -"
            ratio = f"{r['ratio']:6.2f}x {r['median_ratio']:6.2f}x" if "ratio" in r else "      -       -"
            print(f"{r['size']:7} {r['name']:24} {r['best']:9.1f} {r['median']:9.1f} {r['tokens_per_second']:9.0f} "
                  f"{r['gflops']:8.0f} {share} {ratio}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bertie", type=lambda p: pathlib.Path(p).resolve(), default=ROOT / "build" / "bertie")
    parser.add_argument("--size", default="tiny,mini,small,base")
    parser.add_argument("--mode", help=f"what of PyTorch is measured, of {','.join(MODES)}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of each in a round")
    parser.add_argument("--peak", type=float, help="GFLOP/s of the machine, when Bertie does not measure it")
    parser.add_argument("--alone", action="store_true", help="without Bertie")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of time")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)  # a child of --memory
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.mode = options.mode.split(",") if options.mode else ["eager", "compile"] if options.memory else SHOWN
    unknown = [m for m in options.mode if m not in MODES] + [s for s in options.size.split(",") if s not in SIZES]
    if unknown:
        sys.exit(f"no such mode or size: {', '.join(unknown)}; there are {', '.join([*MODES, *SIZES])}")
    if options.once:
        batch = setup(options)
        case = Case(make_net(options.size), options.mode[0])
        for _ in range(3):
            case.step(batch)
        return
    if not options.json:
        print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}, {options.threads} threads, "
              f"{options.sequences} × {options.length} tokens, {options.rounds} rounds")
        if not options.memory:
            print("size    what                       best ms    median  tokens/s  GFLOP/s  peak "
                  "time of Bertie's: best, median")
    for size in options.size.split(","):
        show((measure_memory if options.memory else compare)(options, size), options.json)


if __name__ == "__main__":
    main()
