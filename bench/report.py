#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the measured tables of docs/performance.md from the rows of bench/run.py, and README's table.

    bench/report.py    write README's table again from the current docs/performance.md

README's table has some rows of docs/performance.md.  The text around the tables is written by hand.
"""
import pathlib
import re
import statistics

import picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- rows of docs/performance.md: begin -->", "<!-- rows of docs/performance.md: end -->"
CROSSED = {"depthwise"}  # groups with many rows: their table has one column per variant of a work, and no picture
# title of a row in docs/performance.md -> title in README
README = {"MLP 784-128-10, b 128, SGD": "MLP 784-128-10, batch 128, SGD",
          "beautiful_mnist, b 64, Adam": "tinygrad's beautiful_mnist, batch 64, Adam",
          "GPT, 2 layers, d 128, T 128, b 8": "GPT of 2 layers, width 128, Adam",
          "1024³": "matmul 1024³ float32",
          "128→128 30² k3 b8, gradients": "convolution 128→128, 30², 3 × 3, with gradients",
          "1×8×4096×64": "attention, 8 heads of 4,096 × 64",
          "softmax 65536×1024": "row softmax 65536×1024",
          "150 dependent tiny operations": "150 dependent tiny operations"}


def groups(report):
    """Returns {group: its rows with a peer's figure}."""
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


def cross_table(rows):
    """Returns the lines of a table with a row per work and a column per variant.  A row's title is "work, variant"; without a
    variant, the column is "forward"."""
    works, parts = {}, {}
    for row in rows:
        work, _, part = row["title"].partition(", ")
        works.setdefault(work, {})[part or "forward"] = row
        parts[part or "forward"] = True
    lines = [f"| {rows[0]['unit']}; times {rows[0]['peer']}'s rate | " + " | ".join(parts) + " |", "| --- |" + " --- |" * len(parts)]
    for work, found in works.items():
        cells = [f"{rate(found[part]['beamline'])}; **{found[part]['ratio']:.2f}**" if part in found else "-" for part in parts]
        lines.append(f"| {work} | " + " | ".join(cells) + " |")
    missed = [f"{row['title']} ({row['ratio']:.2f})" for row in rows if row["ratio"] < row["goal"]]
    return [*lines, "", f"Below {rows[0]['goal']:g}, the goal: " + (", ".join(missed) if missed else "none") + f" of {len(rows)}."]


def moves(rows):
    """Returns the moves that the heuristic chose for each kernel of the rows with moves."""
    lines = []
    for row in rows:
        for kernel, list_of in row.get("moves", {}).items():
            lines.append(f"{row['title']:<28} {kernel}: {list_of}")
    return ["", "```", *lines, "```"] if lines else []


def measured(report, rows):
    dates = sorted(row["date"][:16].replace("T", " ") for row in rows)
    return (f"Measured {dates[0]} to {dates[-1]} UTC, {report['machine']['cpu']}, {report['machine']['threads']} threads; peer: "
            f"{', '.join(sorted({row['peer_version'] for row in rows}))}.")


def section(report, group, rows):
    if group in CROSSED:
        return "\n".join([*cross_table(rows), "", measured(report, rows)])
    lines = table(rows) + moves(rows)
    if group == "matmul":
        flat = [row["ratio"] for row in rows if "³" not in row["title"]]
        lines += ["", f"Mean of the {len(flat)} rows whose matrices are not cubes: {statistics.mean(flat):.2f}." if flat else ""]
    return "\n".join([f"![{group}](bench_{group}.svg)", "", *lines, "", measured(report, rows)])


def write(report, docs):
    """Replaces the tables between their marks in performance.md, and writes the pictures."""
    path = docs / "performance.md"
    text = path.read_text()
    for group, rows in groups(report).items():
        begin, end = f"<!-- {group}: begin -->", f"<!-- {group}: end -->"
        text = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n{section(report, group, rows)}\n{end}", text, flags=re.DOTALL)
        if group not in CROSSED:
            (docs / f"bench_{group}.svg").write_text(picture.draw(report, group, rows))
    path.write_text(text)
    write_readme()


def readme_table(performance):
    """README's table, from rows of docs/performance.md."""
    lines = ["| work | beamline | peer | ratio (quartiles) |", "| --- | --- | --- | --- |"]
    for title, shown in README.items():
        row = re.search(rf"^\| {re.escape(title)} \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", performance, re.M)
        if row is None:
            raise SystemExit(f"docs/performance.md has no row {title!r}")
        lines.append(f"| {shown} | {row[1]} | {row[2]} | {row[3].replace('**', '')} |")
    return "\n".join(lines)


def write_readme():
    text = (ROOT / "README.md").read_text()
    rows = readme_table((ROOT / "docs" / "performance.md").read_text())
    (ROOT / "README.md").write_text(re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n{rows}\n{END}", text, flags=re.DOTALL))


if __name__ == "__main__":
    write_readme()
