#!/usr/bin/env python3
"""Times Bertie's encoder and its peers on real models and real texts, turn by turn. See README.md beside it.

    bench/peers/encode.py --models DIR --data DIR            # all of it: about an hour, most of it conversions
    bench/peers/encode.py --models DIR --data DIR --prepare  # install, convert, check accuracy; time nothing
    bench/peers/encode.py --models DIR --data DIR --models-only minilm --shapes 1x16,8x128 --only Bertie,OpenVINO
    bench/peers/encode.py --table FILE...                    # the tables of what --json wrote, parts put together
"""

import argparse
import atexit
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MODELS = {"bert-base": "bert-base-uncased", "minilm": "all-MiniLM-L6-v2"}
PEERS = ["Bertie", "ONNX Runtime", "OpenVINO", "CTranslate2", "PyTorch"]
SHAPES = ["1x16", "1x128", "8x128", "1x512", "sst2x64", "squadx64"]
# A mixed batch that peers pad as it comes: "sst2x64-padded", "squadx64-padded", when asked for with --shapes.
MEAN_COSINE, WORST_COSINE = 0.995, 0.97  # of the last hidden states of a token with fp32's; less is not ranked
# ONNX Runtime has none, and OpenVINO's covers a part: see without_avx512 in encode_peers.py.
AVX2_SWITCHES = {"BERTIE_INSTRUCTIONS": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2",
                 "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2"}


def tell(text):
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def enter_environment(venv):
    """Goes on in a virtual environment that has the peers: made, and filled, where it is not there."""
    python = venv / "bin/python"
    if pathlib.Path(sys.prefix).resolve() == venv.resolve():
        return
    if not python.exists():
        tell(f"making {venv}")
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    wanted, stamp = HERE / "requirements.txt", venv / "installed-requirements.txt"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        lines = [line for line in wanted.read_text().splitlines() if line and not line.startswith("#")]
        for line in lines:  # one by one: where one cannot be had, the others can be compared
            tell(f"installing {line}")
            if subprocess.run([python, "-m", "pip", "install", "-q", line], stdout=sys.stderr).returncode:
                tell(f"{line} cannot be installed: left out")
        stamp.write_text(wanted.read_text())
    os.execv(python, [str(python), *sys.argv])


class Texts:
    """Ids of real texts: SST-2's sentences for short ones, SQuAD's contexts for long ones."""

    def __init__(self, data, vocab):
        from tokenizers import BertWordPieceTokenizer
        self.tokenizer = BertWordPieceTokenizer(str(vocab), lowercase=True)
        read = lambda part: [line.split("\t")[0] for line in (data / f"glue/SST-2/{part}.tsv").open()][1:]
        articles = json.loads((data / "squad/dev-v1.1.json").read_text())["data"]
        contexts = [p["context"] for article in articles for p in article["paragraphs"]]
        sentences, others = read("dev"), read("train")
        for texts in [contexts, sentences, others]:
            random.Random(1).shuffle(texts)
        self.sentences, self.contexts = self.ids(sentences[:64]), self.ids(contexts[:64])
        self.long = self.ids([" ".join(contexts[64 + 10 * i:74 + 10 * i]) for i in range(8)])
        self.calibration = self.ids(others[:32] + contexts[200:216])  # for those that want texts; none is measured

    def ids(self, texts):
        return [e.ids[:511] + e.ids[-1:] if len(e.ids) > 512 else e.ids for e in self.tokenizer.encode_batch(texts)]

    def batch(self, shape):
        shape = shape.removesuffix("-padded")
        if shape in ("sst2x64", "squadx64"):
            return self.sentences if shape == "sst2x64" else self.contexts
        count, length = map(int, shape.split("x"))
        return [text[:length - 1] + text[-1:] for text in self.long[:count]]

    def checked(self):
        """For accuracy: whole texts, short and long."""
        return self.sentences + self.contexts[:8]


