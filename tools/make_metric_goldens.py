#!/usr/bin/env python3
"""Writes tests/golden/metrics/*.json: random predictions and what scikit-learn, SciPy, seqeval, conlleval and
SQuAD's scripts say of them.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r tools/requirements-metrics.txt
    /tmp/venv/bin/python tools/make_metric_goldens.py tests/golden/metrics

scikit-learn, SciPy and seqeval are called. conlleval.pl (2004) and evaluate-v1.1.py / evaluate-v2.0.py are not
packages: what they compute is written down here again, independently of the C++. All texts are random.
"""
import json
import pathlib
import random
import re
import string
import sys
import unicodedata
import warnings
from collections import Counter

import numpy as np
from scipy import stats
from sklearn import metrics as sk
from seqeval import metrics as seq

warnings.filterwarnings("ignore")
rng = random.Random(12)


def number(x):
    x = float(x)
    return x if np.isfinite(x) else None


# --- classes -----------------------------------------------------------------------------------------------


def calibration_error(confidence, right, bins=15):
    """Guo et al. 2017: bins (i/15, (i+1)/15]."""
    edges, n, error = np.linspace(0, 1, bins + 1), len(confidence), 0.0
    for low, high in zip(edges[:-1], edges[1:]):
        inside = (confidence > low) & (confidence <= high)
        if inside.any():
            error += abs(right[inside].mean() - confidence[inside].mean()) * inside.sum() / n
    return error


def class_case(k, truth, predicted):
    confidence = np.array([np.float32(round(rng.uniform(1 / k + 0.005, 1), 4)) for _ in truth], dtype=np.float32)
    t, p = np.array(truth), np.array(predicted)
    precision, recall, f1, support = sk.precision_recall_fscore_support(t, p, labels=range(k), zero_division=0)
    expected = {
        "accuracy": sk.accuracy_score(t, p),
        "matthews": sk.matthews_corrcoef(t, p),
        "f1_macro": sk.f1_score(t, p, average="macro", zero_division=0),
        "f1_micro": sk.f1_score(t, p, average="micro", zero_division=0),
        "f1_weighted": sk.f1_score(t, p, average="weighted", zero_division=0),
        "calibration_error": calibration_error(confidence.astype(float), (t == p).astype(float)),
    }
    if k == 2:
        expected["f1"] = sk.f1_score(t, p, labels=[0, 1], pos_label=1, average="binary", zero_division=0)
    return {
        "k": k, "t": truth, "p": predicted, "c": [float(c) for c in confidence],
        "scores": {name: number(x) for name, x in expected.items()},
        "classes": [[number(x) for x in row] for row in zip(precision, recall, f1)],
        "support": [int(x) for x in support],
        "confusion": sk.confusion_matrix(t, p, labels=range(k)).tolist(),
    }


def class_cases():
    cases = [
        class_case(2, [1], [1]), class_case(2, [0], [1]), class_case(2, [1], [0]), class_case(2, [0], [0]),
        class_case(2, [0] * 9, [0] * 9), class_case(2, [1] * 9, [0] * 9), class_case(2, [0, 1] * 5, [1] * 10),
        class_case(5, [3] * 6, [3] * 6), class_case(5, [3] * 6, [1] * 6), class_case(7, [0, 6], [6, 0]),
    ]
    for _ in range(190):
        k, n = rng.choice([2, 2, 2, 3, 4, 6, 9]), rng.randint(1, 40)
        skill = rng.random()
        weights = [rng.random() ** 3 + 1e-3 for _ in range(k)]
        truth = rng.choices(range(k), weights, k=n)
        predicted = [t if rng.random() < skill else rng.randrange(k) for t in truth]
        cases.append(class_case(k, truth, predicted))
    return cases


