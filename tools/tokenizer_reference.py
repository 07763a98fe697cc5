"""What the tokenizer scripts share: the reference, texts that Python and C++ make alike, and digests."""
import json
import pathlib

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
MASK64 = (1 << 64) - 1


def reference(vocab, lower=True, strip=None, cjk=True, clean=True):
    """Hugging Face's BERT tokenizer from a vocab.txt or a dict, as transformers sets it up."""
    if isinstance(vocab, dict):
        model = models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
    else:
        model = models.WordPiece.from_file(str(vocab), unk_token="[UNK]", max_input_chars_per_word=100)
    t = Tokenizer(model)
    t.normalizer = normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=cjk, strip_accents=strip, lowercase=lower)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", t.token_to_id("[CLS]")), ("[SEP]", t.token_to_id("[SEP]"))])
    t.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in SPECIALS if t.token_to_id(s) is not None])
    return t


def byte_level(folder, prefix_space=False):
    """Hugging Face's tokenizer of vocab.json and merges.txt, as transformers 5 sets it up for RoBERTa or GPT-2."""
    folder = pathlib.Path(folder)
    t = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    t.decoder = decoders.ByteLevel()
    names = ["<|endoftext|>"]
    if t.token_to_id("<mask>") is not None:
        names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")),
                                                        trim_offsets=True, add_prefix_space=prefix_space)
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in names])
    return t


def open_reference(path):
    """The reference for a folder with vocab.json, a tokenizer.json or a vocab.txt; and what tests/text/tokenize_driver
    must be told besides the path."""
    path = pathlib.Path(path)
    if path.is_dir():
        return byte_level(path), []
    if path.suffix == ".json":
        return Tokenizer.from_file(str(path)), []
    lower = "uncased" in str(path)
    return reference(path, lower), ["--lower", int(lower)]


class Random:
    """SplitMix64; the same in tests/text/generated_text.h."""

    def __init__(self, seed):
        self.state = seed & MASK64

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK64
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
        return z ^ (z >> 31)

    def below(self, n):
        return ((self.next() >> 32) * n) >> 32


# (first, last) of the code points a word is made of; the same list is in tests/text/generated_text.h.
SCRIPTS = [
    (0x61, 0x7A), (0x61, 0x7A), (0x41, 0x7A), (0x30, 0x39), (0x21, 0x7E), (0x00, 0x7F), (0xA0, 0xFF), (0x80, 0x24F),
    (0x1E00, 0x1EFF), (0x370, 0x3FF), (0x1F00, 0x1FFF), (0x400, 0x52F), (0x530, 0x5FF), (0x600, 0x6FF), (0x900, 0x9FF),
    (0xE00, 0xEFF), (0x1100, 0x11FF), (0x1B00, 0x1BFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF),
    (0x4E00, 0x9FFF), (0xA900, 0xAAFF), (0xAC00, 0xD7A3), (0xE000, 0xF8FF), (0xF900, 0xFAFF), (0xFB00, 0xFFFF),
    (0x11000, 0x114FF), (0x1D150, 0x1D1FF), (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0x20000, 0x2FA1F), (0, 0xFFFF),
    (0, 0x10FFFF),
]
MARKS = [(0x300, 0x36F), (0x591, 0x5C7), (0x1D165, 0x1D172), (0x302A, 0x302F), (0x1B34, 0x1B44)]
SEPARATORS = ["", "\t", ", ", "\u00a0", "\u3000", "\n"]
WRITTEN = ["[MASK]", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[mask]", "[MAS", "[[SEP]]"]


def generated_text(seed):
    r, out = Random(seed), []
    for _ in range(1 + r.below(24)):
        if r.below(40) == 0:
            out.append(WRITTEN[r.below(len(WRITTEN))])
        else:
            first, last = SCRIPTS[r.below(len(SCRIPTS))]
            length = 1 + r.below(110 if r.below(100) == 0 else 9)
            for _ in range(length):
                a, b = (first, last) if r.below(8) else MARKS[r.below(len(MARKS))]
                c = a + r.below(b - a + 1)
                out.append("?" if 0xD800 <= c <= 0xDFFF else chr(c))
        s = r.below(12)
        out.append(SEPARATORS[s] if s < len(SEPARATORS) else " ")
    return "".join(out)


def every_point_vocab():
    """A vocabulary with every code point as a word and as a continuation, so that ids show what each became."""
    points = [chr(c) for c in range(1, 0x110000) if not 0xD800 <= c <= 0xDFFF and not chr(c).isspace()]
    return SPECIALS + points + ["##" + c for c in points]


def words_of(encoding):
    """One encoding as the u32 words that digests are made of: n, ids, offsets."""
    ids = np.array(encoding.ids, dtype=np.uint32)
    offsets = np.array(encoding.offsets, dtype=np.uint32).reshape(-1)
    return np.concatenate([np.array([len(ids)], dtype=np.uint32), ids, offsets])


def digest(arrays):
    """Of u32 words: the sum of each one's place and value, mixed. The same is in tests/text/generated_text.h."""
    words = np.concatenate(list(arrays)).astype(np.uint64)
    z = words + np.arange(1, len(words) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))).sum(dtype=np.uint64))


def save_json(tokenizer, path):
    with open(path, "w", encoding="utf-8") as f:
        f.write(tokenizer.to_str())
    return json.loads(tokenizer.to_str())
