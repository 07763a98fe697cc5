#!/usr/bin/env python3
"""Compares Bertie's tokenizer with Hugging Face's, text by text: ids, offsets, types, words. Any difference is
printed and makes the exit code 1.

    pip install -r tools/requirements-tokenizers.txt
    cmake --build build --target tokenize_driver
    python tools/compare_tokenizers.py build/tokenize_driver points random added windows
    python tools/compare_tokenizers.py build/tokenize_driver random multilingual --vocab FILE...
    python tools/compare_tokenizers.py build/tokenize_driver corpus --vocab FILE... --text FILE...
    python tools/compare_tokenizers.py build/tokenize_driver steps --vocab DIR_OR_JSON... --text FILE...
    python tools/compare_tokenizers.py build/tokenize_driver bpe

--vocab takes vocab.txt files, tokenizer.json files, and folders with vocab.json and merges.txt.
"""
import argparse
import itertools
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
import numpy as np
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import tokenizer_reference as ref

BATCH = 2000
differences = 0


class Driver:
    """Bertie's side: texts are written in the background, encodings read one by one."""

    def __init__(self, program, path, *options, texts):
        self.input = tempfile.TemporaryFile()
        for t in texts:
            b = t.encode() if isinstance(t, str) else t
            self.input.write(struct.pack("<I", len(b)) + b)
        self.input.seek(0)
        self.process = subprocess.Popen([program, str(path), "--records", *map(str, options)], stdin=self.input,
                                        stdout=subprocess.PIPE, bufsize=1 << 20)

    def words(self, n):
        return np.frombuffer(self.process.stdout.read(4 * n), dtype=np.uint32)

    def next(self):
        out = []
        for _ in range(int(self.words(1)[0])):
            n = int(self.words(1)[0])
            w = self.words(6 * n)
            out.append({"ids": w[:n], "types": w[n:2 * n], "words": w[2 * n:3 * n].view(np.int32),
                        "sequences": w[3 * n:4 * n].view(np.int32), "offsets": w[4 * n:]})
        return out


def same(ours, theirs, text, what, sequences=True):
    global differences
    fields = {"ids": theirs.ids, "types": theirs.type_ids, "offsets": [x for o in theirs.offsets for x in o],
              "words": [-1 if w is None else w for w in theirs.word_ids]}
    if sequences:
        fields["sequences"] = [-1 if s is None else s for s in theirs.sequence_ids]
    for name, want in fields.items():
        if not np.array_equal(ours[name], np.array(want, dtype=ours[name].dtype)):
            differences += 1
            if differences <= 20:
                print(f"DIFFERENT {what}: {name} of {text!r}\n  bertie {ours[name].tolist()[:60]}\n  theirs {want[:60]}")
            return


def same_ids(ours, theirs, text, what):
    """Ids and offsets only, quicker."""
    global differences
    if ours["ids"].tolist() != theirs.ids or ours["offsets"].tolist() != list(itertools.chain.from_iterable(theirs.offsets)):
        differences += 1
        if differences <= 20:
            print(f"DIFFERENT {what}: {text!r}\n  bertie {ours}\n  theirs {theirs.ids} {theirs.offsets}")


def compare(program, path, options, tokenizer, texts, what, same=same):
    start, before = time.time(), differences
    driver = Driver(program, path, *options, texts=texts)
    for i in range(0, len(texts), BATCH):
        batch = texts[i:i + BATCH]
        decoded = [t if isinstance(t, str) else t.decode("utf-8", "replace") for t in batch]
        for text, theirs in zip(batch, tokenizer.encode_batch(decoded)):
            same(driver.next()[0], theirs, text, what)
    size = sum(len(t.encode() if isinstance(t, str) else t) for t in texts)
    print(f"{what}: {len(texts)} texts, {size / 1e6:.1f} MB, {differences - before} different, "
          f"{time.time() - start:.0f} s", flush=True)


SETTINGS = [(1, None), (0, None), (1, 0), (0, 1)]  # lowercase, strip_accents


def driver_options(lower, strip, cjk=1):
    return ["--lower", lower, "--cjk", cjk] + ([] if strip is None else ["--strip", strip])