def label_set_case(truth, predicted):
    t, p = np.array(truth), np.array(predicted)
    precision, recall, f1, support = sk.precision_recall_fscore_support(t, p, zero_division=0)
    return {
        "t": truth, "p": predicted,
        "scores": {
            "f1_micro": number(sk.f1_score(t, p, average="micro", zero_division=0)),
            "f1_macro": number(sk.f1_score(t, p, average="macro", zero_division=0)),
            "exact_match": number(sk.accuracy_score(t, p)),
        },
        "classes": [[number(x) for x in row] for row in zip(precision, recall, f1)],
        "support": [int(x) for x in support],
    }


def label_set_cases():
    cases = [label_set_case([[0, 0, 0]] * 4, [[0, 0, 0]] * 4), label_set_case([[1, 0]] * 3, [[0, 0]] * 3),
             label_set_case([[0, 0]] * 3, [[0, 1]] * 3)]
    for _ in range(97):
        k, n, density, skill = rng.randint(2, 6), rng.randint(2, 20), rng.random(), rng.random()
        truth = [[int(rng.random() < density) for _ in range(k)] for _ in range(n)]
        predicted = [[x if rng.random() < skill else int(rng.random() < density) for x in row] for row in truth]
        cases.append(label_set_case(truth, predicted))
    return cases


def number_case(truth, predicted):
    p32 = np.array(predicted, dtype=np.float32).astype(float)
    t = np.array(truth, dtype=float)
    defined = len(truth) > 1 and len(set(t)) > 1 and len(set(p32)) > 1
    return {
        "t": truth, "p": [float(x) for x in p32],
        "scores": {
            "pearson": number(stats.pearsonr(p32, t)[0]) if defined else None,
            "spearman": number(stats.spearmanr(p32, t)[0]) if defined else None,
            "mean_squared_error": number(sk.mean_squared_error(t, p32)),
            "r2": number(sk.r2_score(t, p32)) if len(set(t)) > 1 else None,
        },
    }


def number_cases():
    cases = [number_case([1.0], [2.0]), number_case([1.0, 1.0], [2.0, 3.0]), number_case([1.0, 2.0], [3.0, 3.0]),
             number_case([1.0, 2.0], [5.0, 7.0]), number_case([1.0, 2.0], [7.0, 5.0])]
    for _ in range(115):
        n, noise, ties = rng.randint(2, 30), rng.random() * 3, rng.random() < 0.5
        truth = [round(rng.uniform(0, 5), 0 if ties else 3) for _ in range(n)]
        predicted = [round(t + rng.gauss(0, noise), rng.choice([0, 1, 4])) for t in truth]
        cases.append(number_case(truth, predicted))
    return cases


# --- tags --------------------------------------------------------------------------------------------------

ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}
STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}


def conlleval(truth, predicted):
    """Counts of conlleval.pl: chunks right, found in the corpus and guessed, for each type; right tags, tags."""
    def parts(tag):
        letter, _, kind = tag.partition("-")
        return letter, kind

    def ends(before, now):
        return (before[0], now[0]) in ENDS or (before[0] != "O" and before[1] != now[1])

    def starts(before, now):
        return (before[0], now[0]) in STARTS or (now[0] != "O" and before[1] != now[1])

    right, found, guessed = Counter(), Counter(), Counter()
    right_tags = tags = 0
    last_c = last_g = ("O", "")
    in_correct = False
    lines = [pair for t, p in zip(truth, predicted) for pair in [*zip(t, p), None]]  # None: an empty line
    for pair in lines:
        c, g = (parts(pair[0]), parts(pair[1])) if pair else (("O", ""), ("O", ""))
        if in_correct:
            c_ends, g_ends = ends(last_c, c), ends(last_g, g)
            if c_ends and g_ends and last_c[1] == last_g[1]:
                in_correct = False
                right[last_c[1]] += 1
            elif c_ends != g_ends or c[1] != g[1]:
                in_correct = False
        c_starts, g_starts = starts(last_c, c), starts(last_g, g)
        if c_starts and g_starts and c[1] == g[1]:
            in_correct = True
        found[c[1]] += c_starts
        guessed[g[1]] += g_starts
        if pair:
            right_tags += c == g
            tags += 1
        last_c, last_g = c, g
    if in_correct:
        right[last_c[1]] += 1
    kinds = sorted(set(+found) | set(+guessed))
    return {"types": {kind: [right[kind], guessed[kind], found[kind]] for kind in kinds},
            "tags": [right_tags, tags]}


