#!/usr/bin/env python3
"""Asks Hugging Face's tokenizers what it does with every Unicode code point, and writes
src/text/unicode/tables.cc from the answers.

    pip install -r tools/requirements-tokenizers.txt
    python tools/extract_unicode.py src/text/unicode/tables.cc

The library is built from several Unicode tables of different ages (categories, decompositions, lower case),
so no one version of the Unicode database gives the same answers. Only its behavior is read here.
"""
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]  # Rust's char holds no surrogates

# Bits of a code point's record; the same names are in src/text/unicode/unicode.h.
DROP, SPACE, PUNCT, CJK, MARK, WORD, RAW_SPACE, COMBINING = 1, 2, 4, 8, 16, 32, 64, 128

# Grapheme cluster breaks; the same names are in src/text/unicode/forms.h.
CONTROL, EXTEND, PREPEND, PICTOGRAPHIC = 1, 2, 3, 4


def bert(**on):
    switches = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**switches, **on}).normalize_str


def flags():
    clean, cjk, strip = bert(clean_text=True), bert(handle_chinese_chars=True), bert(strip_accents=True)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    combining = normalizers.StripAccents().normalize_str
    single = Tokenizer(models.WordPiece({"[UNK]": 0, "<x>": 1}, unk_token="[UNK]"))
    single.add_tokens([AddedToken("<x>", single_word=True, normalized=False)])
    single.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    nfd = normalizers.NFD().normalize_str
    table = {}
    for c in POINTS:
        ch, bits = chr(c), 0
        cleaned = clean(f"a{ch}b")
        if cleaned == "ab":
            bits |= DROP
        elif cleaned == "a b":
            bits |= SPACE
        else:
            assert cleaned == f"a{ch}b", hex(c)
        words = [w for w, _ in split(f"a{ch}b")]
        if words == ["a", "b"]:
            bits |= RAW_SPACE
        elif words == ["a", ch, "b"]:
            bits |= PUNCT
        else:
            assert words == [f"a{ch}b"], hex(c)
        if cjk(ch) != ch:
            assert cjk(ch) == f" {ch} ", hex(c)
            bits |= CJK
        if nfd(ch) == ch and strip(ch) == "":
            bits |= MARK
        if combining(ch) == "":
            bits |= COMBINING
        if 1 not in single.encode(ch + "<x>").ids:
            bits |= WORD
        table[c] = bits
    # The same answer on either side: \w is asked of the neighbor before and after.
    for c in POINTS:
        after = 1 not in single.encode("<x>" + chr(c)).ids
        assert after == bool(table[c] & WORD), hex(c)
    # A mark that decomposes (U+0344) is judged by its parts.
    for c in POINTS:
        parts = nfd(chr(c))
        kept = "".join(p for p in parts if not table[ord(p)] & MARK)
        assert strip(chr(c)) == kept, hex(c)
    return table


# What GPT-2's pattern calls a code point; the same names are in src/text/unicode/unicode.h.
LETTER, NUMBER, BLANK = 1, 2, 3


def kinds():
    """\\p{L}, \\p{N} and \\s as the byte-level pre-tokenizer's pattern takes them."""
    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    table = {}
    for c in POINTS:
        one = [len(split(f"{x}{chr(c)}{x}")) == 1 for x in ("a", "1", ".")]
        assert sum(one) <= 1, hex(c)
        table[c] = LETTER if one[0] else NUMBER if one[1] else 0 if one[2] else BLANK
    return table


