#!/usr/bin/env python3
"""Asks Python's str.lower() which code points have case and which are looked through when a capital sigma may
end a word, and writes src/train/metrics/case_tables.cc from the answers.

    python3 tools/make_case_tables.py src/train/metrics/case_tables.cc
"""
import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def has_case(c):
    return (chr(c) + "\u03a3").lower()[-1] == "\u03c2"


def is_ignorable(c):
    return not has_case(c) and ("\u03b1" + chr(c) + "\u03a3").lower()[-1] == "\u03c2"


def runs(test):
    out = []
    for c in filter(test, POINTS):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def table(name, test):
    lines, line = [], "   "
    for first, last in runs(test):
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > 110:
            lines.append(line)
            line = "   "
        line += item
    return (f"constexpr PointRun {name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n")


def main():
    with open(sys.argv[1], "w") as out:
        out.write(f"""// Made by tools/make_case_tables.py with Unicode {unicodedata.unidata_version}; not to be edited.
#include "train/metrics/case_tables.h"

#include <algorithm>
#include <span>

namespace bertie::metrics {{
namespace {{

struct PointRun {{
  uint32_t first, last;
}};

// clang-format off
{table("kCased", has_case)}
{table("kIgnorable", is_ignorable)}// clang-format on

bool is_in(std::span<const PointRun> runs, uint32_t point) {{
  const auto after = std::upper_bound(runs.begin(), runs.end(), point,
                                      [](uint32_t p, const PointRun& run) {{ return p < run.first; }});
  return after != runs.begin() && point <= (after - 1)->last;
}}

}}  // namespace

bool has_case(uint32_t point) {{ return is_in(kCased, point); }}
bool is_case_ignorable(uint32_t point) {{ return is_in(kIgnorable, point); }}

}}  // namespace bertie::metrics
""")


if __name__ == "__main__":
    main()
