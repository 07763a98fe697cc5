#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/{albert,xlm-roberta} and unigram.json: small SentencePiece models of our own, and
what Hugging Face's tokenizers and transformers make of them.

    pip install -r tools/requirements-tokenizers.txt transformers sentencepiece protobuf
    python tools/make_unigram_golden.py tests/golden/tokenizer TEXT

TEXT is any English text of a few megabytes; ours were trained on public-domain novels. With models that are there
already, only the answers are made again.
"""
import json
import pathlib
import struct
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import tokenizer_reference as ref

BLOCK, BLOCKS = 500, 4
# A map small enough to keep: what SentencePiece's own rules do, for a few code points.
RULES = {"½": "1⁄2", "ﬁ": "fi", "ﬃ": "ffi", "Ａ": "A", "ｂ": "b", "\u00a0": " ", "\u3000": " ", "\t": " ", "\n": " ",
         "\r": " ", "\u0001": "", "\u200b": " ", "\u00ad": "", "e\u0301": "é", "A\u030a": "Å", "™": "TM", "㍿": "株式会社",
         "①": "1", "ｶ": "カ", "\u0600": ""}
TEXTS = ["You found me.", "``Well,'' she said,  \"it isn't.\"", "Ångström ½ ﬁx ﬃ Ａｂ ㍿ x", "e\u0301A\u030a\u0301 cafe\u0301\u0323",
         "\u0001\u00ada\u0001b \u0001", " \u00a0 two  spaces\t\r\nend ", "日本語テキスト ｶﾞ", "▁a ▁▁b_▁", "[MASK] x [CLS]<mask>  y</s>",
         "", " ", "½", "\u0600a \u0600\u0301", "İSTANBUL ΑΣ", "ạ\u0302\u0301 각 \u1100\u1161\u11a8", "©\u200d®™\u200d", "nowhere🙂🙂x"]


def double_array(keys):
    """{bytes: place of its replacement} as the units that src/text/steps/charsmap.h reads."""
    trie = {}
    for key, place in keys.items():
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = place
    units, taken, bases = {0: 0}, {0}, set()

    def put(node, at):
        base = 1
        while base in bases or any(base ^ (b or 0) in taken for b in node):
            base += 1
        bases.add(base)
        taken.update(base ^ (b or 0) for b in node)
        units[at] |= (at ^ base) << 10 | (256 if None in node else 0)
        for byte, child in node.items():
            units[base ^ (byte or 0)] = 1 << 31 | child if byte is None else byte
        for byte, child in node.items():
            if byte is not None:
                put(child, base ^ byte)

    put(trie, 0)
    return [units.get(i, 0) for i in range((max(units) | 255) + 1)]


def charsmap(rules):
    blob, keys = b"", {}
    for key, value in rules.items():
        keys[key.encode()] = len(blob)
        blob += value.encode() + b"\0"
    units = double_array(keys)
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + blob


def train(path, text, **settings):
    import sentencepiece
    with tempfile.TemporaryDirectory() as folder:
        rules = pathlib.Path(folder) / "rules.tsv"
        code = lambda s: " ".join(f"{ord(c):X}" for c in s)
        rules.write_text("".join(f"{code(k)}\t{code(v)}\n" for k, v in RULES.items()), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix=f"{folder}/m", model_type="unigram", normalization_rule_tsv=str(rules),
            input_sentence_size=20000, shuffle_input_sentence=False, num_threads=1, minloglevel=2, **settings)
        path.write_bytes((pathlib.Path(folder) / "m.model").read_bytes())


def answer(t, a, b=None):
    e = t.encode(a) if b is None else t.encode(a, b)
    out = {"text": a, "ids": e.ids, "types": e.type_ids, "offsets": [x for o in e.offsets for x in o],
           "words": [-1 if w is None else w for w in e.word_ids], "decoded": t.decode(e.ids),
           "decoded_all": t.decode(e.ids, skip_special_tokens=False)}
    return out if b is None else {**out, "pair": b}


def windows(t, a, b, limit, stride):
    t.enable_truncation(limit, stride=stride, strategy="only_second")
    e = t.encode(a, b)
    t.no_truncation()
    return {"a": a, "b": b, "max": limit, "stride": stride,
            "windows": [{"ids": w.ids, "offsets": [x for o in w.offsets for x in o]} for w in [e] + e.overflowing]}


def model_answers(t):
    blocks = [ref.digest(ref.words_of(t.encode(ref.generated_text(b * BLOCK + i))) for i in range(BLOCK))
              for b in range(BLOCKS)]
    long = "It was the best of times, it was the worst of times; ½ of them ﬁne. " * 6
    return {"digests": [f"{d:x}" for d in blocks], "cases": [answer(t, x) for x in TEXTS] +
            [answer(t, x, y) for x, y in zip(TEXTS, TEXTS[3:])],
            "windows": [windows(t, "Which times?", long, 30, 7), windows(t, "½", long, 64, 0)]}


def chains():
    """Every step alone and in company, with a vocabulary of every character that comes out."""
    small = normalizers.Precompiled(charsmap(RULES))
    lossy = normalizers.Precompiled(charsmap({"A": "", "B": "wxyz", "C": "pq", "D": "r", "\u030a": "", "½": "1/2"}))
    letters = ["AbAc", "B\u0301z", "zB\u0301z", "C\u0301\u0301z", "xD\u0301\u0301z", "D\u0301\u0301\u0301z", "zA\u0301z", "½A",
               "A½Ax", "bA", "½\u0301x"]
    n, seq = normalizers, normalizers.Sequence
    space = pre_tokenizers.WhitespaceSplit()
    mark = lambda **k: pre_tokenizers.Metaspace(**k)
    albert = seq([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), small,
                  n.Replace(Regex(" {2,}"), " ")])
    spm = seq([small, n.Strip(left=False, right=True), n.Replace(Regex(" {2,}"), "▁")])
    both = pre_tokenizers.Sequence([space, mark()])
    for norm, pre in [(n.NFC(), None), (n.NFD(), None), (n.NFKC(), None), (n.NFKD(), None), (n.Lowercase(), None),
                      (n.StripAccents(), None), (n.Strip(), None), (n.Nmt(), None), (n.Prepend("▁"), None),
                      (n.Replace(" ", "▁"), None), (small, None), (lossy, None), (seq([lossy, n.NFC(), n.Strip()]), None),
                      (albert, both), (albert, mark()), (spm, mark()), (spm, mark(prepend_scheme="first")),
                      (spm, mark(prepend_scheme="never")), (spm, mark(split=False)), (small, both),
                      (seq([n.Prepend("▁"), n.Replace(" ", "▁")]), None)]:
        texts = TEXTS + letters
        points = sorted({c for x in texts for c in norm.normalize_str(x)} - set("日🙂ｶ"))
        for fallback in (False, True) if pre is None and norm in (small, lossy) else (pre is not None,):
            spelled = [f"<0x{b:02X}>" for b in range(256)] if fallback else []
            longer = [p for p in ("ab", "▁x", "▁") if p not in points]
            pieces = [("<unk>", 0.0)] + [(p, -3.0 - i / 64) for i, p in enumerate(points + longer)]
            t = Tokenizer(models.Unigram(pieces + [(p, -9.0) for p in spelled], 0, fallback))
            t.normalizer, t.decoder = norm, decoders.Sequence(
                [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
                if fallback else [decoders.Metaspace()])
            if pre:
                t.pre_tokenizer = pre
            yield {"tokenizer": json.loads(t.to_str()), "cases": [answer(t, x) for x in texts]}


def main(folder, text):
    from transformers import AutoTokenizer
    folder = pathlib.Path(folder)
    symbols = dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"],
                   user_defined_symbols=["(", ")", '"', "-", "."])
    out = {"models": {}, "chains": list(chains())}
    for name, file, settings in [("albert", "spiece.model", dict(vocab_size=1500, **symbols)),
                                 ("xlm-roberta", "sentencepiece.bpe.model", dict(vocab_size=1200, byte_fallback=True))]:
        (folder / name).mkdir(exist_ok=True)
        if not (folder / name / file).exists():
            train(folder / name / file, text, **settings)
        (folder / name / "config.json").write_text(json.dumps({"model_type": name}) + "\n")
        t = AutoTokenizer.from_pretrained(folder / name).backend_tokenizer
        out["models"][name] = model_answers(t)
    (folder / "unigram.json").write_text(json.dumps(out, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
