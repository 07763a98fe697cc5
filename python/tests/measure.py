"""What Python costs: the time of `import bertie`, and what a call takes besides the model's work. Prints figures.

    python python/tests/measure.py

A model of a few numbers does nearly nothing, so that a call on it is nearly all overhead: tokenizing, the forward pass's
fixed costs, the conversions from and to Python. The first two are the library's own.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden"


def import_times(runs=15):
    """Milliseconds that `import bertie` takes in fresh interpreters, by the clock and of the processor."""
    code = "import time; w, c = time.perf_counter(), time.process_time(); import bertie; " + (
        "print((time.perf_counter() - w) * 1e3, (time.process_time() - c) * 1e3); import sys; "
        "assert not {'numpy', 'torch', 'pandas', 'sklearn'} & set(sys.modules)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(runs)
    ]
    return (sorted(column) for column in zip(*[[float(x) for x in r.stdout.split()] for r in runs]))


def microseconds(call, runs=2000, repeats=7):
    """Of a call, by the clock and of the processor: medians over some rounds. On a machine that does other things
    too, the second is the one to look at."""
    for _ in range(200):
        call()
    rounds = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(runs):
            call()
        rounds.append(((time.perf_counter() - wall) / runs * 1e6, (time.process_time() - cpu) / runs * 1e6))
    return [statistics.median(column) for column in zip(*rounds)]


def main():
    wall, cpu = import_times()
    print(
        f"import bertie: {statistics.median(wall):.1f} ms (best {wall[0]:.1f}), {statistics.median(cpu):.1f} ms of CPU"
    )

    import numpy

    import bertie

    small = bertie.load(GOLDEN / "tasks" / "sentence-similarity-bert", threads=1)
    inner = small._model
    model = bertie.AutoModel.from_pretrained(GOLDEN / "families" / "bert-base-0", threads=1)
    ids = numpy.array([[5, 6, 7]])
    tokenizer = small.tokenizer
    q = numpy.ones((1, 4), "float32")
    calls = {
        "tokenizer.encode('a')": lambda: tokenizer.encode("a"),
        "model.embed('a')": lambda: small.embed("a"),
        "  of it _bertie's embed_one": lambda: inner.embed_one("a", None, "", False),
        "model.embed(['a'])": lambda: small.embed(["a"]),
        "AutoModel(ids)": lambda: model(ids),
        "  of it _bertie's forward": lambda: model._network.forward(ids),
        "bertie.attention(q, q, q), 1 × 4": lambda: bertie.attention(q, q, q, threads=1),
        "model.dimension": lambda: small.dimension,
    }
    for name, call in calls.items():
        wall, cpu = microseconds(call)
        print(f"{name:35} {wall:8.1f} µs {cpu:8.1f} µs of CPU")


if __name__ == "__main__":
    main()
