#!/usr/bin/env python3
"""Fine-tunes with transformers and PyTorch as `bertie finetune` does: the same rows, settings and choice of the best
epoch. For scores (seeds) and for the time of an epoch.

    .venv/bin/python bench/peers/torch_finetune.py SET MODEL --data TASKS [--epochs 3] [--seeds 3]     # scores
    .venv/bin/python bench/peers/torch_finetune.py SET MODEL --data TASKS --time 40 --padding max      # speed

SET is cola, mrpc, rte, sst2, stsb or conll; TASKS holds glue/ and conll2003/. --padding max pads every sequence to
--max-length, as run_glue.py does; dynamic pads to the longest of a batch, and grouped makes batches of similar lengths
besides. --time N takes N steps and tells what an epoch would take. Prints a line of JSON for each seed, or one.
"""

import argparse
import json
import pathlib
import random
import statistics
import time

import torch
import transformers

GLUE = {  # file, columns of the text (and the second), of the label; by name, or by number where there is no header
    "cola": ("CoLA", (3,), 1, "matthews"), "sst2": ("SST-2", ("sentence",), "label", "accuracy"),
    "mrpc": ("MRPC", ("#1 String", "#2 String"), "Quality", "accuracy"),
    "rte": ("RTE", ("sentence1", "sentence2"), "label", "accuracy"),
    "stsb": ("STS-B", ("sentence1", "sentence2"), "score", "pearson")}


def read_glue(file, texts, label):
    lines = file.read_text(encoding="utf-8-sig").split("\n")
    rows = [line.split("\t") for line in lines if line]
    if isinstance(label, str):
        header = rows.pop(0)
        texts, label = [header.index(t) for t in texts], header.index(label)
    return [([row[t] for t in texts], row[label]) for row in rows if len(row) > max(*texts, label)]


def to_iob2(tags):
    out, last = [], "O"
    for tag in tags:
        if tag.startswith("I-") and (last == "O" or last[2:] != tag[2:]):
            tag = "B" + tag[1:]
        out.append(tag)
        last = tag
    return out


def read_conll(file):
    sentences, words, tags = [], [], []
    for line in [*file.read_text(encoding="utf-8").split("\n"), ""]:
        fields = line.split()
        if fields and not line.startswith("-DOCSTART-"):
            words.append(fields[0])
            tags.append(fields[-1])
        elif words:
            sentences.append((words, to_iob2(tags)))
            words, tags = [], []
    return sentences


class Task:
    def __init__(self, a):
        self.tags, self.number = a.set == "conll", a.set == "stsb"
        if self.tags:
            self.parts = [read_conll(a.data / "conll2003" / f"eng.{p}") for p in ("train", "testa", "testb")]
            self.metric = "f1"
        else:
            folder, texts, label, self.metric = GLUE[a.set]
            self.parts = [read_glue(a.data / "glue" / folder / f"{p}.tsv", texts, label) for p in ("train", "dev")]
        if a.rows:
            self.parts[0] = self.parts[0][:a.rows]
        names = {t for _, tags in self.parts[0] for t in tags} if self.tags else {label for _, label in self.parts[0]}
        self.labels = ["x"] if self.number else sorted(names)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(a.model)
        self.max_length = a.max_length
        self.encoded = [[self.encode(*row) for row in part] for part in self.parts]

    def encode(self, text, label):
        if self.tags:
            e = self.tokenizer(text, is_split_into_words=True, truncation=True, max_length=self.max_length)
            seen, targets = set(), []
            for word in e.word_ids():
                targets.append(self.labels.index(label[word]) if word is not None and word not in seen else -100)
                seen.add(word)
            e["labels"] = targets
        else:
            e = self.tokenizer(*text, truncation=True, max_length=self.max_length)
            e["labels"] = float(label) if self.number else self.labels.index(label)
        return dict(e)

    def model(self, name):
        kind = transformers.AutoModelForTokenClassification if self.tags else \
            transformers.AutoModelForSequenceClassification
        return kind.from_pretrained(name, num_labels=len(self.labels))

    def batch(self, rows, padding):
        longest = self.max_length if padding == "max" else max(len(r["input_ids"]) for r in rows)
        fill = {"input_ids": self.tokenizer.pad_token_id, "token_type_ids": 0, "attention_mask": 0, "labels": -100}
        out = {}
        for key in rows[0]:
            if key == "labels" and not self.tags:
                out[key] = torch.tensor([r[key] for r in rows])
            else:
                out[key] = torch.tensor([r[key] + [fill[key]] * (longest - len(r[key])) for r in rows])
        return out

    @torch.no_grad()
    def scores(self, net, part):
        net.eval()
        rows, predicted = self.encoded[part], []
        for i in range(0, len(rows), 32):
            b = self.batch(rows[i:i + 32], "dynamic")
            labels = b.pop("labels")
            logits = net(**b).logits
            if self.tags:
                for one, targets in zip(logits.argmax(-1), labels):
                    predicted.append([self.labels[int(p)] for p, t in zip(one, targets) if t >= 0])
            else:
                predicted += logits[:, 0].tolist() if self.number else logits.argmax(-1).tolist()
        if self.tags:
            from seqeval.metrics import f1_score
            truth = [tags[:len(p)] for (_, tags), p in zip(self.parts[part], predicted)]
            return {"f1": f1_score(truth, predicted)}
        truth = [r["labels"] for r in rows]
        if self.number:
            from scipy import stats
            return {"pearson": stats.pearsonr(predicted, truth)[0], "spearman": stats.spearmanr(predicted, truth)[0]}
        from sklearn import metrics
        return {"accuracy": metrics.accuracy_score(truth, predicted), "matthews": metrics.matthews_corrcoef(
            truth, predicted), "f1": metrics.f1_score(truth, predicted, average="binary")}