def mappings():
    nfd, low = normalizers.NFD().normalize_str, bert(lowercase=True)
    decompose = {c: nfd(chr(c)) for c in POINTS if nfd(chr(c)) != chr(c)}
    lower = {c: low(chr(c)) for c in POINTS if low(chr(c)) != chr(c)}
    # Hangul syllables decompose by arithmetic; checked here, computed in C++.
    for c in range(0xAC00, 0xD7A4):
        s = c - 0xAC00
        want = chr(0x1100 + s // 588) + chr(0x1161 + s % 588 // 28)
        want += chr(0x11A7 + s % 28) if s % 28 else ""
        assert decompose.pop(c) == want, hex(c)
    # Lower case is one code point for one, but for U+0130; and looks at no neighbor (no final sigma).
    assert {c for c, s in lower.items() if len(s) > 1} == {0x130}
    assert low("ΑΣ ΑΣ.") == "ας ας.".replace("ς", "σ")
    return decompose, lower


def combining_classes():
    """A mark of a higher class gives way to a following one of a lower class: its class is found by asking
    for its order beside one mark of every class."""
    nfd = normalizers.NFD().normalize_str
    swaps = lambda x, y: x != y and nfd(f"a{x}{y}") == f"a{y}{x}"
    # U+0334 (class 1) is the lowest; U+0345 (class 240) the highest.
    moving = [c for c in POINTS if nfd(chr(c)) == chr(c) and
              (swaps(chr(c), "\u0334") or swaps("\u0345", chr(c)))]
    representatives = {}
    for c in moving:
        if unicodedata.combining(chr(c)):
            representatives.setdefault(unicodedata.combining(chr(c)), chr(c))
    order = sorted(representatives)
    table = {}
    for c in moving:
        above = [k for k in order if swaps(representatives[k], chr(c))]   # classes greater than c's
        below = [k for k in order if swaps(chr(c), representatives[k])]   # classes less than c's
        equal = [k for k in order if k not in above and k not in below]
        assert len(equal) == 1, (hex(c), equal)
        table[c] = equal[0]
    return table


def compatibility():
    """Where NFKD has more to say than NFD."""
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    return {c: nfkd(chr(c)) for c in POINTS if nfkd(chr(c)) != nfd(chr(c))}


def compositions(decompose):
    """(first, second) -> composed, for what NFC puts together. Hangul is arithmetic, as above."""
    nfc = normalizers.NFC().normalize_str
    table = {}
    for c, parts in decompose.items():
        if len(parts) > 1 and nfc(chr(c)) == chr(c):
            first = nfc(parts[:-1])
            assert len(first) == 1 and nfc(first + parts[-1]) == chr(c), hex(c)
            table[ord(first), ord(parts[-1])] = c
    for s in range(11172):
        assert nfc(chr(0x1100 + s // 588) + chr(0x1161 + s % 588 // 28) + (chr(0x11A7 + s % 28) if s % 28 else "")) \
            == chr(0xAC00 + s), s
    return table


def count_clusters():
    """A function from short text to its number of grapheme clusters: a Precompiled map that makes "x" of every
    lead byte of a code point. It is asked for a cluster of less than six bytes as a whole, and so gives one "x";
    else for each code point."""
    leads = [*range(1, 0x80), *range(0xC2, 0xF5)]
    leaf, has_leaf = 1 << 31, 1 << 8          # as in src/text/steps/charsmap.h
    units = [0] * 1024
    units[0] = 256 << 10                      # the root's children are at 256 ^ byte
    for b in leads:
        units[256 ^ b] = b | has_leaf | 512 << 10  # and this one's value at 512 ^ (256 ^ byte)
        units[512 ^ 256 ^ b] = leaf
    blob = struct.pack("<I1024I", 4096, *units) + b"x\0"
    normalize = normalizers.Precompiled(blob).normalize_str
    return lambda text: len(normalize(text))


def clusters():
    """Only what matters below six bytes: from there on the reference looks at code points alone."""
    count = count_clusters()
    assert [count(t) for t in ("ab", "e\u0301", "\r\n", "\u0600a", "\u00a9\u200d\u00ae")] == [2, 1, 1, 1, 3]
    table = {}
    for c in POINTS:
        ch = chr(c)
        if c == 0:
            table[c] = CONTROL
        elif count("a" + ch) == 1:
            table[c] = EXTEND
        elif count(ch + "a") == 1:
            table[c] = PREPEND
        elif len(ch.encode()) < 4 and count(ch + "\u0301") == 2:
            table[c] = CONTROL
        elif count("\u00a9\u200d" + ch) == 3:
            table[c] = PICTOGRAPHIC
    return table


def runs(table):
    """[(first, last, value)] of equal neighbors with a value other than 0."""
    out = []
    for c in sorted(table):
        if not table[c]:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == table[c]:
            out[-1][1] = c
        else:
            out.append([c, c, table[c]])
    return out


def lower_runs(lower):
    """[(first, last, step, to)]: every step-th code point from first to last moves by the same distance."""
    singles = sorted((c, ord(s)) for c, s in lower.items() if len(s) == 1)
    out = []
    for c, to in singles:
        if out:
            first, last, step, base = out[-1]
            gap = c - last
            if to - c == base - first and (gap == step or (first == last and gap <= 2)):
                out[-1] = (first, c, gap, base)
                continue
        out.append((c, c, 1, to))
    again = {c: c - first + to for first, last, step, to in out for c in range(first, last + 1, step)}
    assert again == dict(singles)
    return out


def rows(items, per_line):
    return "".join("    " + " ".join(items[i:i + per_line]) + "\n" for i in range(0, len(items), per_line))


def main(path):
    table, (decompose, lower), classes = flags(), mappings(), combining_classes()
    composed, compat, cluster_runs = compositions(decompose), compatibility(), runs(clusters())
    pool, places = [], []
    for c, parts in sorted(compat.items()):
        places.append((c, len(pool), len(parts)))
        pool += map(ord, parts)
    flag_runs, class_runs, low = runs(table), runs(classes), lower_runs(lower)
    kind_runs = runs(kinds())
    parts = [(c, [ord(p) for p in s]) for c, s in sorted(decompose.items())]
    print(f"{len(flag_runs)} runs of flags, {len(class_runs)} of classes, {len(low)} of lower case, "
          f"{len(parts)} decompositions, longest {max(len(p) for _, p in parts)}, {len(composed)} compositions, "
          f"{len(places)} compatible ones of {len(pool)} parts, {len(cluster_runs)} runs of cluster breaks")
    with open(path, "w") as f:
        f.write(f"""// Made by tools/extract_unicode.py from the behavior of tokenizers {tokenizers.__version__}; do not edit.
#include "text/unicode/tables.h"

// clang-format off

namespace bertie::text {{

// first, last, flags
const FlagRun kFlagRuns[] = {{
{rows([f"{{0x{a:X},0x{b:X},{v}}}," for a, b, v in flag_runs], 6)}}};
const size_t kFlagRunCount = {len(flag_runs)};

// first, last, canonical combining class
const FlagRun kClassRuns[] = {{
{rows([f"{{0x{a:X},0x{b:X},{v}}}," for a, b, v in class_runs], 6)}}};
const size_t kClassRunCount = {len(class_runs)};

// first, last, kind
const FlagRun kKindRuns[] = {{
{rows([f"{{0x{a:X},0x{b:X},{v}}}," for a, b, v in kind_runs], 6)}}};
const size_t kKindRunCount = {len(kind_runs)};

// first, last, step, what first becomes
const LowerRun kLowerRuns[] = {{
{rows([f"{{0x{a:X},0x{b:X},{s},0x{t:X}}}," for a, b, s, t in low], 5)}}};
const size_t kLowerRunCount = {len(low)};

// code point, how many parts, the parts
const Decomposition kDecompositions[] = {{
{rows([f"{{0x{c:X},{len(p)},{{" + ",".join(f"0x{x:X}" for x in p) + "}}," for c, p in parts], 5)}}};
const size_t kDecompositionCount = {len(parts)};

// first, second, what they compose
const Composition kCompositions[] = {{
{rows([f"{{0x{a:X},0x{b:X},0x{c:X}}}," for (a, b), c in sorted(composed.items())], 6)}}};
const size_t kCompositionCount = {len(composed)};

// code point, place in kCompatibleParts, how many
const Compatible kCompatible[] = {{
{rows([f"{{0x{c:X},{at},{n}}}," for c, at, n in places], 8)}}};
const size_t kCompatibleCount = {len(places)};
const uint32_t kCompatibleParts[] = {{
{rows([f"0x{p:X}," for p in pool], 16)}}};

// first, last, Cluster
const FlagRun kClusterRuns[] = {{
{rows([f"{{0x{a:X},0x{b:X},{v}}}," for a, b, v in cluster_runs], 6)}}};
const size_t kClusterRunCount = {len(cluster_runs)};

}}  // namespace bertie::text
""")


if __name__ == "__main__":
    main(sys.argv[1])
