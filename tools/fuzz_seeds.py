#!/usr/bin/env python3
"""Seeds and dictionaries for the fuzzers: OUT/NAME-seeds/* and OUT/NAME.dict, made of tests/golden.

A fuzzer that starts from nothing does not find a zip directory or a SentencePiece model in any time that one has.
The words of a dictionary are the keys and short strings of the JSON seeds.
"""
import json
import pathlib
import struct
import sys
import zipfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
OUT = pathlib.Path(sys.argv[1])

# What no golden has: mechanisms of attention (docs/models.md), and tokenizers' parts.
ATTENTION = [
    {"score": "additive", "score_size": 8, "look": "window", "before": 2, "after": 1},
    {"score": "general", "look": "window_and_global", "around": 2, "global": [0, 3]},
    {"score": "dot", "look": "big_bird", "block": 2, "window": 3, "global_blocks": 1, "random": 1, "seed": 7},
    {"look": "strided", "stride": 4},
    {"look": "fixed", "stride": 4, "summary": 1},
    {"look": "adaptive_span", "ramp": 4, "span": 0.2, "both_sides": True},
    {"compute": "linear"},
    {"compute": "performer", "features": 16, "feature_seed": 3},
    {"compute": "linformer", "rows": 4},
    {"compute": "nystrom", "landmarks": 4, "iterations": 6},
]
VOCAB = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "a": 4, "##b": 5, "3": 6, ".": 7, "\u4e2d": 8}
TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}}}
TOKENIZERS = [
    {"added_tokens": [{"id": 3, "content": "[MASK]", "special": True, "normalized": False, "lstrip": True}],
     "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                    "strip_accents": None, "lowercase": True},
     "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": TEMPLATE,
     "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
     "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
               "max_input_chars_per_word": 100, "vocab": VOCAB}},
    {"added_tokens": [{"id": 0, "content": "<s>", "special": True, "normalized": True, "rstrip": True,
                       "single_word": True}],
     "normalizer": {"type": "Sequence", "normalizers": [
         {"type": "NFC"}, {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"},
         {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
         {"type": "Prepend", "prepend": "\u2581"}, {"type": "Strip", "strip_left": True, "strip_right": True}]},
     "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
         {"type": "Digits", "individual_digits": True},
         {"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext", "invert": False},
         {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
     "post_processor": {"type": "RobertaProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0],
                        "trim_offsets": True, "add_prefix_space": True},
     "decoder": {"type": "Sequence", "decoders": [
         {"type": "ByteLevel"}, {"type": "Replace", "pattern": {"String": "b"}, "content": "c"},
         {"type": "Fuse"}]},
     "model": {"type": "BPE", "dropout": None, "unk_token": "<s>", "fuse_unk": True, "byte_fallback": True,
               "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3, "\u0120": 4, "\u0120ab": 5, "<0x63>": 6},
               "merges": ["a b", ["\u0120", "ab"]]}},
    {"added_tokens": [], "normalizer": {"type": "NFKC"},
     "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True,
                       "prepend_scheme": "always", "split": True},
     "post_processor": None,
     "decoder": {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": True},
     "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": False,
               "vocab": [["<unk>", 0.0], ["\u2581", -1.5], ["a", -2.0], ["\u2581a", -2.5], ["b", -3.0]]}},
]
# One of every part by itself, in the place of the second tokenizer's.
PARTS = {
    "normalizer": [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")],
    "pre_tokenizer": [{"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Punctuation",
                                            "Digits", "ByteLevel")],
    "decoder": [{"type": t} for t in ("ByteLevel", "ByteFallback", "Fuse", "Metaspace", "BPEDecoder")],
}


def text(value):
    return json.dumps(value, ensure_ascii=False).encode()


def golden(pattern, most):
    """Contents of at most `most` bytes, no two the same."""
    return sorted({p.read_bytes() for p in sorted(GOLDEN.glob(pattern)) if p.stat().st_size <= most})


def words(value, found):
    if isinstance(value, dict):
        for key, item in value.items():
            words(key, found)
            words(item, found)
    elif isinstance(value, list):
        for item in value:
            words(item, found)
    elif isinstance(value, str) and 1 < len(value) <= 40:
        found.add('"' + value + '"')


def write(name, seeds, dictionary=()):
    """dictionary: bytes, or JSON values whose words are taken."""
    folder = OUT / (name + "-seeds")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for i, seed in enumerate(seeds):
        (folder / f"{i:03}").write_bytes(seed)
    entries = {item for item in dictionary if isinstance(item, bytes)}
    found = set()
    for item in dictionary:
        words(item, found)
    entries |= {word.encode() for word in found}
    escaped = ("".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\x{b:02X}" for b in entry)
               for entry in sorted(entries))
    (OUT / (name + ".dict")).write_text("".join(f'"{entry}"\n' for entry in escaped))


def header_of(safetensors):
    return safetensors[8:8 + struct.unpack_from("<Q", safetensors)[0]]


def with_attention(config, attention):
    return text({**json.loads(config), "attention": attention})


def shards():
    for token_bytes, code in ((2, "H"), (4, "I")):
        for documents in ([], [[2, 1], [], [3]]):
            starts, places, tokens = [0], [0], []
            for document in documents:
                for length in document:
                    tokens += range(length)
                    places.append(len(tokens))
                starts.append(len(places) - 1)
            head = struct.pack("<8s4I7Q32s2Q", b"BRTSHARD", 1, token_bytes, 0, 0, len(documents),
                               len(places) - 1, len(tokens), 1, 20, 5, 300, bytes(32), 0, 0)
            yield b"\x03" + head + struct.pack(f"<{len(starts)}I{len(places)}I{len(tokens)}{code}",
                                               *starts, *places, *tokens)


def datasets():
    """Small files of every format; the first byte is the task, and 4 times the place of the name's ending."""
    classify, pair, tag, answer = range(4)
    none, csv, tsv, jsonl, whole, conll = (4 * i for i in range(6))
    question = {"question": "Who?", "context": "\u00c4nn\u00e4  came", "id": "1"}
    found = [{"text": "\u00c4nn\u00e4 came", "answer_start": 0}, {"text": "came", "answer_start": 6}]
    squad = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": question["context"], "qas": [
        {"id": "1", "question": "Who?", "answers": found, "is_impossible": False},
        {"id": "2", "question": "When?", "answers": [], "is_impossible": True}]}]}]}
    lines = {"text": ["came"], "answer_start": [6]}
    for first, data in (
            (classify + csv, 'text,label\r\n"a, ""b""\nc",x\r\nd,y\r\n'),
            (classify + csv, "text;label\na;1.5\nb;2\n"),
            (classify + csv, "text,labels\na,\"['x', 'y']\"\nb,[]\n"),
            (classify + tsv, "sentence\tlabel\nfine \t1\nbleak\t0\n"),
            (classify + none, "gj04\t1\t\tThey drank.\nbc01\t0\t*\tThey drank the.\n"),
            (classify + jsonl, '{"text": "a", "labels": ["x", 1]}\n{"text": "b", "labels": []}\n'),
            (classify + whole, '[{"text": "a", "label": true}, {"text": "b", "label": null}]'),
            (pair + tsv, 'Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tA .\t" B .\n0\t3\t4\tC\tD\n'),
            (pair + csv, "premise,hypothesis,gold_label\na,b,x\nc,d,y\n"),
            (128 + pair + tsv, "a\tb\nc\td\n"),
            (tag + conll, "-DOCSTART- -X- O O\n\nWest NNP I-NP I-MISC\nside NN I-NP O\n\nEU NNP I-NP B-ORG\n"),
            (tag + none, "New York\tB-LOC\nis\tO\n\nbig\tS-X\nL\tE-X\n"),
            (tag + conll, "# text = a\n1\ta\ta\tX\t_\t_\t_\t_\t_\t_\n2-3\tb\tb\tX\t_\t_\t_\t_\t_\t_\n\n"),
            (tag + jsonl, '{"tokens": ["EU", "x"], "ner_tags": ["U-ORG", "O"]}\n{"tokens": ["y"], "ner_tags": ["L-X"]}\n'),
            (answer + whole, squad),
            (answer + jsonl, {**question, "answers": lines}),
            (answer + jsonl, {**question, "answers": found}),
            (128 + answer + csv, "question,context\nq,c\nr,d\n")):
        yield bytes([first]) + (data.encode() if isinstance(data, str) else text(data))