def points(program, args):
    """Every code point, alone, between letters, and among marks."""
    vocab = ref.every_point_vocab()
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write("\n".join(vocab) + "\n")
        f.flush()
        every = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
        for lower, strip in SETTINGS:
            t = ref.reference(f.name, bool(lower), None if strip is None else bool(strip))
            what = f"points lower={lower} strip={strip}"
            options = driver_options(lower, strip)
            compare(program, f.name, options, t, every, what + " alone")
            compare(program, f.name, options, t, [f"a{c}b" for c in every], what + " a?b")
            compare(program, f.name, options, t, [f"\u0301{c}\u0323\u0334A" for c in every], what + " marks")


def damaged(r, n):
    """Bytes that are almost UTF-8."""
    out = []
    for i in range(n):
        b = bytearray(ref.generated_text(10**9 + i).encode())
        for _ in range(1 + r.randrange(6)):
            b[r.randrange(len(b))] = r.randrange(256)
        out.append(bytes(b))
    return out


def random_texts(program, args):
    texts = [ref.generated_text(i) for i in range(args.count)]
    r = random.Random(7)
    bad = damaged(r, 5000)
    for path in args.vocab:
        t, options = ref.open_reference(path)
        compare(program, path, options, t, texts, f"random, {path}", same_ids)
        compare(program, path, options, t, bad, f"bad bytes, {path}")
        t.encode_special_tokens = True
        compare(program, path, options + ["--plain"], t, texts[:20000], f"special tokens as text, {path}")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write("\n".join(ref.every_point_vocab()) + "\n")
        f.flush()
        for lower, strip in SETTINGS:
            for cjk in (1, 0):
                t = ref.reference(f.name, bool(lower), None if strip is None else bool(strip), bool(cjk))
                compare(program, f.name, driver_options(lower, strip, cjk), t, texts[:args.count // 4], f"random, every point, lower={lower} strip={strip} cjk={cjk}")
                compare(program, f.name, driver_options(lower, strip, cjk), t, bad, "bad bytes")


def multilingual_lines(vocab, count):
    """Lines of words of one script each, made of a multilingual vocabulary's own pieces."""
    r, scripts = random.Random(1), {}
    for token in open(vocab, encoding="utf-8").read().split("\n"):
        piece = token.removeprefix("##")
        name = unicodedata.name(piece[0], "").split(" ")[0] if piece else ""
        if name and not token.startswith("["):
            scripts.setdefault(name, ([], []))[token.startswith("##")].append(piece)
    scripts = [pieces for pieces in scripts.values() if len(pieces[0]) > 100]
    weights = [len(begin) ** 0.5 for begin, _ in scripts]
    lines = []
    while len(lines) < count:
        begin, go_on = r.choices(scripts, weights)[0]
        words = []
        for _ in range(r.randrange(5, 60)):
            word = r.choice(begin)
            while go_on and r.random() < 0.25:
                word += r.choice(go_on)
            words.append(r.choice([word, word, word.upper(), word.capitalize(), unicodedata.normalize("NFD", word)]))
        lines.append(r.choice([" ", " ", " ", "", "\u3000"]).join(words) + r.choice([".", " !", "\u3002", "\u061f", ""]))
    return lines


def multilingual(program, args):
    lines = multilingual_lines(next(v for v in args.vocab if "multilingual" in v), 100_000)
    for path in args.vocab:
        t, options = ref.open_reference(path)
        compare(program, path, options, t, lines, f"multilingual, {path}", same_ids)


def corpus(program, args):
    for path in args.vocab:
        t, options = ref.open_reference(path)
        for file in args.text:
            with open(file, encoding="utf-8", newline="\n") as f:
                compare(program, path, options, t, f.read().split("\n"), f"{path}, {file}", same_ids)


ADDED = [
    [AddedToken("<x>", normalized=False), AddedToken("<xy>", normalized=False), AddedToken("new york", normalized=False)],
    [AddedToken("<x>", lstrip=True, normalized=False), AddedToken("<y>", rstrip=True, normalized=False),
     AddedToken("<z>", lstrip=True, rstrip=True, normalized=False, special=True), AddedToken("[MASK]", lstrip=True, special=True, normalized=False)],
    [AddedToken("low", single_word=True, normalized=False), AddedToken("lower", single_word=True, normalized=False),
     AddedToken("a\u0301", normalized=False)],
    [AddedToken("Néw", normalized=True), AddedToken("Low", single_word=True, normalized=True), AddedToken("中", normalized=True),
     AddedToken("yORK Low", normalized=True, lstrip=True)],
    [AddedToken("SPECIAL", normalized=True, special=True, rstrip=True), AddedToken("x y", normalized=True, lstrip=True, rstrip=True),
     AddedToken("##s", normalized=True), AddedToken(" x", normalized=False), AddedToken("low ", normalized=False, rstrip=True)],
]
PARTS = ["<x>", "<xy>", "<y>", "<z>", "new york", "New York", "NÉW", "néw", "Low", "low", "lower", "a\u0301", "á", "中", "文", "yOrk low",
         "special", "SPECIAL", "x y", "X Y", "##s", "[MASK]", "[SEP]", "[mask]", " ", "  ", "\t", "\u3000", "\u00a0", "\n", "a", "é", "_", ".",
         "-", "0", "\u0301", "\U0001D165", "\u200d", "\x00", "\x0b", "x", "ſ", "İ", "ǅ"]


def added(program, args):
    """tokenizer.json with every kind of added token, under every normalizer."""
    r = random.Random(11)
    texts = ["".join(r.choice(PARTS) for _ in range(r.randrange(1, 12))) for _ in range(20000)]
    chars = [chr(c) for c in list(range(0x20, 0x250)) + list(range(0x300, 0x500)) + [0x4E2D, 0x6587, 0xAC00, 0x1D165]]
    pieces = ref.SPECIALS + chars + ["##" + c for c in chars] + ["new", "york", "low", "##er"]
    vocab = {t: i for i, t in enumerate(pieces)}
    for tokens in ADDED:
        for lower, strip, cjk, clean in [(1, None, 1, 1), (0, None, 1, 1), (1, False, 0, 1), (0, True, 1, 0), (1, None, 0, 0)]:
            t = ref.reference(vocab, bool(lower), strip, bool(cjk), bool(clean))
            t.add_tokens(tokens)
            with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
                f.write(t.to_str())
                f.flush()
                t = Tokenizer.from_str(t.to_str())
                what = f"added {[x.content for x in tokens]} lower={lower} strip={strip} cjk={cjk} clean={clean}"
                compare(program, f.name, [], t, texts, what)
                t.encode_special_tokens = True
                compare(program, f.name, ["--plain"], t, texts[:5000], what + ", as text")


STRATEGIES = ["longest_first", "only_first", "only_second"]


def windows(program, args):
    """Truncation and overflow windows, of texts and of pairs."""
    global differences
    r, before, count = random.Random(5), differences, 0
    chars = [chr(c) for c in range(0x21, 0x180)]
    vocab = {t: i for i, t in enumerate(ref.SPECIALS + chars + ["##" + c for c in chars])}
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write("\n".join(vocab) + "\n")
        f.flush()
        t = ref.reference(vocab)
        text = lambda: "".join(r.choice("abc dé.É [") for _ in range(r.choice([0, 1, 3, 8, 20, 60, 150])))
        for _ in range(1500):
            pair, add, strategy = r.random() < 0.6, r.random() < 0.8, r.randrange(3)
            specials = (3 if pair else 2) if add else 0
            limit = specials + r.randrange(1, 40)
            stride = r.randrange(0, max(1, min(12, (limit - specials) // 2)))
            batch = [text() for _ in range(8)]
            t.enable_truncation(limit, stride=stride, strategy=STRATEGIES[strategy])
            inputs = list(zip(batch[::2], batch[1::2])) if pair else batch
            for item in inputs:
                flags = ["--max", limit, "--stride", stride, "--truncate", strategy] + ["--pair"] * pair + ["--no-special"] * (not add)
                try:
                    theirs = t.encode(*item, add_special_tokens=add) if pair else t.encode(item, add_special_tokens=add)
                except BaseException as e:  # the reference panics where a stride does not fit, and refuses what cannot be cut
                    theirs = None
                texts = list(item) if pair else [item]
                for extra in (["--windows"], []):
                    d = Driver(program, f.name, "--lower", 1, *flags, *extra, texts=texts)
                    d.process.wait() if theirs is None and extra else None
                    if theirs is None:
                        if extra and d.process.returncode == 0:
                            differences += 1
                            print("DIFFERENT: only the reference refuses", item, flags)
                        continue
                    try:
                        ours = d.next()
                    except IndexError:
                        if d.process.wait() != 1:  # it says so when it refuses a text; else it died
                            raise SystemExit(f"the driver ended with {d.process.returncode}: {item} {flags} {extra}")
                        # Bertie refuses where there is no room at all for one side; the reference then gives
                        # windows that are longer than was asked.
                        if not any(len(w.ids) > limit for w in theirs.overflowing):
                            differences += 1
                            print("DIFFERENT: only Bertie refuses", item, flags, extra)
                        continue
                    want = [theirs] + theirs.overflowing if extra else [theirs]
                    count += 1
                    if len(ours) != len(want):
                        differences += 1
                        print("DIFFERENT number of windows", item, flags, len(ours), len(want))
                        continue
                    for o, w in zip(ours, want):
                        same(o, w, item, f"windows {flags}", sequences=w is theirs)
        t.no_truncation()
    print(f"windows: {count} calls, {differences - before} different", flush=True)


def steps(program, args):
    """Tokenizers of any kind, given as tokenizer.json or as a directory with a SentencePiece model (which then needs
    transformers): every code point in context, random and given texts, decoding aside."""
    every = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    texts = {"random": [ref.generated_text(i) for i in range(args.count)], "points": every,
             "points in context": [f"a{c} {c}\u0301b{c}" for c in every]}
    for path in args.text:
        texts[os.path.basename(path)] = open(path, encoding="utf-8").read().split("\n")
    for path in args.vocab:
        if os.path.isdir(path) and not os.path.exists(os.path.join(path, "tokenizer.json")):
            from transformers import AutoTokenizer
            tokenizer = AutoTokenizer.from_pretrained(path).backend_tokenizer
        else:
            tokenizer = Tokenizer.from_file(os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path)
        for name, list_of_texts in texts.items():
            compare(program, path, [], tokenizer, list_of_texts, f"{path} {name}")


def bpe_tokenizers(size=1500):
    """(what, tokenizer) for small BPE models under every setting and pre-tokenizer; trained on generated text."""
    texts = [ref.generated_text(i) for i in range(300)] + [open(__file__).read()] * 3
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    byte_level, alphabet = pre_tokenizers.ByteLevel, pre_tokenizers.ByteLevel.alphabet()

    def train(model, pre, **options):
        t = Tokenizer(model)
        t.pre_tokenizer = pre
        t.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=names, show_progress=False, **options))
        return t

    def finish(t, prefix, trim, mask_strips):
        t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=trim, add_prefix_space=prefix)
        t.decoder = decoders.ByteLevel()
        t.add_special_tokens([AddedToken("<mask>", lstrip=mask_strips, rstrip=prefix, normalized=False)])
        return t

    for prefix in (False, True):
        for regex in (True, False):
            for trim in (True, False):
                t = train(models.BPE(), byte_level(add_prefix_space=prefix, use_regex=regex), initial_alphabet=alphabet)
                yield f"byte level prefix={prefix} regex={regex} trim={trim}", finish(t, prefix, trim, trim)
    t = train(models.BPE(ignore_merges=True), byte_level(add_prefix_space=True), initial_alphabet=alphabet)
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=[("<s>", 0), ("</s>", 2)])])
    yield "ignore_merges, Sequence of processors", t
    yield "byte level, bytes missing", finish(train(models.BPE(), byte_level()), True, True, True)
    gpt2 = Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
    for name, pre in {
        "split by GPT-2's pattern": pre_tokenizers.Sequence([pre_tokenizers.Split(gpt2, "isolated"), byte_level(add_prefix_space=False, use_regex=False)]),
        "digits, byte level": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(add_prefix_space=False)]),
        "digits together": pre_tokenizers.Sequence([pre_tokenizers.Digits(), byte_level(add_prefix_space=True)]),
        **{f"split {b}": pre_tokenizers.Sequence([pre_tokenizers.Split("a", b), pre_tokenizers.Split(" ", b, invert=True), byte_level(add_prefix_space=False)])
           for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")},
        **{f"punctuation {b}": pre_tokenizers.Sequence([pre_tokenizers.Punctuation(b), byte_level(add_prefix_space=False)])
           for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")},
    }.items():
        yield name, finish(train(models.BPE(), pre, initial_alphabet=alphabet), False, False, False)
    for name, model, options in [
        ("no unk", models.BPE(), {}), ("unk", models.BPE(unk_token="<unk>"), {}), ("fused unk", models.BPE(unk_token="<unk>", fuse_unk=True), {}),
        ("suffix", models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), {"end_of_word_suffix": "</w>"}),
        ("prefix", models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), {"continuing_subword_prefix": "##"}),
    ]:
        for pre in (pre_tokenizers.Whitespace(), pre_tokenizers.WhitespaceSplit(), pre_tokenizers.BertPreTokenizer()):
            t = train(model, pre, limit_alphabet=200, **options)
            t.decoder = decoders.BPEDecoder()
            yield f"{name}, {type(pre).__name__}", t
    t = train(models.BPE(unk_token="<unk>", byte_fallback=True), pre_tokenizers.WhitespaceSplit(), limit_alphabet=200)
    for some in (256, 200):
        file = json.loads(t.to_str())
        for b in range(some):
            file["model"]["vocab"].setdefault(f"<0x{b:02X}>", len(file["model"]["vocab"]))
        yield f"byte fallback, {some} bytes", Tokenizer.from_str(json.dumps(file))