class Process:
    """A peer in a process of its own, which stands still unless it is its turn."""

    def __init__(self, options, model, peer, calibration):
        work = options.work / model
        work.mkdir(parents=True, exist_ok=True)
        environment = os.environ | (AVX2_SWITCHES if options.avx2 else {})
        self.log = (work / f"{peer.lower().replace(' ', '-')}.log").open("w")
        self.process = subprocess.Popen([sys.executable, HERE / "encode_peers.py"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        atexit.register(self.end)
        self.ask(peer=peer, folder=str(options.models / MODELS[model]), work=str(work), threads=options.threads,
                 avx2=options.avx2, build=str(options.build), calibration=calibration)

    def ask(self, **request):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"ended by itself: see {self.log.name}")
        self.process.send_signal(signal.SIGSTOP)
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Notes:
    """What need not be found out again: which way is the quickest for a batch, and how exact a variant is."""

    def __init__(self, file):
        self.file = file
        self.known = json.loads(file.read_text()) if file.exists() else {}

    def get(self, key, find):
        key = " | ".join(key)
        if key not in self.known:
            self.known[key] = find()
            self.file.write_text(json.dumps(self.known, indent=1))
        return self.known[key]


def cosines(states, expected):
    """Mean and worst over tokens."""
    import numpy as np
    product = (states * expected).sum(1) / np.linalg.norm(states, axis=1) / np.linalg.norm(expected, axis=1)
    return [float(product.mean()), float(np.nan_to_num(product, nan=-1).min())]


class Comparison:
    """All peers on one model."""

    def __init__(self, options, model):
        sys.path.insert(0, str(HERE))
        from encode_peers import PEERS as classes
        self.options, self.model = options, model
        self.isa = "avx2" if options.avx2 else "native"
        self.texts = Texts(options.data, options.models / MODELS[model] / "vocab.txt")
        self.notes = Notes(options.work / model / "notes.json")
        self.running = {}  # (peer, variant): process
        self.exact, self.versions = {}, {}
        for peer in PEERS:
            variants = [v for v in classes[peer].variants if {peer, f"{peer} {v}"} & set(options.only)]
            if variants:
                self.start(peer, variants)
        tell(f"{model}: loaded")
        for key in list(self.running):
            self.attempt(key, lambda: self.exact.update({key: self.accuracy(*key)}))

    def attempt(self, key, action):
        """What fails is told and left out."""
        try:
            action()
        except Exception as error:
            tell(f"{self.model}: {' '.join(key)}: left out: {error}")
            self.running.pop(key, None)

    def start(self, peer, variants):
        def begin():
            process = Process(self.options, self.model, peer, self.texts.calibration)
            self.versions[peer] = process.ask(do="version")
            for variant in variants:
                def open_variant():
                    process.ask(do="open", variant=variant)
                    self.running[peer, variant] = process
                self.attempt((peer, variant), open_variant)
        self.attempt((peer,), begin)

    def states(self, peer, variant):
        import numpy as np
        file = self.options.work / self.model / "states.npy"
        self.running[peer, variant].ask(do="hidden", variant=variant, texts=self.texts.checked(), to=str(file))
        return np.load(file)

    def expected(self):
        """PyTorch's fp32, kept."""
        import numpy as np
        file = self.options.work / self.model / "expected.npy"
        if not file.exists():
            by = ("PyTorch", "fp32") if ("PyTorch", "fp32") in self.running else ("Bertie", "fp32")
            np.save(file, self.states(*by))
        return np.load(file)

    def accuracy(self, peer, variant):
        key = ("exact", self.isa, peer, self.versions[peer], variant)
        return self.notes.get(key, lambda: cosines(self.states(peer, variant), self.expected()))

    def bind(self, shape):
        texts = self.texts.batch(shape)
        for key in list(self.running):
            def ready():
                name = ("way", self.isa, *key, shape)
                ask = lambda way: self.running[key].ask(do="bind", variant=key[1], shape=shape, texts=texts, way=way)
                known = self.notes.known.get(" | ".join(name))
                if known:
                    ask(known)
                else:
                    self.notes.get(name, lambda: ask(None))
            self.attempt(key, ready)

    def time(self, shape):
        """Rounds in which each has its turn, every round another one first."""
        self.bind(shape)
        taken = {key: [] for key in self.running}
        for turn in range(0 if self.options.prepare else self.options.rounds):
            order = list(self.running)
            for key in order[turn % len(order):] + order[:turn % len(order)]:
                self.attempt(key, lambda: taken[key].extend(self.running[key].ask(
                    do="run", variant=key[1], shape=shape, seconds=self.options.seconds)))
        for process in set(self.running.values()):
            process.ask(do="free", shape=shape)
        return [self.result(shape, key, taken[key]) for key in self.running if taken[key]]

    def result(self, shape, key, taken):
        import encode_peers
        peer, variant = key
        mean, worst = self.exact[key]
        texts, ordered = self.texts.batch(shape), sorted(taken)
        form, batching = self.notes.known[" | ".join(("way", self.isa, *key, shape))]
        return {"model": self.model, "instructions": self.isa, "shape": shape, "tokens": sum(map(len, texts)),
                "threads": self.options.threads, "peer": peer, "version": self.versions[peer], "variant": variant,
                "precision": encode_peers.PEERS[peer].variants[variant], "mean_cosine": mean, "worst_cosine": worst,
                "ranked": mean >= MEAN_COSINE and worst >= WORST_COSINE, "form": form, "batching": batching,
                "runs": len(ordered), "best": ordered[0], "p50": statistics.median(ordered),
                "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}

    def end(self):
        for process in set(self.running.values()):
            process.end()


def milliseconds(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def below_one(cosine):
    """Cosines are cut, not rounded: 0.99999 is not 1."""
    return "1" if cosine > 0.9999995 else f"{int(cosine * 1e4) / 1e4:.4f}"


def best_peer(rows, precision, shape, of):
    """The quickest that is exact enough."""
    ranked = [r for r in rows if r["peer"] != "Bertie" and r["ranked"]
              and r["precision"] == precision and r["shape"] == shape]
    return min(ranked, key=lambda r: r[of], default=None)


def ahead(rows, precision, shape):
    """The best peer's time over Bertie's, of the medians and of the best, and who it is."""
    mine = [r for r in rows if r["peer"] == "Bertie" and r["precision"] == precision and r["shape"] == shape]
    ratios = []
    for of in ["p50", "best"]:
        peer = best_peer(rows, precision, shape, of)
        if not mine or not peer or not mine[0]["ranked"]:
            return "–"
        ratios.append(peer[of] / mine[0][of])
    return f"**{ratios[0]:.2f}** ({ratios[1]:.2f}) {best_peer(rows, precision, shape, 'p50')['peer']}"


def print_table(rows):
    """One table: a model on one set of instructions."""
    shapes = [s for s in SHAPES if any(r["shape"] == s for r in rows)]
    shapes += sorted({r["shape"] for r in rows} - set(shapes))
    first = rows[0]
    print(f"\n{first['model']}, instructions: {first['instructions']}, {first['threads']} threads; "
          "milliseconds: p50 (best; p99)\n")
    print(f"| | cosine: mean, worst | {' | '.join(shapes)} |\n|---|---|{'---|' * len(shapes)}")
    for precision in ["fp32", "int8"]:
        for name in dict.fromkeys((r["peer"], r["version"], r["variant"]) for r in rows if r["precision"] == precision):
            mine = {r["shape"]: r for r in rows if (r["peer"], r["version"], r["variant"]) == name}
            one = next(iter(mine.values()))
            cells = [f"{milliseconds(r['p50'])} ({milliseconds(r['best'])}; {milliseconds(r['p99'])})" if r else "–"
                     for r in map(mine.get, shapes)]
            if not one["ranked"]:
                cells = [f"*{cell}*" for cell in cells]
            print(f"| {name[0]} {name[1]} {name[2]}{'' if one['ranked'] else ', not ranked'} "
                  f"| {below_one(one['mean_cosine'])}, {below_one(one['worst_cosine'])} | {' | '.join(cells)} |")
        if any(r["precision"] == precision for r in rows):
            print(f"| **Bertie ahead, {precision}** | | "
                  f"{' | '.join(ahead(rows, precision, shape) for shape in shapes)} |")


def print_tables(rows):
    for key in dict.fromkeys((r["model"], r["instructions"]) for r in rows):
        print_table([r for r in rows if (r["model"], r["instructions"]) == key])


def compare(options):
    rows = []
    for model in options.models_only:
        comparison = Comparison(options, model)
        for shape in options.shapes:
            results = comparison.time(shape)
            rows += results
            for result in results:
                if options.json:
                    print(json.dumps(result), flush=True)
            tell(f"{model} {shape}: done")
        comparison.end()
    if not options.json and rows:
        print_tables(rows)


def startup(options):
    """From nothing to MiniLM's first states: a session and its first run, against `bertie bench load`."""
    import encode_startup
    encode_startup.compare(options, options.models / MODELS["minilm"], options.work / "minilm")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda known: lambda text: [w for w in text.split(",") if w in known or sys.exit(f"{w}: not among {known}")]
    folder = lambda text: pathlib.Path(text).resolve()
    parser.add_argument("--models", type=folder, help=f"the folder that has {' and '.join(MODELS.values())}")
    parser.add_argument("--data", type=folder, help="the folder that has glue/SST-2 and squad/dev-v1.1.json")
    parser.add_argument("--venv", type=folder, default=ROOT / "build/peers/venv", help="made if need be (default: %(default)s)")
    parser.add_argument("--work", type=folder, default=ROOT / "build/peers", help="converted models, 4 GB (default: %(default)s)")
    parser.add_argument("--build", type=folder, default=ROOT / "build", help="has bertie and libbertie.so (default: %(default)s)")
    parser.add_argument("--models-only", type=words(list(MODELS)), default=list(MODELS), metavar="MODEL,…")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=SHAPES, help="BATCHxLENGTH, sst2x64, squadx64; sst2x64-padded: the peers pad it as it comes")
    parser.add_argument("--only", type=lambda text: text.split(","), default=PEERS, metavar="PEER,…",
                        help=f"{', '.join(PEERS)}, or a variant of one: PyTorch fp32")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn, at least one run (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--avx2", action="store_true", help="AVX-512 masked off for all")
    parser.add_argument("--prepare", action="store_true", help="do all but the timing")
    parser.add_argument("--startup", action="store_true", help="time load to first states of MiniLM instead")
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of tables")
    parser.add_argument("--table", type=pathlib.Path, nargs="+", metavar="FILE", help="print tables of lines of JSON; time nothing")
    options = parser.parse_args()
    if options.table:
        return print_tables([json.loads(line) for file in options.table for line in file.open()])
    if not options.models or not (options.data or options.startup):
        parser.error("--models and --data are needed")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that processes that stand still are ended
    enter_environment(options.venv)
    (startup if options.startup else compare)(options)


if __name__ == "__main__":
    main()
