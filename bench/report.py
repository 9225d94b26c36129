# SPDX-License-Identifier: MIT
"""The tables of docs/performance.md, from the figures of bench/run.py; the words around them are written by hand."""
import re
import statistics

import picture


def groups(report):
    """{group: its rows that have a peer's figure}"""
    found = {}
    for row in report["rows"]:
        if "ratio" in row:
            found.setdefault(row["group"], []).append(row)
    return found


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(rows):
    tinygrad = any("tinygrad" in row for row in rows)
    lines = ["| work | beamline | peer | ratio (quartiles) | goal |" + (" tinygrad CPU, CL |" if tinygrad else ""),
             "| --- | --- | --- | --- | --- |" + (" --- |" if tinygrad else "")]
    for row in rows:
        cells = [row["title"], f"{rate(row['beamline'])} {row['unit']}", f"{row['peer']} {rate(row['peer_rate'])}",
                 f"**{row['ratio']:.2f}** ({row['ratio_low']:.2f} to {row['ratio_high']:.2f})", f"{row['goal']:g}{'' if row['ratio'] >= row['goal'] else ', missed'}"]
        if tinygrad:
            rates = row.get("tinygrad", {})
            cells.append(", ".join(rate(rates[f"tinygrad {device}"]) if f"tinygrad {device}" in rates else "-" for device in ("CPU", "CL")))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def moves(rows):
    """What the heuristic chose for each kernel of the rows that tell."""
    lines = []
    for row in rows:
        for kernel, list_of in row.get("moves", {}).items():
            lines.append(f"{row['title']:<28} {kernel}: {list_of}")
    return ["", "```", *lines, "```"] if lines else []


def section(report, group, rows):
    dates = sorted(row["date"][:16].replace("T", " ") for row in rows)
    lines = table(rows) + moves(rows)
    if group == "matmul":
        flat = [row["ratio"] for row in rows if "³" not in row["title"]]
        lines += ["", f"Mean of the {len(flat)} that are no cubes: {statistics.mean(flat):.2f}." if flat else ""]
    return "\n".join([f"![{group}](bench_{group}.svg)", "", *lines, "", f"Measured {dates[0]} to {dates[-1]} UTC, {report['machine']['cpu']}, "
                      f"{report['machine']['threads']} threads; peer: {', '.join(sorted({row['peer_version'] for row in rows}))}."])


def write(report, docs):
    """Put tables between their marks in performance.md, and the pictures beside it."""
    path = docs / "performance.md"
    text = path.read_text()
    for group, rows in groups(report).items():
        begin, end = f"<!-- {group}: begin -->", f"<!-- {group}: end -->"
        text = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n{section(report, group, rows)}\n{end}", text, flags=re.DOTALL)
        (docs / f"bench_{group}.svg").write_text(picture.draw(report, group, rows))
    path.write_text(text)