def bpe(program, args):
    r = random.Random(2)
    texts = [ref.generated_text(i) for i in range(args.count // 50)] + damaged(r, 500)
    texts += ["".join(r.choice(BPE_PARTS) for _ in range(r.randrange(1, 14))) for _ in range(args.count // 50)]
    texts += ["", " ", "a" * 1000, "ab " * 300, "\u4e2d\u6587" * 200, "don't we'll I'm 'S 've"]
    every = [f"{chr(c)}a {chr(c)}1{chr(c)}.{chr(c)}" for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    for what, t in bpe_tokenizers():
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
            f.write(t.to_str())
            f.flush()
            t = Tokenizer.from_str(t.to_str())
            compare(program, f.name, [], t, texts, what)
            compare_pairs(program, f.name, t, texts, what)
            if args.points:
                compare(program, f.name, [], t, every, what + ", every code point", same_ids)


def compare_pairs(program, path, t, texts, what):
    """Pairs, and windows over them."""
    global differences
    before, pairs = differences, list(zip(texts[::9], texts[4::9]))
    flat = [x for p in pairs for x in p]
    decoded = [tuple(x if isinstance(x, str) else x.decode("utf-8", "replace") for x in p) for p in pairs]
    for extra, limit in ([], None), (["--no-special"], None), (["--windows", "--max", 24, "--stride", 3], 24):
        t.no_truncation() if limit is None else t.enable_truncation(limit, stride=3)
        driver = Driver(program, path, "--pair", *extra, texts=flat)
        for pair in decoded:
            theirs = t.encode(*pair, add_special_tokens="--no-special" not in extra)
            ours, want = driver.next(), [theirs] + theirs.overflowing
            if len(ours) != len(want):
                differences += 1
                print(f"DIFFERENT {what}: {len(ours)} windows, not {len(want)}, of {pair!r}")
            for o, w in zip(ours, want):
                same(o, w, pair, f"{what} {extra}", sequences=w is theirs)
    t.no_truncation()
    print(f"{what}: {len(pairs)} pairs, {differences - before} different", flush=True)


BPE_PARTS = ["<mask>", " <mask>", "<mask> ", "<s>", "</s>", "<unk>", "<pad>", "hello", " world", "'s", "'ll", "'LL", "don't", " ", "  ", "\t", "\n\n", "\u3000",
             "\u00a0", "\x85", "12", " 345", "\u00bd", "a", "A", "\u00e9", "\u4e2d\u6587", "\U0001F600", ".", "...", " !", "_", "-", "\u0301", "def ", "return", "\u200d"]

COMPARISONS = {"points": points, "random": random_texts, "multilingual": multilingual, "corpus": corpus, "added": added,
               "windows": windows, "steps": steps, "bpe": bpe}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("what", nargs="+", choices=list(COMPARISONS))
    parser.add_argument("--vocab", nargs="*", default=[])
    parser.add_argument("--text", nargs="*", default=[])
    parser.add_argument("--points", action="store_true", help="every code point under every BPE tokenizer too; long")
    parser.add_argument("--count", type=int, default=100_000, help="random texts")
    args = parser.parse_args()
    print("tokenizers", tokenizers.__version__)
    for what in args.what:
        COMPARISONS[what](args.program, args)
    sys.exit(differences > 0)


if __name__ == "__main__":
    main()
