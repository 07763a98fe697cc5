#!/usr/bin/env python3
"""Fine-tunes with transformers and PyTorch as `bertie finetune` does: the same rows, settings and choice of the best
epoch, for its scores; and measures what an epoch takes, beside Bertie.

    .venv/bin/python bench/peers/torch_finetune.py SET MODEL --data TASKS --like ROW/metrics.json   # scores
    .venv/bin/python bench/peers/torch_finetune.py SET MODEL --data TASKS --seconds 60              # speed, in turn

SET is cola, mrpc, rte, sst2, stsb, conll or squad; TASKS holds glue/, conll2003/ and squad/. --like takes epochs,
batch, rate, length and seeds from what `bertie finetune` wrote. Prints a line of JSON for each seed or measurement.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import re
import string
import subprocess
import tempfile
import time

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Sentences:
    """One class or number for a text or a pair of texts."""
    KINDS = {  # folder, columns of the texts and of the label, by name, or by number where there is no header
        "cola": ("CoLA", (3,), 1, "matthews"), "sst2": ("SST-2", ("sentence",), "label", "accuracy"),
        "mrpc": ("MRPC", ("#1 String", "#2 String"), "Quality", "accuracy"),
        "rte": ("RTE", ("sentence1", "sentence2"), "label", "accuracy"),
        "stsb": ("STS-B", ("sentence1", "sentence2"), "score", "r2")}
    AUTO = transformers.AutoModelForSequenceClassification
    LENGTH = 128

    def __init__(self, a):
        folder, self.texts, self.label, self.metric = self.KINDS[a.set]
        self.files = [a.data / "glue" / folder / f"{part}.tsv" for part in ("train", "dev")]
        self.bertie = ["classify" if len(self.texts) == 1 else "pair"]
        self.number = a.set == "stsb"
        self.tokenizer, self.max_length = transformers.AutoTokenizer.from_pretrained(a.model), a.max_length
        parts = [self.read(file) for file in self.files]
        if a.rows:
            parts[0] = parts[0][:a.rows]
        self.labels = [""] if self.number else sorted({label for _, label in parts[0]})
        self.train, self.dev = ([self.encode(*row) for row in part] for part in parts)
        self.others = {}

    def read(self, file):
        rows = [line.split("\t") for line in file.read_text(encoding="utf-8-sig").split("\n") if line]
        texts, label = self.texts, self.label
        if isinstance(label, str):
            header = rows.pop(0)
            texts, label = [header.index(t) for t in texts], header.index(label)
        return [([row[t] for t in texts], row[label]) for row in rows]

    def encode(self, texts, label):
        e = self.tokenizer(*texts, truncation=True, max_length=self.max_length)
        return {**e, "labels": float(label) if self.number else self.labels.index(label)}

    def scores(self, net, rows):
        out = torch.cat([logits for logits, _ in forward(self, net, rows)])
        truth = [row["labels"] for row in rows]
        if self.number:
            from scipy import stats
            from sklearn import metrics
            predicted = out[:, 0].tolist()
            return {"pearson": stats.pearsonr(predicted, truth)[0], "spearman": stats.spearmanr(predicted, truth)[0],
                    "r2": metrics.r2_score(truth, predicted)}
        from sklearn import metrics
        predicted = out.argmax(-1).tolist()
        return {"accuracy": metrics.accuracy_score(truth, predicted), "f1": metrics.f1_score(truth, predicted),
                "matthews": metrics.matthews_corrcoef(truth, predicted)}


class Tags:
    """CoNLL-2003: a tag at the first token of each word."""
    AUTO = transformers.AutoModelForTokenClassification
    LENGTH, metric, bertie = 128, "f1", ["tag"]

    def __init__(self, a):
        self.files = [a.data / "conll2003" / f"eng.{part}" for part in ("train", "testa")]
        self.tokenizer, self.max_length = transformers.AutoTokenizer.from_pretrained(a.model), a.max_length
        parts = [self.read(file) for file in [*self.files, a.data / "conll2003" / "eng.testb"]]
        if a.rows:
            parts[0] = parts[0][:a.rows]
        self.labels = sorted({tag for _, tags in parts[0] for tag in tags})
        self.train, self.dev, test = ([self.encode(*row) for row in part] for part in parts)
        self.others = {"testb": test}

    @staticmethod
    def read(file):
        sentences, words, tags = [], [], []
        for line in [*file.read_text(encoding="utf-8").split("\n"), ""]:
            fields = line.split()
            if fields and fields[0] != "-DOCSTART-":
                tag, last = fields[-1], tags[-1] if tags else "O"
                if tag.startswith("I-") and last[2:] != tag[2:]:
                    tag = "B" + tag[1:]  # IOB1 to IOB2
                words.append(fields[0])
                tags.append(tag)
            elif words:
                sentences.append((words, tags))
                words, tags = [], []
        return sentences

    def encode(self, words, tags):
        e = self.tokenizer(words, is_split_into_words=True, truncation=True, max_length=self.max_length)
        targets, last = [], None
        for word in e.word_ids():
            targets.append(self.labels.index(tags[word]) if word is not None and word != last else -100)
            last = word
        return {**e, "labels": targets}

    def scores(self, net, rows):
        from seqeval.metrics import f1_score
        predicted, truth = [], []
        for logits, batch in forward(self, net, rows):
            for one, targets in zip(logits.argmax(-1), batch["labels"]):
                truth.append([self.labels[t] for t in targets if t >= 0])
                predicted.append([self.labels[p] for p, t in zip(one, targets) if t >= 0])
        return {"f1": f1_score(truth, predicted)}


class Answers:
    """SQuAD: windows over the context, the span with the highest sum of logits over all windows."""
    AUTO = transformers.AutoModelForQuestionAnswering
    LENGTH, metric, bertie, labels, others = 384, "f1", ["answer"], None, {}

    def __init__(self, a):
        self.files = [a.data / "squad" / f"{part}-by-article.json" for part in ("train", "eval")]
        self.tokenizer, self.max_length = transformers.AutoTokenizer.from_pretrained(a.model), a.max_length
        parts = [self.read(file) for file in self.files]
        if a.rows:
            parts[0] = parts[0][:a.rows]
        self.train, self.dev = ([w for q in part for w in self.windows(*q)] for part in parts)

    @staticmethod
    def read(file):
        return [(q["id"], q["question"], p["context"], q["answers"]) for article in json.loads(file.read_text())["data"]
                for p in article["paragraphs"] for q in p["qas"]]

    def windows(self, key, question, context, answers):
        e = self.tokenizer(question, context, truncation="only_second", max_length=self.max_length, stride=128,
                           return_overflowing_tokens=True, return_offsets_mapping=True)
        first = answers[0]["answer_start"]
        last = first + len(answers[0]["text"])
        for i, offsets in enumerate(e["offset_mapping"]):
            inside = [j for j, s in enumerate(e.sequence_ids(i)) if s == 1]
            start = end = 0  # [CLS], where the answer is not in this window
            if offsets[inside[0]][0] <= first and offsets[inside[-1]][1] >= last:
                start = max(j for j in inside if offsets[j][0] <= first)
                end = min(j for j in inside if offsets[j][1] >= last)
            yield {**{name: e[name][i] for name in ("input_ids", "token_type_ids", "attention_mask")},
                   "start_positions": start, "end_positions": end,
                   "question": (key, context, offsets, inside, [x["text"] for x in answers])}

    def scores(self, net, rows):
        best = {}
        at = iter(rows)
        for (starts, ends), _ in forward(self, net, rows):
            for start, end in zip(starts, ends):
                key, context, offsets, inside, truth = next(at)["question"]
                for i in (start[inside].topk(min(20, len(inside))).indices + inside[0]).tolist():
                    for j in (end[inside].topk(min(20, len(inside))).indices + inside[0]).tolist():
                        score = float(start[i] + end[j])
                        if i <= j < i + 30 and score > best.get(key, (-math.inf,))[0]:
                            best[key] = score, context[offsets[i][0]:offsets[j][1]], truth
        exact = [max(normal(t) == normal(text) for t in truth) for _, text, truth in best.values()]
        f1 = [max(overlap(text, t) for t in truth) for _, text, truth in best.values()]
        return {"exact_match": sum(exact) / len(exact), "f1": sum(f1) / len(f1)}


def normal(text):  # as SQuAD's script
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def overlap(a, b):
    a, b = normal(a).split(), normal(b).split()
    same = sum((collections.Counter(a) & collections.Counter(b)).values())
    return 2 * same / (len(a) + len(b)) if same else 0.0


def batch_of(task, rows, padding="longest"):
    longest = task.max_length if padding == "max" else max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": task.tokenizer.pad_token_id, "token_type_ids": 0, "attention_mask": 0, "labels": -100}
    padded = lambda key, x: x + [fill[key]] * (longest - len(x)) if isinstance(x, list) else x
    return {key: torch.tensor([padded(key, row[key]) for row in rows]) for key in rows[0] if key != "question"}


@torch.no_grad()
def forward(task, net, rows):
    net.eval()
    for i in range(0, len(rows), 32):
        batch = batch_of(task, rows[i:i + 32])
        out = net(**{key: batch[key] for key in ("input_ids", "token_type_ids", "attention_mask")})
        yield (out.start_logits, out.end_logits) if isinstance(task, Answers) else out.logits, batch


def shuffled(task, size, grouped, rng):
    order = list(range(len(task.train)))
    rng.shuffle(order)
    if not grouped:
        return [order[i:i + size] for i in range(0, len(order), size)]
    batches, pool = [], size * 50  # as transformers' group_by_length
    for i in range(0, len(order), pool):
        group = sorted(order[i:i + pool], key=lambda r: len(task.train[r]["input_ids"]))
        batches += [group[j:j + size] for j in range(0, len(group), size)]
    rng.shuffle(batches)
    return batches


class Learner:
    def __init__(self, task, a, seed, steps, bf16):
        transformers.set_seed(seed)
        self.task, self.bf16 = task, bf16
        labels = {"num_labels": len(task.labels)} if task.labels else {}
        self.net = task.AUTO.from_pretrained(a.model, dtype=torch.float32, **labels)
        plain = [p for n, p in self.net.named_parameters() if "bias" in n or "LayerNorm" in n]
        decayed = [p for n, p in self.net.named_parameters() if "bias" not in n and "LayerNorm" not in n]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01},
                                            {"params": plain, "weight_decay": 0}], lr=a.rate, eps=1e-6, fused=True)
        self.schedule = transformers.get_linear_schedule_with_warmup(self.optimizer, int(0.1 * steps), steps)

    def step(self, rows, padding):
        self.net.train()
        batch = batch_of(self.task, [self.task.train[r] for r in rows], padding)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            loss = self.net(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return int(batch["attention_mask"].sum())


def scores(task, a, seed):
    begun, best = time.perf_counter(), None
    learner = Learner(task, a, seed, math.ceil(len(task.train) / a.batch) * a.epochs, a.bf16)
    rng = random.Random(seed)
    for epoch in range(a.epochs):
        for rows in shuffled(task, a.batch, True, rng):
            learner.step(rows, "longest")
        now = task.scores(learner.net, task.dev)
        if best is None or now[task.metric] >= best["dev"][task.metric]:
            best = {"seed": seed, "epoch": epoch + 1, "dev": now,
                    **{name: task.scores(learner.net, rows) for name, rows in task.others.items()}}
    return {**best, "seconds": time.perf_counter() - begun}


def endless_batches(task, a, way):
    rng = random.Random(1)
    while True:
        yield from shuffled(task, a.batch, way.startswith("grouped"), rng)


def torch_speed(task, a, way):
    learner, batches = Learner(task, a, 1, 1_000_000, way.endswith("bf16")), endless_batches(task, a, way)
    for _ in range(2):
        learner.step(next(batches), "max" if way == "max" else "longest")
    tokens, begun = 0, time.perf_counter()
    while time.perf_counter() < begun + a.seconds:
        tokens += learner.step(next(batches), "max" if way == "max" else "longest")
    return tokens / (time.perf_counter() - begun)


def bertie_speed(task, a, *options):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([a.bertie, "finetune", *task.bertie, "-m", a.model, "--train", task.files[0], "--dev-share", "0",
                        "-b", str(a.batch), "--max-length", str(a.max_length), "--time", f"{a.seconds + 10}s",
                        "--log-every", "1", "--threads", str(a.threads), "-o", folder + "/out", "-q", *options],
                       check=True, stdout=subprocess.DEVNULL)
        log = [json.loads(line) for line in open(f"{folder}/out/run/seed-1/log.jsonl", encoding="utf-8")]
    log = [entry for entry in log if "tokens" in entry]
    first = log[2]
    return (log[-1]["tokens"] - first["tokens"]) / (log[-1]["seconds"] - first["seconds"])


def speeds(task, a):
    ways = {way: lambda way=way: torch_speed(task, a, way) for way in ("max", "longest", "grouped", "grouped bf16")}
    ways["bertie"] = lambda: bertie_speed(task, a)
    ways["bertie bf16"] = lambda: bertie_speed(task, a, "--bf16")
    ways = {way: ways[way] for way in a.ways or ways}
    epoch = sum(len(row["input_ids"]) for row in task.train)
    best = dict.fromkeys(ways, 0.0)
    for _ in range(a.rounds):
        for way, measure in ways.items():
            best[way] = max(best[way], measure())
    for way, rate in best.items():
        print(json.dumps({"set": a.set, "model": pathlib.Path(a.model).name, "way": way, "tokens_per_second": rate,
                          "epoch_minutes": epoch / rate / 60,
                          "times_bertie": best.get("bertie bf16" if way.endswith("bf16") else "bertie", 0) / rate}),
              flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("set", choices=[*Sentences.KINDS, "conll", "squad"])
    p.add_argument("model")
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--like", type=pathlib.Path, help="metrics.json of a run of `bertie finetune`")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--rate", type=float, default=3e-5)
    p.add_argument("--seeds", type=int, default=1)
    p.add_argument("--first-seed", type=int, default=1, help="the others follow it")
    p.add_argument("--rows", type=int, default=0, help="the first so many rows to learn from (default: all)")
    p.add_argument("--max-length", type=int, help="(default: 128; for squad 384)")
    p.add_argument("--bf16", action="store_true", help="products of bf16, as torch.autocast makes them")
    p.add_argument("--seconds", type=int, default=0, help="measure speed instead, so long each")
    p.add_argument("--ways", nargs="+", choices=["max", "longest", "grouped", "grouped bf16", "bertie", "bertie bf16"],
                   help="which to measure (default: all)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bertie", default=ROOT / "build/bertie")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.like:
        done = json.loads(a.like.read_text())
        a.epochs, a.batch, a.rate = round(done["options"]["epochs"]), done["options"]["batch"], done["options"]["rate"]
        a.bf16 = done["options"].get("bf16", False)
        a.seeds, a.max_length = len(done["seeds"]), done["options"]["max_length"]
    kind = {"conll": Tags, "squad": Answers}.get(a.set, Sentences)
    a.max_length = a.max_length or kind.LENGTH
    task = kind(a)
    if a.seconds:
        speeds(task, a)
        return
    for seed in range(a.first_seed, a.first_seed + a.seeds):
        print(json.dumps(scores(task, a, seed)), flush=True)


if __name__ == "__main__":
    main()