def tag_case(letters, kinds, sentences):
    labels = ["O"] + [f"{letter}-{kind}" if kind else letter for kind in kinds for letter in letters]
    truth = [[labels[t] for t, _ in s] for s in sentences]
    predicted = [[labels[p] for _, p in s] for s in sentences]
    report = seq.classification_report(truth, predicted, output_dict=True, zero_division=0)
    types = {kind: [number(v["precision"]), number(v["recall"]), number(v["f1-score"]), int(v["support"])]
             for kind, v in report.items() if not kind.endswith(" avg")}
    return {
        "labels": labels,
        "t": [[t for t, _ in s] for s in sentences], "p": [[p for _, p in s] for s in sentences],
        "seqeval": {"precision": number(seq.precision_score(truth, predicted, zero_division=0)),
                    "recall": number(seq.recall_score(truth, predicted, zero_division=0)),
                    "f1": number(seq.f1_score(truth, predicted, zero_division=0)),
                    "accuracy": number(seq.accuracy_score(truth, predicted)), "types": types},
        "conlleval": conlleval(truth, predicted),
    }


def tag_cases():
    """Any tag after any other: most sequences are not what a scheme allows."""
    cases = [tag_case("BI", ["PER"], [[(0, 0)] * 3]), tag_case("BI", ["PER"], [[(1, 0), (2, 0)]]),
             tag_case("BI", ["PER"], [[(0, 2), (0, 2)]]), tag_case("BI", ["PER"], [[(1, 2), (2, 2)]]),
             tag_case("BI", ["", "PER"], [[(1, 1), (2, 2), (3, 3)]]),
             tag_case("BIES", ["PER"], [[(4, 4), (4, 4)], [(3, 3), (1, 1)]])]
    for i in range(254):
        letters = "BI" if i % 2 else "BIES"
        kinds = rng.choice([["PER"], ["LOC", "PER"], ["A-B", "LOC", "PER"]])
        if letters == "BI" and rng.random() < 0.1:
            kinds = [""]
        count, outside, skill = 1 + len(kinds) * len(letters), rng.random(), rng.random() ** 0.3
        def draw():
            return 0 if rng.random() < outside * 0.7 else rng.randrange(count)
        sentences = []
        for _ in range(rng.randint(1, 5)):
            truth = [draw() for _ in range(rng.randint(1, 12))]
            sentences.append([(t, t if rng.random() < skill else draw()) for t in truth])
        cases.append(tag_case(letters, kinds, sentences))
    return cases


# --- SQuAD -------------------------------------------------------------------------------------------------


