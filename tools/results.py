#!/usr/bin/env python3
"""Fine-tunes real models on GLUE, CoNLL-2003 and SQuAD, row by row, and prints a table of the scores.

    tools/results.py --data TASKS --models MODELS --work DIR            # all rows; what is done is not done again
    tools/results.py --data TASKS --models MODELS --work DIR mrpc rte   # some
    tools/results.py --work DIR --table                                 # the table of what is done

TASKS holds glue/, conll2003/ and squad/; MODELS holds bert-base-uncased, bert-base-cased and all-MiniLM-L6-v2. A row
that was stopped goes on where it was. Needs nothing but Python and build/bertie.
"""
import argparse
import json
import pathlib
import platform
import subprocess
import sys

# name: (set, model, kind, train, dev, further options, scores shown, other files to measure on)
ROWS = {
    "rte": ("RTE", "bert-base-uncased", "pair", "glue/RTE/train.tsv", "glue/RTE/dev.tsv",
            ["--seeds", "3"], ["accuracy"], []),
    "mrpc": ("MRPC", "bert-base-uncased", "pair", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv",
             ["--seeds", "3"], ["accuracy", "f1"], []),
    "stsb": ("STS-B", "bert-base-uncased", "pair", "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv",
             ["--seeds", "3"], ["pearson", "spearman"], []),
    "cola": ("CoLA", "bert-base-uncased", "classify", "glue/CoLA/train.tsv", "glue/CoLA/dev.tsv",
             ["--seeds", "3", "--metric", "matthews"], ["matthews"], []),
    "sst2": ("SST-2", "bert-base-uncased", "classify", "glue/SST-2/train.tsv", "glue/SST-2/dev.tsv",
             [], ["accuracy"], []),
    "conll": ("CoNLL-2003", "bert-base-cased", "tag", "conll2003/eng.train", "conll2003/eng.testa",
              [], ["f1"], ["conll2003/eng.testb"]),
    "squad": ("SQuAD 1.1 by article", "bert-base-uncased", "answer", "squad/train-by-article.json",
              "squad/eval-by-article.json", [], ["exact_match", "f1"], []),
    "minilm-mrpc": ("MRPC", "all-MiniLM-L6-v2", "pair", "glue/MRPC/train.tsv", "glue/MRPC/dev.tsv",
                    ["--seeds", "3"], ["accuracy", "f1"], []),
    "minilm-stsb": ("STS-B", "all-MiniLM-L6-v2", "pair", "glue/STS-B/train.tsv", "glue/STS-B/dev.tsv",
                    ["--seeds", "3"], ["pearson", "spearman"], []),
    "minilm-conll": ("CoNLL-2003", "all-MiniLM-L6-v2", "tag", "conll2003/eng.train", "conll2003/eng.testa",
                     ["--seeds", "3"], ["f1"], ["conll2003/eng.testb"]),
}


def cpu():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def run_row(name, a):
    _, model, kind, train, dev, more, _, others = ROWS[name]
    out = a.work / name
    done = out / "row.json"
    if done.exists():
        print(f"{name}: done", file=sys.stderr)
        return
    data = a.data.resolve()
    resume = ["--resume"] if (out / "run").exists() else []
    command = [a.bertie, "finetune", kind, "-m", a.models / model, "--train", data / train, "--dev", data / dev,
               "-o", out, *more, *resume]
    print(f"{name}: {' '.join(map(str, command))}", file=sys.stderr)
    subprocess.run(list(map(str, command)), check=True)
    row = json.loads((out / "metrics.json").read_text())
    row["cpu"] = cpu()
    row["elsewhere"] = {}
    for other in others:
        printed = subprocess.run([a.bertie, "evaluate", kind, "-m", out, "--data", data / other, "--json", "-q"],
                                 check=True, stdout=subprocess.PIPE, text=True).stdout
        row["elsewhere"][other] = json.loads(printed.splitlines()[0])["scores"]
    done.write_text(json.dumps(row, indent=1) + "\n")


def table(a):
    print("| set | model | score | mean ± deviation | best | seeds | hours | machine |\n|---|---|---|---|---|---|---|---|")
    for name, (title, model, _, _, dev, _, shown, others) in ROWS.items():
        file = a.work / name / "row.json"
        if not file.exists():
            continue
        row = json.loads(file.read_text())
        hours = sum(seed["seconds"] for seed in row["seeds"]) / 3600
        for score in shown:
            over = row.get("over_seeds", {}).get(score)
            mean = f"{100 * over['mean']:.1f} ± {100 * over['deviation']:.1f}" if over else "–"
            best = f"{100 * row['scores'][score]:.1f}"
            for other in others:
                best += f"; {pathlib.Path(other).name} {100 * row['elsewhere'][other][score]:.1f}"
            print(f"| {title}, {pathlib.Path(dev).name} | {model} | {score} | {mean} | {best} | "
                  f"{len(row['seeds'])} | {hours:.2f} | {row['cpu']} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rows", nargs="*", choices=[[], *ROWS], help="which; without any, all")
    p.add_argument("--data", type=pathlib.Path)
    p.add_argument("--models", type=pathlib.Path)
    p.add_argument("--work", type=pathlib.Path, required=True)
    p.add_argument("--bertie", default=str(pathlib.Path(__file__).resolve().parent.parent / "build" / "bertie"))
    p.add_argument("--table", action="store_true", help="print what is done")
    a = p.parse_args()
    if not a.table:
        if not a.data or not a.models:
            p.error("--data and --models say where things are")
        a.work.mkdir(parents=True, exist_ok=True)
        for name in a.rows or ROWS:
            run_row(name, a)
    table(a)


if __name__ == "__main__":
    main()