def epoch_of(task, a, rng):
    order = list(range(len(task.encoded[0])))
    rng.shuffle(order)
    if a.padding != "grouped":
        return [order[i:i + a.batch] for i in range(0, len(order), a.batch)]
    batches, pool = [], a.batch * 50  # as transformers' group_by_length
    for i in range(0, len(order), pool):
        group = sorted(order[i:i + pool], key=lambda r: len(task.encoded[0][r]["input_ids"]))
        batches += [group[j:j + a.batch] for j in range(0, len(group), a.batch)]
    rng.shuffle(batches)
    return batches


def train(task, a, seed):
    transformers.set_seed(seed)
    rng = random.Random(seed)
    net = task.model(a.model)
    decays = [p for n, p in net.named_parameters() if "bias" not in n and "LayerNorm" not in n]
    others = [p for n, p in net.named_parameters() if "bias" in n or "LayerNorm" in n]
    optimizer = torch.optim.AdamW([{"params": decays, "weight_decay": 0.01}, {"params": others, "weight_decay": 0}],
                                  lr=a.rate, eps=1e-6)
    in_epoch = -(-len(task.encoded[0]) // a.batch)
    steps = a.time or in_epoch * a.epochs
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, int(0.1 * steps), steps)
    best, begun, taken, tokens = None, time.perf_counter(), [], 0
    for _ in range(a.epochs):
        net.train()
        for rows in epoch_of(task, a, rng):
            start = time.perf_counter()
            batch = task.batch([task.encoded[0][r] for r in rows], a.padding)
            net(**batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            taken.append(time.perf_counter() - start)
            tokens += int(batch["attention_mask"].sum())
            if a.time and len(taken) == a.time:
                steady = taken[len(taken) // 10:]
                return {"padding": a.padding, "step_seconds": statistics.median(steady),
                        "epoch_minutes": statistics.mean(steady) * in_epoch / 60, "tokens_per_step": tokens / a.time}
        now = task.scores(net, 1)
        if best is None or now[task.metric] > best["dev"][task.metric]:
            best = {"seed": seed, "dev": now}
            if len(task.parts) > 2:
                best["test"] = task.scores(net, 2)
    return {**best, "seconds": time.perf_counter() - begun}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("set", choices=[*GLUE, "conll"])
    p.add_argument("model")
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--rate", type=float, default=3e-5)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--rows", type=int, default=0, help="the first so many rows alone")
    p.add_argument("--max-length", type=int, default=128)
    p.add_argument("--padding", choices=["max", "dynamic", "grouped"], default="dynamic")
    p.add_argument("--time", type=int, default=0, help="take so many steps, and tell what an epoch takes")
    p.add_argument("--threads", type=int, default=0)
    a = p.parse_args()
    if a.threads:
        torch.set_num_threads(a.threads)
    task = Task(a)
    for seed in range(1, (1 if a.time else a.seeds) + 1):
        print(json.dumps(train(task, a, seed)), flush=True)


if __name__ == "__main__":
    main()
