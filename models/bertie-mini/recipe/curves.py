#!/usr/bin/env python3
"""Draws the curves of training.jsonl: loss of masked words, and shares of masked words and next sentences that were right.

    curves.py training.jsonl > curves.svg
"""
import json
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, GAP = 760, 260, 46, 34, 30, 60
PANEL = (WIDTH - 2 * LEFT - GAP) / 2


def panel(x0, title, unit, most, lines):
    """lines: (name, color, [(tokens, value)])"""
    end = max(tokens for _, _, points in lines for tokens, _ in points)
    x = lambda tokens: x0 + PANEL * tokens / end
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most)
    yield f'<text x="{x0}" y="16" font-weight="bold">{title}</text>'
    for i in range(5):
        value = most * i / 4
        yield f'<line x1="{x0}" x2="{x0 + PANEL:.1f}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#8884"/>'
        yield f'<text x="{x0 - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}{unit}</text>'
    step = next(s for s in (1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9) if end / s <= 6)
    for i in range(int(end / step) + 1):
        yield f'<text x="{x(i * step):.1f}" y="{HEIGHT - 14}" text-anchor="middle">{i * step / 1e6:g} M</text>'
    for at, (name, color, points) in enumerate(lines):
        path = " ".join(f"{x(t):.1f},{y(min(v, most)):.1f}" for t, v in points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.6"/>'
        yield f'<text x="{x0 + PANEL - 4:.1f}" y="{HEIGHT - BOTTOM - 22 + 14 * at}" text-anchor="end" fill="{color}">{name}</text>'


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        log = [json.loads(line) for line in file]
    if not any("tokens" in entry for entry in log):
        raise SystemExit(f"{sys.argv[1]} has no line with tokens: it is no log of a run, or of one that has just begun")
    steps = {entry["step"]: entry["tokens"] for entry in log if "tokens" in entry}
    learned = lambda key, scale=1: [(e["tokens"], scale * e[key]) for e in log if "tokens" in e and key in e]

    def held_out(key, scale=1):
        for e in log:
            if f"held_out_{key}" in e:
                before = max((s for s in steps if s <= e["step"]), default=None)
                yield (steps[before] if before else 0), scale * e[f"held_out_{key}"]

    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" '
          'fill="#777">')
    parts = [*panel(LEFT, "Loss of masked words, by tokens read", "", 8,
                    [("training", "#4e79a7", learned("token_loss")), ("held out", "#e15759", list(held_out("token_loss")))]),
             *panel(LEFT + PANEL + GAP, "Right, held out, by tokens read", "%", 100,
                    [("next sentences", "#f28e2b", list(held_out("label_accuracy", 100))),
                     ("masked words", "#59a14f", list(held_out("token_accuracy", 100)))])]
    print("\n".join(parts) + "\n</svg>")


if __name__ == "__main__":
    main()