def main():
    write("torch_fuzz", golden("torch/*.*", 16384), [b"collections", b"OrderedDict", b"torch._utils", b"_rebuild_tensor_v2",
                                                     b"torch", b"FloatStorage", b"storage", b"data.pkl", b"PK\x03\x04"])
    checkpoints = [p.with_suffix("") for p in sorted(GOLDEN.glob("tensorflow/**/*.index"))
                   if p.with_suffix(".data-00000-of-00001").exists()]  # of one part
    seeds = []
    for p in checkpoints:  # index and numbers are halves of a seed; the index is found from its end
        index, data = (p.with_name(p.name + end).read_bytes() for end in (".index", ".data-00000-of-00001"))
        longer = max(len(index), len(data))
        if longer <= 4096:
            seeds.append(index.rjust(longer, b"\0") + data.ljust(longer, b"\0"))
    write("tensorflow_fuzz", seeds, [b"kernel", b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"])
    write("onnx_fuzz", golden("onnx/*.onnx", 65536), [b"MatMul", b"Identity", b"LayerNormalization", b".weight", b".bias",
                                                      b"location", b"offset", b"length", b"today.onnx.data"])
    npz = golden("npz/*.npz", 16384)
    write("npz_fuzz", npz, [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07",
                            b"PK\x07\x08", b".npy", b"\x93NUMPY"])
    arrays = set()
    for path in sorted(GOLDEN.glob("npz/*.npz")):
        with zipfile.ZipFile(path) as archive:
            arrays |= {archive.read(name) for name in archive.namelist()}
    types = [b"'<f4'", b"'<f2'", b"'<f8'", b"'<i8'", b"'|u1'", b"'|b1'", b"'|O'"]
    write("npy_fuzz", sorted(a for a in arrays if len(a) <= 4096),
          [b"\x93NUMPY", b"'descr'", b"'fortran_order'", b"'shape'", b"True", b"False", b"(1,)", b"()", *types])

    models = [p.parent for p in sorted(GOLDEN.glob("*/*/model.safetensors")) if p.stat().st_size <= 60000]
    names = [b'"' + t + b'"' for t in (b"BOOL", b"U8", b"I8", b"F8_E4M3", b"F8_E5M2", b"F16", b"BF16", b"I32", b"F32",
                                       b"F64", b"I64", b"dtype", b"shape", b"data_offsets", b"__metadata__")]
    one = struct.Struct("<Q")
    small = [text({"x": {"dtype": d, "shape": [2], "data_offsets": [0, 2 * n]}, "__metadata__": {"format": "pt"}}) +
             bytes(2 * n) for d, n in (("F32", 4), ("F16", 2), ("BF16", 2), ("U8", 1), ("I64", 8))]
    write("safetensors_fuzz",
          [one.pack(s.rindex(b"}") + 1) + s for s in small] + golden("*/*/*.safetensors", 5000), names)

    configs = golden("*/*/config.json", 2000)
    plain = (GOLDEN / "models/one_head/config.json").read_bytes()
    mechanisms = [with_attention(plain, a) for a in ATTENTION]
    known = [json.loads(c) for c in configs] + ATTENTION
    write("config_fuzz", configs + mechanisms, known)
    # The smallest model of every family and head, by its name without the number at its end.
    whole = {}
    for folder in models:
        config = (folder / "config.json").read_bytes()
        header = header_of((folder / "model.safetensors").read_bytes())
        kind = folder.name.rstrip("0123456789")
        if kind not in whole or len(header) < len(whole[kind]) - len(config):
            whole[kind] = config + b"\0" + header
    one_head = header_of((GOLDEN / "models/one_head/model.safetensors").read_bytes())
    write("model_fuzz", sorted(whole.values()) + [m + b"\0" + one_head for m in mechanisms],
          known + names + [json.loads(one_head)])

    vocab = (GOLDEN / "tokenizer/vocab.txt").read_bytes()
    head = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
    texts = ["aab [MASK] ea.", "\u00e9 \u4e2d\u6587 \u0130 \u1e9e \u00df", "a\u0301\u0308 \u200d \U0001f469"]
    write("tokenizer_fuzz", [b"\0" + head + b"a\n##b\n", b"\0" + vocab] +
          [b"\1" + t.encode() for t in texts], [b"[UNK]", b"[CLS]", b"[SEP]", b"[MASK]", b"\n##", b"\xcc\x81"])
    parts = [text({**TOKENIZERS[1], key: part}) for key, all_parts in PARTS.items() for part in all_parts]
    write("tokenizer_json_fuzz", [text(t) for t in TOKENIZERS] + parts + golden("*/*/tokenizer.json", 12000),
          TOKENIZERS + list(PARTS.values()))
    write("sentence_piece_fuzz",
          [bytes([family]) + model for pattern, families in (("*/*/spiece.model", (0,)),
                                                             ("*/*/sentencepiece.bpe.model", (1, 2)))
           for model in golden(pattern, 60000) for family in families],
          [b"\xe2\x96\x81", b"<unk>", b"<s>", b"</s>", b"<pad>", b"[CLS]", b"[SEP]", b"[MASK]"])
    write("shard_fuzz", shards(), [b"BRTSHARD"])
    write("conllu_fuzz", [
        b"# text = I don't\n1\tI\tI\tPRON\tPRP\t_\t3\tnsubj\t_\t_\n2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
        b"2\tdo\tdo\tAUX\tVBP\t_\t3\taux\t_\t_\n3\tn't\tnot\tPART\tRB\t_\t0\troot\t_\t_\n",
        b"1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n1.1\tb\tb\tX\t_\t_\t_\t_\t0:root\t_\n\n1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n\n"],
          [b"\t", b"\t_", b"\n\n", b"1\t", b"2-3\t", b"1.1\t", b"\t0\troot\t", b"# "])
    write("dataset_fuzz", datasets(),
          [b"text", b"label", b"sentence1", b"sentence2", b"\"\"", b",\"", b"\",", b"\r\n", b"-DOCSTART-", b"I-X", b"B-X",
           b"E-X", b"S-X", b" O\n", b'{"text": "', b'"answers": ', b'"answer_start": ', b'"context": ', b'"question": ',
           b'"qas": ', b'"paragraphs": ', b'"data": ', b'"tokens": ["', b'"tags": ["', b"['", b"\x1f\x8b", b"\xef\xbb\xbf"])


main()
