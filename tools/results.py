#!/usr/bin/env python3
"""Fine-tunes real models on GLUE, CoNLL-2003 and SQuAD, row by row, and prints a table of the scores.

    tools/results.py --data TASKS --models MODELS --work DIR            # all rows; what is done is not done again
    tools/results.py --data TASKS --models MODELS --work DIR mrpc rte   # some
    tools/results.py --data TASKS --models MODELS --work DIR --peer .venv/bin/python   # PyTorch on the same rows, too
    tools/results.py … --peer .venv/bin/python --speed                  # what an epoch takes, beside PyTorch
    tools/results.py --work DIR --table                                 # the table of what is done

TASKS holds glue/, conll2003/ and squad/; MODELS holds bert-base-uncased, bert-base-cased and all-MiniLM-L6-v2.
bertie-mini is the one of this folder, beside its shape with random weights. A row that was stopped goes on where it was. Needs nothing but Python and build/bertie; for --peer the packages of
bench/peers/requirements.txt.
"""
import argparse
import json
import pathlib
import platform
import random
import shutil
import statistics
import struct
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE, CASED, MINI = "bert-base-uncased", "bert-base-cased", "all-MiniLM-L6-v2"
BOX, RANDOM = "bertie-mini", "bertie-mini's shape, random weights"
THREE = ["--seeds", "3"]
BF16 = ["--bf16"]
SMALL = [*BF16, "--rate", "3e-4"]
QUICK = ["--epochs", "1", "--batch", "64"]


@dataclass
class Row:
    title: str
    model: str
    kind: str
    train: str
    dev: str
    options: list
    scores: list  # that are shown
    others: list = field(default_factory=list)  # files that the result is measured on too
    teacher: str = ""  # another row, whose student this is
    first: int = 0  # rows of the training file, where not all
    peer: str = ""  # the set's name in bench/peers/torch_finetune.py, where PyTorch is asked too


def glue(name, model, kind, options, scores, **more):
    return Row(name, model, kind, f"glue/{name}/train.tsv", f"glue/{name}/dev.tsv", options, scores, **more)


def conll(model, options, **more):
    return Row("CoNLL-2003", model, "tag", "conll2003/eng.train", "conll2003/eng.testa", options, ["f1"],
               ["conll2003/eng.testb"], **more)


ROWS = {
    "cola": glue("CoLA", BASE, "classify", [*THREE, "--batch", "32", "--metric", "matthews"], ["matthews"]),
    "rte": glue("RTE", BASE, "pair", [*THREE, *BF16, "--epochs", "3"], ["accuracy"]),
    "mrpc": glue("MRPC", BASE, "pair", [*THREE, *BF16, "--epochs", "3"], ["accuracy", "f1"]),
    "stsb": glue("STS-B", BASE, "pair", [*THREE, *BF16, "--epochs", "3"], ["pearson", "spearman"]),
    "conll": conll(CASED, []),
    "sst2": glue("SST-2", BASE, "classify", [*BF16, "--epochs", "2"], ["accuracy"]),
    "squad": Row("SQuAD 1.1 by article", BASE, "answer", "squad/train-by-article.json", "squad/eval-by-article.json",
                 [*BF16, "--epochs", "1", "--batch", "8", "--rate", "5e-5"], ["exact_match", "f1"], peer="squad"),
    "minilm-mrpc": glue("MRPC", MINI, "pair", [*THREE, "--epochs", "3"], ["accuracy", "f1"], peer="mrpc"),
    "minilm-stsb": glue("STS-B", MINI, "pair", [*THREE, "--epochs", "3"], ["pearson", "spearman"], peer="stsb"),
    "minilm-conll": conll(MINI, [*THREE, "--epochs", "3"], peer="conll"),
    "minilm-sst2": glue("SST-2", MINI, "classify", [*THREE, "--epochs", "3"], ["accuracy"], first=20_000, peer="sst2"),
    **{f"{short}-{name}": row for short, model, more in [("box", BOX, ["--baseline"]), ("random", RANDOM, [])] for name, row in {
        "sst2": glue("SST-2", model, "classify", [*SMALL, "--epochs", "3", "--batch", "64"], ["accuracy"]),
        "mrpc": glue("MRPC", model, "pair", [*SMALL, "--epochs", "5", "--batch", "32", *more], ["accuracy", "f1"]),
        "stsb": glue("STS-B", model, "pair", [*SMALL, "--epochs", "5", "--batch", "32", *more],
                     ["pearson", "spearman"]),
        "conll": conll(model, [*SMALL, "--epochs", "5", "--batch", "32"]),
    }.items()},
    "sst2-teacher": glue("SST-2", BASE, "classify", [*BF16, *QUICK, "--rate", "4e-5", "--freeze", "4"], ["accuracy"]),
    "sst2-student": glue("SST-2", "4 layers, taught", "classify", [*BF16, *QUICK, "--rate", "6e-5", "--layers", "4"],
                         ["accuracy"], teacher="sst2-teacher"),
    "sst2-alone": glue("SST-2", "4 layers, labels alone", "classify",
                       [*BF16, *QUICK, "--rate", "6e-5", "--layers", "4", "--soft-weight", "0", "--hard-weight", "1"],
                       ["accuracy"], teacher="sst2-teacher"),
}


