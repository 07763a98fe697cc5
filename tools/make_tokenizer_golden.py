#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: what Hugging Face's tokenizers answers, small enough to keep.

    pip install -r tools/requirements-tokenizers.txt
    python tools/make_tokenizer_golden.py tests/golden/tokenizer [--data ../shared/data]

  vocab.txt     a vocabulary of our own, trained on generated text and the LICENSE
  digests.txt   name and digest of many encodings (tests/text/golden_test.cc makes the same texts)
  cases.json    tokenizer.json files with added tokens; pairs, truncation, windows, decoding, in full
  bpe.json      small BPE tokenizers of every kind, and the same for them

--only bpe makes what concerns BPE and leaves the rest as it is.
"""
import argparse
import json
import lzma
import pathlib
import random
import tempfile

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

import compare_tokenizers as compare
import tokenizer_reference as ref

BLOCK, BLOCKS = 1000, 20
REAL = ["bert-base-uncased", "bert-base-cased", "bert-base-chinese", "bert-base-multilingual-cased"]
CORPORA, CORPUS_BYTES = ["wiki", "news", "novels"], 1_000_000
SETTINGS = [(1, -1), (0, -1), (1, 0), (0, 1)]  # lowercase, strip_accents (-1: as lowercase)
BYTE_LEVEL = ["roberta-base", "gpt2"]
BPE_FILES = ["byte level prefix=False regex=True trim=True", "byte level prefix=True regex=True trim=True", "byte level prefix=True regex=False trim=False",
             "ignore_merges, Sequence of processors", "byte level, bytes missing", "digits, byte level", "split merged_with_next", "punctuation contiguous",
             "no unk, Whitespace", "fused unk, BertPreTokenizer", "suffix, WhitespaceSplit", "prefix, Whitespace", "byte fallback, 200 bytes"]
STRATEGIES = ["longest_first", "only_first", "only_second"]


def train_vocab(path):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=False)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    license_text = (pathlib.Path(__file__).parent.parent / "LICENSE").read_text()
    texts = [license_text, license_text.lower()] * 4 + [ref.generated_text(i) for i in range(400)]
    t.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=3000, special_tokens=ref.SPECIALS, limit_alphabet=1200))
    tokens = sorted(t.get_vocab(), key=t.get_vocab().get)
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8")


def tokenizer(path, lower, strip):
    return ref.reference(path, bool(lower), None if strip < 0 else bool(strip))


def digest_of(t, texts):
    return ref.digest(ref.words_of(e) for e in t.encode_batch(texts))


def point_digests(out):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write("\n".join(ref.every_point_vocab()) + "\n")
        f.flush()
        for lower, strip in SETTINGS:
            t = tokenizer(f.name, lower, strip)
            for plane in range(17):
                points = [chr(c) for c in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= c <= 0xDFFF]
                out[f"points/lower={lower}/strip={strip}/alone/{plane}"] = digest_of(t, points)
                out[f"points/lower={lower}/strip={strip}/between/{plane}"] = digest_of(t, [f"a{c}b" for c in points])
                out[f"points/lower={lower}/strip={strip}/marks/{plane}"] = digest_of(t, [f"\u0301{c}\u0323\u0334A" for c in points])


def text_digests(out, name, t, blocks=BLOCKS):
    for block in range(blocks):
        out[f"generated/{name}/{block}"] = digest_of(t, [ref.generated_text(block * BLOCK + i) for i in range(BLOCK)])


def corpus_lines(path):
    """The lines that lie whole in the first megabyte."""
    with lzma.open(path) as f:
        return f.read(CORPUS_BYTES).decode("utf-8", "ignore").split("\n")[:-1]


def encoding(e):
    return {"ids": e.ids, "types": e.type_ids, "offsets": e.offsets, "words": [-1 if w is None else w for w in e.word_ids]}


def cases():
    r = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyzABC.,!?'-[]#é中"
    pieces = ref.SPECIALS + list(letters) + ["##" + c for c in letters] + ["new", "york", "low", "##er", "do", "not", "don", "n't", "'s"]
    vocab = {t: i for i, t in enumerate(dict.fromkeys(pieces))}
    files, out = {}, []
    for i, tokens in enumerate(compare.ADDED):
        for lower, strip, cjk, clean in [(1, None, 1, 1), (0, True, 1, 0)]:
            t = ref.reference(vocab, bool(lower), strip, bool(cjk), bool(clean))
            t.add_tokens(tokens)
            name = f"added{i}{'' if clean else 'raw'}"
            files[name] = json.loads(t.to_str())
            t = Tokenizer.from_str(t.to_str())
            for k in range(25):
                text = "".join(r.choice(compare.PARTS) for _ in range(r.randrange(1, 10)))
                t.encode_special_tokens = plain = k % 5 == 0
                out.append({"file": name, "a": text, "plain": plain, "windows": [encoding(t.encode(text))]})
    t = ref.reference(vocab)
    files["plain"] = json.loads(t.to_str())
    text = lambda: "".join(r.choice("abc dé.É [") for _ in range(r.choice([0, 1, 3, 8, 20, 60])))
    while len(out) < 500:
        pair, add, strategy = r.random() < 0.7, r.random() < 0.8, r.randrange(3)
        specials = (3 if pair else 2) if add else 0
        limit = specials + r.randrange(2, 24)
        stride = r.randrange(0, max(1, min(12, (limit - specials) // 2)))
        a, b = text(), text() if pair else None
        t.enable_truncation(limit, stride=stride, strategy=STRATEGIES[strategy])
        try:
            e = t.encode(a, b, add_special_tokens=add)
        except BaseException:
            continue
        windows = [encoding(w) for w in [e] + e.overflowing]
        if sum(len(w["ids"]) for w in windows) < 200:
            out.append({"file": "plain", "a": a, "b": b, "max": limit, "stride": stride, "truncate": strategy, "add": add,
                        "windows": windows})
    t.no_truncation()
    decoded = []
    for _ in range(60):
        ids = [r.randrange(len(vocab) + 3) for _ in range(r.randrange(0, 12))]
        decoded.append({"ids": ids, "skip": t.decode(ids, skip_special_tokens=True), "keep": t.decode(ids, skip_special_tokens=False)})
    for words in ["do not", "i do n't .", "it 's a ' b ' . ok ?"]:
        ids = t.encode(words).ids
        decoded.append({"ids": ids, "skip": t.decode(ids), "keep": t.decode(ids, skip_special_tokens=False)})
    return {"files": files, "cases": out, "decoded": decoded}


def bpe_cases(digests):
    r = random.Random(4)
    files, out, decoded = {}, [], []
    for name, t in compare.bpe_tokenizers(size=500):
        if name not in BPE_FILES:
            continue
        files[name] = json.loads(t.to_str())
        t = Tokenizer.from_str(t.to_str())
        text_digests(digests, "bpe/" + name.replace(" ", "_"), t, blocks=1)
        text = lambda: "".join(r.choice(compare.BPE_PARTS) for _ in range(r.randrange(0, 12)))
        for _ in range(12):
            a, b, limit = text(), r.choice([None, text()]), r.choice([None, 12, 20])
            # Without special tokens the reference gives the windows of RoBERTa's second text type 1, but for the first.
            add = limit is not None or r.random() < 0.7
            t.no_truncation() if limit is None else t.enable_truncation(limit, stride=1)
            e = t.encode(a, b, add_special_tokens=add)
            case = {"file": name, "a": a, "b": b, "add": add, "windows": [encoding(w) for w in [e] + e.overflowing][:4]}
            out.append(case if limit is None else {**case, "max": limit, "stride": 1, "count": 1 + len(e.overflowing)})
            t.no_truncation()
            ids = [r.randrange(t.get_vocab_size() + 2) for _ in range(r.randrange(0, 12))] + t.encode(a).ids
            decoded.append({"file": name, "ids": ids, "skip": t.decode(ids, skip_special_tokens=True), "keep": t.decode(ids, skip_special_tokens=False)})
    assert sorted(files) == sorted(BPE_FILES)
    return {"files": files, "cases": out, "decoded": decoded}


def real_digests(digests, name, t, data):
    text_digests(digests, name, t)
    for corpus in CORPORA:
        digests[f"corpus/{name}/{corpus}"] = digest_of(t, corpus_lines(data / "corpus" / f"{corpus}.txt.xz"))


def write_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, ensure_ascii=True, separators=(",", ":"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data"))
    parser.add_argument("--train", action="store_true", help="make vocab.txt anew")
    parser.add_argument("--only", choices=["bpe"])
    args = parser.parse_args()
    digests = {}
    if args.only:
        digests = {name: int(value, 16) for name, value in map(str.split, open(args.folder / "digests.txt"))}
    else:
        vocab = args.folder / "vocab.txt"
        if args.train or not vocab.exists():
            train_vocab(vocab)
        point_digests(digests)
        for lower, strip in SETTINGS:
            text_digests(digests, f"own/lower={lower}/strip={strip}", tokenizer(vocab, lower, strip))
        for name in REAL:
            real_digests(digests, name, tokenizer(args.data / "vocab" / name / "vocab.txt", int(name == "bert-base-uncased"), -1), args.data)
        write_json(args.folder / "cases.json", cases())
    write_json(args.folder / "bpe.json", bpe_cases(digests))
    for name in BYTE_LEVEL:
        real_digests(digests, name, ref.byte_level(args.data / "vocab" / name), args.data)
    with open(args.folder / "digests.txt", "w") as f:
        f.writelines(f"{name} {value:016x}\n" for name, value in digests.items())


if __name__ == "__main__":
    main()
