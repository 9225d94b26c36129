#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Write the measured tables of docs/performance.md from the rows of bench/run.py, networks.py and llm.py, and README's table.

    bench/report.py    write README's table again from the current docs/performance.md

README's table has some rows of docs/performance.md.  The text around the tables is written by hand.
"""
import json
import pathlib
import re
import statistics
import textwrap

import peers
import picture

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- rows of docs/performance.md: begin -->", "<!-- rows of docs/performance.md: end -->"
COLUMNS = 120  # of the lines of docs/
CROSSED = {"depthwise", "networks", "llm"}  # groups with many rows: their table has one column per variant of a work, and no picture
# title of a row in docs/performance.md -> title in README
README = {"MLP 784-128-10, b 128, SGD": "MLP 784-128-10, batch 128, SGD",
          "beautiful_mnist, b 64, Adam": "tinygrad's beautiful_mnist, batch 64, Adam",
          "GPT, 2 layers, d 128, T 128, b 8": "GPT of 2 layers, width 128, Adam",
          "1024³": "matmul 1024³ float32",
          "128→128 30² k3 b8, gradients": "convolution 128→128, 30², 3 × 3, with gradients",
          "1×8×4096×64": "attention, 8 heads of 4,096 × 64",
          "softmax 65536×1024": "row softmax 65536×1024",
          "150 dependent tiny operations": "150 dependent tiny operations"}


# ---- the options and the JSON of a comparison

def add_options(parser, names, seconds, rounds):
    """Adds the options that all comparisons have."""
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--seconds", type=float, default=seconds, help="of a slice")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true", help="three short rounds: to see that all runs, not for figures")
    parser.add_argument("--only", default=",".join(names), help="names, or their first words, separated by commas (default %(default)s)")
    parser.add_argument("--out", default=str(ROOT / "bench" / "out"), help="folder for JSON and pictures")
    parser.add_argument("--update", action="store_true", help="keep the rows of the last run that this one does not measure")
    parser.add_argument("--docs", action="store_true", help="write the tables and pictures into docs/performance.md too")


def parse(parser, words=None):
    options = parser.parse_args(words)
    if options.quick:
        options.seconds, options.rounds = 0.05, 3
    return options


def chosen(names, options):
    """The names that --only selects."""
    return [name for name in names if any(name == word or name.startswith(word + "_") for word in options.only.split(","))]


def parse_rows(parser, words, names):
    """Options with the rows of |names| that --only selects."""
    options = parse(parser, words)
    options.rows = chosen(names, options)
    if not options.rows:
        parser.error(f"--only {options.only}: there is no such row; there are {', '.join(names)}")
    return options


def begin(file, options):
    """A report without rows, or with --update the report of the last run."""
    path = pathlib.Path(options.out) / file
    kept = json.loads(path.read_text()) if options.update and path.is_file() else {"rows": []}
    return {**kept, "machine": peers.machine(), "device": options.device}


def put(report, names, row):
    """Adds a row, or replaces the row of its name; |names| is the order of all rows."""
    done = {**{each["name"]: each for each in report["rows"]}, row["name"]: row}
    report["rows"] = [done[name] for name in names if name in done]


def finish(report, file, options):
    """Writes the report, its pictures and, with --docs, its tables.  Returns the exit status: 1 if a result is wrong."""
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / file).write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{out / file}")
    for group, rows in groups(report).items():
        if group not in CROSSED:
            (out / f"bench_{group}.svg").write_text(picture.draw(report, group, rows))
    if options.docs:
        write(report, ROOT / "docs")
    return 1 if any(row.get("wrong") for row in report["rows"]) else 0


def print_row(row):
    line = f"{row['title']:<34} {row['beamline']:>9.1f} {row.get('beamline_wall', row['beamline']):>9.1f}"
    if "ratio" in row:
        line += f" {row['peer_rate']:>9.1f} {row['peer_best']:<8} {row['ratio']:>6.2f}x {row['goal']:>5.2f}x {' ' if row['ratio'] >= row['goal'] else '<'}"
    line += "".join(f" {label} {rate:.2f}" for label, rate in row.get("tinygrad", {}).items())
    if row.get("wrong"):
        line += "  wrong: " + (f"the losses differ: {row['losses']}, {row['peer_losses']}" if "losses" in row else ", ".join(map(result_text, row["results"])))
    print(line + f"  {row['unit']}", flush=True)
    for label, why in row.get("left_out", {}).items():
        print(f"{'':<34} without {label}: {why.strip().splitlines()[0]}")


def print_heads(report):
    print(f"{report['machine']['cpu']}, {report['machine']['threads']} threads, {report['device']}\n")
    print(f"{'':<34} {'beamline':>9} {'(HTTP)':>9} {'peer':>9} {'':<8} {'ratio':>7} {'goal':>6}")


def print_mean(rows):
    """Prints the geometric mean of the ratios and the least of them."""
    ratios = {row["title"]: row["ratio"] for row in rows if "ratio" in row}
    if ratios:
        least = min(ratios, key=ratios.get)
        print(f"geometric mean of {len(ratios)} rows: {statistics.geometric_mean(ratios.values()):.2f}; the least is {ratios[least]:.2f}, {least}")


def result_text(result):
    """What is wrong with a result that a peer has compared with its own."""
    worst = f" (by {result['worst']:.3g} times the bound)" if result["worst"] is not None else f" ({result['why']})"
    return f"{result['apart']:.2g} of the elements differ{worst}"


# ---- tables

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
    goals = sorted({row["goal"] for row in rows})
    return [*lines, "", wrapped(f"Below {' to '.join(f'{goal:g}' for goal in {goals[0]: 0, goals[-1]: 0})}, the goal: "
            + (", ".join(missed) if missed else "none") + f" of {len(rows)}; the geometric mean is {statistics.geometric_mean(row['ratio'] for row in rows):.2f}.")]


def wrapped(text):
    return textwrap.fill(text, COLUMNS, break_long_words=False, break_on_hyphens=False)


def moves(rows):
    """Returns the moves that the heuristic chose for each kernel of the rows with moves."""
    lines = []
    for row in rows:
        for kernel, list_of in row.get("moves", {}).items():
            lines.append(f"{row['title']:<28} {kernel}: {list_of}")
    return ["", "```", *lines, "```"] if lines else []


def measured(report, rows):
    dates = sorted(row["date"][:16].replace("T", " ") for row in rows)
    return wrapped(f"Measured {dates[0]} to {dates[-1]} UTC, {report['machine']['cpu']}, {report['machine']['threads']} threads; peer: "
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