def cpu():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def random_weights(out):
    """A folder like bertie-mini's with random weights: normal, deviation 0.02."""
    if (out / "model.safetensors").exists():
        return
    box = ROOT / "models" / BOX
    out.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "vocab.txt", "tokenizer_config.json"):
        shutil.copy(box / name, out)
    with open(box / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    numbers, tensors, at, data = random.Random(1), {}, 0, []
    for name, about in header.items():
        size = 1
        for n in about["shape"]:
            size *= n
        if len(about["shape"]) == 2:
            values = [numbers.gauss(0, 0.02) for _ in range(size)]
        else:
            values = [float(name.endswith("LayerNorm.weight"))] * size
        data.append(struct.pack(f"<{size}f", *values))
        tensors[name] = {"dtype": "F32", "shape": about["shape"], "data_offsets": [at, at + 4 * size]}
        at += 4 * size
    text = json.dumps(tensors).encode()
    begun = out / "model.part"
    begun.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data))
    begun.rename(out / "model.safetensors")


def folder_of(model, a):
    if model == BOX:
        return ROOT / "models" / BOX
    if model == RANDOM:
        random_weights(a.work / "random-weights")
        return a.work / "random-weights"
    return a.models / model


def run_row(name, a):
    row = ROWS[name]
    out = a.work / name
    done = out / "row.json"
    settings = [row.kind, row.model, row.train, row.dev, row.first, *row.options]
    if done.exists():
        if json.loads(done.read_text()).get("settings", settings) != settings:
            sys.exit(f"{name}: {done} is of other settings; remove {out} to do it again")
        print(f"{name}: done", file=sys.stderr)
        return
    if row.teacher:
        run_row(row.teacher, a)
    data = a.data.resolve()
    train = data / row.train
    if row.first:
        train = a.work / f"{name}-train{train.suffix}"
        lines = (data / row.train).read_text(encoding="utf-8").split("\n")
        train.write_text("\n".join(lines[:row.first + 1]) + "\n", encoding="utf-8")  # and the header
    resume = ["--resume"] if (out / "run").exists() else []
    start = ["distill", row.kind, "--teacher", a.work / row.teacher] if row.teacher else \
        ["finetune", row.kind, "-m", folder_of(row.model, a)]
    command = [a.bertie, *start, "--train", train, "--dev", data / row.dev, "-o", out, "--threads", a.threads, *row.options,
               *resume]
    print(f"{name}: {' '.join(map(str, command))}", file=sys.stderr)
    subprocess.run(list(map(str, command)), check=True)
    result = json.loads((out / "metrics.json").read_text())
    result["cpu"], result["settings"] = cpu(), settings
    result["elsewhere"] = {}
    for other in row.others:
        printed = subprocess.run([a.bertie, "evaluate", row.kind, "-m", out, "--data", data / other, "--json", "-q"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
        result["elsewhere"][other] = json.loads(printed.splitlines()[0])["scores"]
    done.write_text(json.dumps(result, indent=1) + "\n")


def run_peer(name, a):
    row, out = ROWS[name], a.work / name / "torch.jsonl"
    if not row.peer or out.exists():
        return
    begun = out.with_suffix(".part")
    with open(begun, "w", encoding="utf-8") as file:
        subprocess.run([a.peer, ROOT / "bench/peers/torch_finetune.py", row.peer, a.models / row.model, "--data",
                        a.data, "--rows", str(row.first), "--like", a.work / name / "row.json", "--threads",
                        str(a.threads)], check=True, stdout=file)
    begun.rename(out)


# What an epoch takes, beside PyTorch. Nothing else should run meanwhile.
SPEEDS = {"sst2": BASE, "conll": CASED}


def run_speed(name, a):
    out = a.work / f"speed-{name}.jsonl"
    if out.exists():
        return
    begun = out.with_suffix(".part")
    with open(begun, "w", encoding="utf-8") as file:
        subprocess.run([a.peer, ROOT / "bench/peers/torch_finetune.py", name, a.models / SPEEDS[name], "--data", a.data,
                        "--seconds", "60", "--bertie", a.bertie], check=True, stdout=file)
    begun.rename(out)


def speed_table(a):
    done = [(name, file) for name in SPEEDS if (file := a.work / f"speed-{name}.jsonl").exists()]
    if not done:
        return
    print("\n| set | model | way | tokens a second | an epoch, minutes | times as long as Bertie |\n"
          "|---|---|---|---|---|---|")
    for name, file in done:
        for line in file.read_text().splitlines():
            row = json.loads(line)
            print(f"| {ROWS[name].title} | {row['model']} | {row['way']} | {row['tokens_per_second']:.0f} | "
                  f"{row['epoch_minutes']:.1f} | {row['times_bertie']:.2f} |")


def over_seeds(values):
    values = [100 * value for value in values]
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def of_peer(name, score, a):
    file = a.work / name / "torch.jsonl"
    if not file.exists():
        return "–"
    seeds = [json.loads(line) for line in file.read_text().splitlines()]
    return "; ".join(("" if part == "dev" else f"{part} ") + over_seeds([seed[part][score] for seed in seeds])
                     for part in ("dev", "testb") if part in seeds[0])


def table(a):
    print("| set | model | score | mean ± deviation | best seed | PyTorch | seeds | epochs | products | hours | machine |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|")
    for name, row in ROWS.items():
        file = a.work / name / "row.json"
        if not file.exists():
            continue
        done = json.loads(file.read_text())
        hours = sum(seed["seconds"] for seed in done["seeds"]) / 3600
        for score in row.scores:
            mean = over_seeds([seed["scores"][score] for seed in done["seeds"]])
            best = f"{100 * done['scores'][score]:.1f}"
            for other in row.others:
                best += f"; {pathlib.Path(other).name} {100 * done['elsewhere'][other][score]:.1f}"
            title = f"{row.title}{f', {row.first:,} rows' if row.first else ''}, {pathlib.Path(row.dev).name}"
            print(f"| {title} | {row.model} | {score} | {mean} | {best} | {of_peer(name, score, a)} | "
                  f"{len(done['seeds'])} | {done['options']['epochs']:.3g} | "
                  f"{'bf16' if done['options'].get('bf16') else 'fp32'} | {hours:.2f} | {done['cpu']} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rows", nargs="*", choices=[[], *ROWS], help="which; without any, all")
    p.add_argument("--data", type=pathlib.Path)
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--bertie", default=str(ROOT / "build" / "bertie"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--peer", help="a Python with PyTorch and transformers: their scores with the same settings")
    p.add_argument("--speed", action="store_true", help="with --peer: what an epoch takes, in turn, on an idle machine")
    p.add_argument("--table", action="store_true", help="print what is done")
    a = p.parse_args()
    if not a.table:
        if not a.data or not a.models:
            p.error("--data and --models say where things are")
        a.work.mkdir(parents=True, exist_ok=True)
        if a.speed and not a.peer:
            p.error("--speed needs --peer")
        for name in a.rows or ([] if a.speed else ROWS):
            run_row(name, a)
            if a.peer:
                run_peer(name, a)
        if a.speed:
            for name in SPEEDS:
                run_speed(name, a)
    table(a)
    speed_table(a)


if __name__ == "__main__":
    main()
