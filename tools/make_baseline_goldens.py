#!/usr/bin/env python3
"""Writes tests/golden/baselines/linear.json: what scikit-learn's TfidfVectorizer, LogisticRegression and Ridge
make of a few texts.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install -r tools/requirements-metrics.txt
    /tmp/venv/bin/python tools/make_baseline_goldens.py tests/golden/baselines
"""
import json
import pathlib
import random
import sys

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

rng = random.Random(7)
WORDS = ("the a film book was very good bad fine poor I we don't ΟΔΥΣΣΕΥΣ straße STRASSE café naïve x2 _under "
         "42 3.14 日本語 İstanbul 🙂 e-mail good, (bad) Good BAD").split()
HARD = ["", "a", "🙂 🙂", "  ", "I", "unseen words only", "good good good", "ΣΑΣ ΣΑΣ. x", "a_b a-b a'b"]


def text():
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 9)))


def rows_of(matrix):
    """Columns and values of each row."""
    out = []
    for i in range(matrix.shape[0]):
        row = matrix.getrow(i)
        out.append(sorted([int(c), float(v)] for c, v in zip(row.indices, row.data)))
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    train, dev = [text() for _ in range(60)], [text() for _ in range(12)] + HARD
    vectorizer = TfidfVectorizer()
    x, x_dev = vectorizer.fit_transform(train), vectorizer.transform(dev)
    good = [int(("good" in t.lower()) != (rng.random() < 0.2)) for t in train]
    three = [rng.randrange(3) if rng.random() < 0.3 else len(t) % 3 for t in train]
    values = [round(t.lower().count("good") - t.lower().count("bad") + rng.gauss(0, 0.3), 3) for t in train]
    exact = {"tol": 1e-12, "max_iter": 10000}
    two = LogisticRegression(**exact).fit(x, good)
    many = LogisticRegression(**exact).fit(x, three)
    ridge = Ridge(tol=1e-12, solver="sparse_cg", max_iter=10000).fit(x, values)
    content = {
        "train": train, "dev": dev, "words": list(vectorizer.get_feature_names_out()),
        "idf": [float(v) for v in vectorizer.idf_], "rows": rows_of(x), "dev_rows": rows_of(x_dev),
        "two": {"y": good, "weights": two.coef_.tolist(), "bias": two.intercept_.tolist(),
                "probabilities": two.predict_proba(x_dev).tolist()},
        "three": {"y": three, "weights": many.coef_.tolist(), "bias": many.intercept_.tolist(),
                  "probabilities": many.predict_proba(x_dev).tolist()},
        "number": {"y": values, "weights": [ridge.coef_.tolist()], "bias": [float(ridge.intercept_)],
                   "predictions": ridge.predict(x_dev).tolist()},
    }
    (folder / "linear.json").write_text(json.dumps(content, ensure_ascii=True, separators=(",", ":")) + "\n")
    print(f"linear: {len(train)} + {len(dev)} texts, {len(vectorizer.vocabulary_)} words")


if __name__ == "__main__":
    main()
