# SPDX-License-Identifier: MIT
"""The pictures of bench/run.py as SVG text: our rate divided by the peer's rate, on a logarithmic scale, one picture per group
of rows."""
import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, TOP, ROW = 760, 250, 150, 64, 40
INK, LINE, OURS, GOAL = "#57606a", "#8c959f55", "#2f6fd0", "#d0572f"


def draw(report, group, rows):
    """Returns the SVG text of a group's rows; each row has a ratio."""
    top = max(2.0, 2 ** math.ceil(math.log2(max(max(row["ratio"], row["goal"]) for row in rows))))
    bottom = min(0.5, 2 ** math.floor(math.log2(min(min(row["ratio"], row["goal"]) for row in rows))))

    def at(ratio):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(ratio / bottom) / math.log(top / bottom)

    height = TOP + ROW * len(rows) + 40
    machine = report["machine"]
    peers = " and ".join(sorted({row["peer"] for row in rows}))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif" font-size="12" '
             f'fill="{INK}">',
             f'<text x="16" y="22" font-size="14">{escape(group)}: beamline ({escape(report["device"])}) beside {escape(peers)}</text>',
             f'<text x="16" y="40">{escape(machine["cpu"])}, {machine["threads"]} threads; longer is faster, the mark is the goal</text>']
    ratio = bottom
    while ratio <= top:
        parts.append(f'<path d="M{at(ratio):.1f} {TOP - 8} V{height - 34}" stroke="{INK if ratio == 1 else LINE}"/>')
        parts.append(f'<text x="{at(ratio):.1f}" y="{height - 18}" text-anchor="middle">{ratio:g}×</text>')
        ratio *= 2
    for i, row in enumerate(rows):
        y = TOP + ROW * i
        parts.append(f'<text x="16" y="{y + 16}">{escape(row["title"])}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 2}" width="{max(at(row["ratio"]) - LEFT, 1):.1f}" height="20" rx="2" fill="{OURS}"/>')
        parts.append(f'<path d="M{at(row["goal"]):.1f} {y - 2} v28" stroke="{GOAL}" stroke-width="3"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{y + 16}">{row["ratio"]:.2f}×, {row["beamline"]:,.0f} {escape(row["unit"])}</text>')
    return "\n".join(parts) + "\n</svg>\n"