def normalize(answer):
    small = answer.lower()
    bare = "".join(c for c in small if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", bare).split())


def exact(right, given):
    return int(normalize(right) == normalize(given))


def f1(right, given, version):
    right, given = normalize(right).split(), normalize(given).split()
    if version == 2 and (not right or not given):
        return int(right == given)
    same = sum((Counter(right) & Counter(given)).values())
    if same == 0:
        return 0
    precision, recall = same / len(given), same / len(right)
    return 2 * precision * recall / (precision + recall)


def best_threshold(questions, scores):
    score = best = sum(not q["answers"] for q in questions)
    threshold = 0.0
    for i in sorted(range(len(questions)), key=lambda i: questions[i]["odds"]):
        q = questions[i]
        score += scores[i] if q["answers"] else (-1 if q["text"] else 0)
        if score > best:
            best, threshold = score, q["odds"]
    return best / len(questions), threshold


def squad_case(version, questions, threshold):
    em, f = [], []
    for q in questions:
        golds = [a for a in q["answers"] if version == 1 or normalize(a)]
        if version == 2 and not golds:
            golds = [""]
        em.append(max((exact(a, q["text"]) for a in golds), default=0))
        f.append(max((f1(a, q["text"], version) for a in golds), default=0))
    case = {"v": version, "questions": questions, "threshold": threshold, "exact": em, "f1": f}
    used_em, used_f = list(em), list(f)
    if version == 2:
        for i, q in enumerate(questions):
            if q["odds"] > threshold:
                used_em[i] = used_f[i] = float(not q["answers"])
    scores = {"exact_match": np.sum(used_em) / len(em), "f1": sum(used_f) / len(f)}
    if version == 2:
        has = [i for i, q in enumerate(questions) if q["answers"]]
        no = [i for i, q in enumerate(questions) if not q["answers"]]
        scores["has_answer_exact_match"] = sum(used_em[i] for i in has) / len(has) if has else None
        scores["has_answer_f1"] = sum(used_f[i] for i in has) / len(has) if has else None
        scores["no_answer_accuracy"] = sum(used_em[i] for i in no) / len(no) if no else None
        scores["best_exact_match"], case["best_exact_threshold"] = best_threshold(questions, em)
        scores["best_f1"], case["best_threshold"] = best_threshold(questions, f)
    case["scores"] = {k: None if v is None else float(v) for k, v in scores.items()}
    return case


WORDS = """the a an The AN "the" the. an, a- harbour Harbour, (old) 1,000 1000 3.5% U.S. it's its _the_ the_ a_b
ÅNGSTRÖM ångström İstanbul ΟΔΟΣ οδος ὈΔΥΣΣΕΎΣ Σ ΑΣ. ΑΣ'Α ß STRASSE Москва МОСКВА 東京 ½ ² Ⅷ ٣ a\u0300 à A\u0301n
–dash– “quote” don’t … ¿que? $5 #1 \u00a0 \u200b zero\u200bwidth tab\tbed line\nfeed file\x1cend \u2003 \u3000 e\u0301 café
CAFÉ naïve ﬁsh ǅ Ǆ ａ ＡＮ 𝐀 𐐀 a\u00ADn THE\u0301 the\u2019s x^2 `tick` ~ |""".split(" ")


def answer():
    return " ".join(rng.choice(WORDS) for _ in range(rng.choice([1, 1, 2, 3, 5])))


def near(text):
    words = text.split(" ")
    if rng.random() < 0.4:
        words = [w.swapcase() for w in words]
    if rng.random() < 0.3:
        words.insert(rng.randrange(len(words) + 1), rng.choice(WORDS))
    if rng.random() < 0.3 and words:
        words.pop(rng.randrange(len(words)))
    return " ".join(words)


def squad_cases():
    cases = []
    for i in range(90):
        version = 1 + i % 2
        questions = []
        for _ in range(rng.randint(1, 12)):
            golds = [answer() for _ in range(rng.randint(1, 3))]
            text = near(rng.choice(golds)) if rng.random() < 0.8 else answer()
            if version == 2 and rng.random() < 0.4:
                golds = []
            if rng.random() < 0.1:
                text = rng.choice(["", "the", "..."])
            questions.append({"answers": golds, "text": text, "odds": round(rng.gauss(0, 3), rng.choice([0, 3]))})
        cases.append(squad_case(version, questions, rng.choice([0.0, 0.0, round(rng.gauss(0, 2), 2)])))
    return cases


def ranges(test):
    """Code points for which it holds, as [first, last, …]."""
    out = []
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF or not test(chr(c)):
            continue
        if out and out[-1] == c - 1:
            out[-1] = c
        else:
            out += [c, c]
    return out


def unicode_table():
    word = re.compile(r"\w")
    return {
        "word": ranges(lambda c: word.match(c)),
        "space": ranges(str.isspace),
        "assigned": ranges(lambda c: unicodedata.category(c) != "Cn"),
    }


# --- spans of answers --------------------------------------------------------------------------------------


def span_case(windows, n_best, max_tokens, null_competes):
    """postprocess_qa_predictions with run_squad's token_is_max_context, in float32."""
    def around(w, token):
        first, count = w["before"], sum(w["context"])
        if not first <= token < first + count:
            return None
        return min(token - first, first + count - 1 - token) + 0.01 * count

    found, null = [], None
    for number_, w in enumerate(windows):
        start, end = np.array(w["start"], np.float32), np.array(w["end"], np.float32)
        none = start[0] + end[0]
        null = none if null is None or none < null else null
        first = w["context"].index(1) if 1 in w["context"] else len(start)
        best_starts = sorted(range(len(start)), key=lambda i: -start[i])[:n_best]
        best_ends = sorted(range(len(end)), key=lambda i: -end[i])[:n_best]
        for s in best_starts:
            token = w["before"] + s - first
            if w["context"][s]:
                all_around = [around(other, token) for other in windows]
                highest = max(x for x in all_around if x is not None)
                if all_around.index(highest) != number_:
                    continue
            for e in best_ends:
                if not (w["context"][s] and w["context"][e]) or e < s or e - s + 1 > max_tokens:
                    continue
                found.append((float(start[s] + end[e]), number_, s, e))
    found.sort(key=lambda x: -x[0])
    out = {"windows": windows, "n_best": n_best, "max_tokens": max_tokens, "null_competes": null_competes,
           "null_score": float(null), "found": None}
    if found:
        all_scores = sorted([x[0] for x in found] + ([float(null)] if null_competes else []), reverse=True)
        exp = np.exp(np.array(all_scores[:n_best]) - all_scores[0])
        out["found"] = {"score": found[0][0], "window": found[0][1], "start": found[0][2], "end": found[0][3],
                        "probability": float(np.exp(found[0][0] - all_scores[0]) / exp.sum())}
    return out


def span_cases():
    cases = []
    for _ in range(60):
        question, room = rng.randint(1, 4), rng.randint(3, 12)
        total, shared = rng.randint(0, 30), rng.randrange(0, room)
        windows, before = [], 0
        while True:
            count = min(room, total - before)
            context = [0] * (question + 2) + [1] * count + [0]
            windows.append({"before": before, "context": context,
                            "start": [round(rng.gauss(0, 3), 2) for _ in context],
                            "end": [round(rng.gauss(0, 3), 2) for _ in context]})
            if before + count >= total:
                break
            before += count - shared
        cases.append(span_case(windows, rng.choice([1, 3, 20]), rng.choice([1, 2, 30]), rng.random() < 0.5))
    return cases


# --- intervals ---------------------------------------------------------------------------------------------


def statistics():
    percentiles = []
    for _ in range(40):
        values = [round(rng.gauss(0, 1), 3) for _ in range(rng.randint(1, 30))]
        share = rng.choice([0.0, 0.025, 0.5, 0.975, 1.0, rng.random()])
        percentiles.append({"values": values, "share": share, "expected": float(np.percentile(values, 100 * share))})
    pairs = [(0, 0), (1, 0), (0, 1), (5, 5), (40, 10), (700, 640), (3000, 2800), (1, 2000)]
    pairs += [(rng.randint(0, 60), rng.randint(0, 60)) for _ in range(60)]
    mcnemar = [{"a": a, "b": b, "p": float(stats.binomtest(a, a + b, 0.5).pvalue) if a + b else 1.0}
               for a, b in pairs]
    return {"percentiles": percentiles, "mcnemar": mcnemar}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in [("classes", class_cases()), ("label_sets", label_set_cases()),
                          ("numbers", number_cases()), ("tags", tag_cases()), ("squad", squad_cases()),
                          ("unicode", unicode_table()), ("spans", span_cases()), ("statistics", statistics())]:
        text = json.dumps(content, separators=(",", ":"))
        (folder / f"{name}.json").write_text(text + "\n")
        print(f"{name}: {len(content)} cases, {len(text)} bytes")


if __name__ == "__main__":
    main()
