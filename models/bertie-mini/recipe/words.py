#!/usr/bin/env python3
"""Takes sentences out of texts, evenly spread, and puts spaces between their words, as CoNLL-2003 has them.

    words.py TEXT COUNT [TEXT COUNT ...] > words.txt
"""
import re
import sys

WORDS = re.compile(r"(?:[A-Z]\.){2,}|['’](?:s|re|ve|ll|d|m)\b|\w+(?:-\w+)*|\.\.\.|[^\w\s]")
END = re.compile(r"(?<=[a-z0-9\")][.!?]) +(?=[\"A-Z])")


def sentences(file):
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            for sentence in END.split(line.strip()):
                words = WORDS.findall(sentence)
                text = " ".join(words)
                # A name is missing where a comma follows a comma, or where it does not begin with a capital.
                if 5 <= len(words) <= 50 and re.match(r"\W{0,2}[A-Z]", text) and ", ," not in text:
                    yield text


def main():
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0:
        raise SystemExit(__doc__)
    for file, count in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
        found = list(sentences(file))
        every = max(1, len(found) // count)
        print("\n".join(found[::every][:count]))


if __name__ == "__main__":
    main()
