#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the rendered kernel texts with the golden, or between two builds.

    tools/texts.py [--build BUILD]             compare with the golden, tests/texts (exit status 1: a text differs)
    tools/texts.py --renew [--build BUILD]     write the golden anew
    tools/texts.py --diff OLD [--build BUILD]  print the differences to the texts of OLD, a build folder or a commit
    tools/texts.py --write FOLDER              write all texts, one file per kernel

--only REGEX selects documents by name, --device REGEX selects devices.  BUILD is a build folder with the targets "try" and
"documents" made, by default build/.  A commit is built in build/commits/.

The kernels are those of every document of tests/cases, of tests/drivers/large.json, of tests/ptx/graphs.py, of every row of
tests/opt/forms.c, and of products with a weight of each block-quantised type, for every device that tests/render/described.c
describes.  Rendering calls no driver and uses neither stored kernels nor a search, so the texts are equal on all machines.
tests/texts/DEVICE.txt has a line per entry: its name, then a short hash of each kernel's text in the order of launches, or the
status with which the device refuses the entry.

The golden is that of gcc with any options.  C leaves the evaluation order of arguments to the compiler.  This order determines
the order in which nodes are made, and thereby the order of sums and the numbers in texts; clang's order differs.  A comparison
of a build by clang ends with status 77.
"""
import argparse
import concurrent.futures
import difflib
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "ptx"))
import graphs  # noqa: E402

GOLDEN = ROOT / "tests" / "texts"
WORDS = {"winograd": ("winograd",)}  # additional arguments of try for documents of tests/cases
HIGH = ("matrix_units", "products")  # documents that are also rendered with split float32 products for bfloat16 matrix units
SHOWN = 20  # largest number of differing entries per device in the output of a comparison


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def rendered(build, device, path, *words):
    """Renders a program document.  Returns {entry: [(kernel, moves, text)]}; an entry that the device refuses has the status
    instead of the list."""
    status, out, said = run(build / "try", device, path, "4", "compile", *words)
    entries = re.findall(r"^entry (\S*): status (\S+) (.*)", out, re.M)
    bad = [f"{name}: {word} {told}" for name, word, told in entries if word not in ("OK", "EUNSUPPORTED")]
    if bad or not entries:
        raise RuntimeError(f"{device}, {path.name}, status {status}: {bad[:1] or said or out[-400:]}")
    *plans, _ = re.split(r"^scheduled .*\n", out, flags=re.M)
    found = {name: word for name, word, _ in entries}
    for name, plan in zip([name for name, word, _ in entries if word == "OK"], plans, strict=True):
        parts = re.split(r"^kernel (\S+): (.*)\n", plan, flags=re.M)
        found[name] = list(zip(parts[1::3], parts[2::3], parts[3::3]))
    return found


def is_by_clang(build):
    return "Clang" in run(build / "try")[2].rpartition("compiled by")[2]


def described(build):
    """Returns the described devices of |build|."""
    return re.findall(r"\bas:\w+", run(build / "try")[2])


def documents(build, folder):
    """Returns [(name, path, arguments of try)] of all program documents; writes documents without a file to |folder|."""
    cases = [(path.stem, path, WORDS.get(path.stem, ())) for path in sorted((ROOT / "tests" / "cases").glob("*.json"))]
    cases += [(f"{name}_high", ROOT / "tests" / "cases" / f"{name}.json", ("high",)) for name in HIGH]
    cases.append(("large", ROOT / "tests" / "drivers" / "large.json", ()))
    status, out, said = run(build / "documents")
    if status != 0:
        raise RuntimeError(said)
    for name, document in {"sizes": {"entries": graphs.all_graphs()}, **json.loads(out)}.items():
        path = pathlib.Path(folder) / f"{name}.json"
        path.write_text(json.dumps(document))
        cases.append((name, path, ()))
    return cases


def all_texts(build, options, source=None):
    """Returns {device: {entry: [(kernel, moves, text)]}}; the documents are those of the build |source|."""
    with tempfile.TemporaryDirectory() as folder:
        cases = [case for case in documents(source or build, folder) if re.search(options.only, case[0])]

        def of_device(device):
            return device, {f"{case}.{entry}": kernels for case, path, words in cases for entry, kernels in rendered(build, device, path, *words).items()}

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(pool.map(of_device, [device for device in described(source or build) if re.search(options.device, device)]))


# ---- the golden

def short_hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def is_chosen(entry, options):
    return re.search(options.only, entry.rpartition(".")[0])


def golden_path(device, folder):
    return folder / f"{device.removeprefix('as:')}.txt"


def golden_lines(entries):
    return {name: [kernels] if isinstance(kernels, str) else [short_hash(text) for _, _, text in kernels] for name, kernels in entries.items()}


def read_golden(device, folder):
    path = golden_path(device, folder)
    lines = path.read_text().splitlines() if path.exists() else []
    return {name: hashes for name, *hashes in map(str.split, lines)}


def write_golden(device, lines, folder):
    folder.mkdir(exist_ok=True)
    golden_path(device, folder).write_text("".join(f"{' '.join([name, *hashes])}\n" for name, hashes in sorted(lines.items())))


def differences(old, new):
    """Yields a sentence for each entry whose kernels differ."""
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{name}: the golden has it, and no document does"
        elif name not in old:
            yield f"{name}: the golden does not have it"
        elif len(old[name]) != len(new[name]):
            yield f"{name}: {len(new[name])} kernels; the golden has {len(old[name])}"
        elif old[name] != new[name]:
            changed = [str(i) for i, (a, b) in enumerate(zip(old[name], new[name])) if a != b]
            yield f"{name}: kernel {', '.join(changed)} of {len(new[name])}"


def compare(found, options):
    """Whether |found| has the golden's texts; prints the differences."""
    same = True
    for device, entries in found.items():
        old = {name: hashes for name, hashes in read_golden(device, options.golden).items() if is_chosen(name, options)}
        told = list(differences(old, golden_lines(entries)))
        same = same and not told
        for line in told[:SHOWN]:
            print(f"{device} {line}")
        if len(told) > SHOWN:
            print(f"{device} and {len(told) - SHOWN} other entries")
    if not same:
        print("If this is meant: tools/texts.py --diff COMMIT shows how they differ, and --renew keeps the new texts.")
    return same


def renew(found, options):
    for device, entries in found.items():
        kept = {name: hashes for name, hashes in read_golden(device, options.golden).items() if not is_chosen(name, options)}
        write_golden(device, {**kept, **golden_lines(entries)}, options.golden)


# ---- texts

def files(entries):
    """Returns {entry.number: text} of a device's entries; the first line of a text has the kernel and its moves."""
    return {f"{name}.{number}": f"// {kernel}: {moves}\n{text}" for name, kernels in entries.items() if not isinstance(kernels, str)
            for number, (kernel, moves, text) in enumerate(kernels)}


def write_texts(found, folder):
    for device, entries in found.items():
        (folder / device).mkdir(parents=True, exist_ok=True)
        for name, text in files(entries).items():
            (folder / device / name).write_text(text)


def rest(text):
    """The text without its first line."""
    return text.partition("\n")[2]


def print_diff(old, new):
    """Whether all texts are equal; prints the diffs of differing texts with their moves."""
    changed = total = 0
    for device, entries in new.items():
        before, after = files(old[device]), files(entries)
        for name in sorted(before.keys() | after.keys()):
            a, b = before.get(name, ""), after.get(name, "")
            total += 1
            if rest(a) != rest(b):
                changed += 1
                sys.stdout.writelines(difflib.unified_diff(a.splitlines(True), b.splitlines(True), f"old/{device}/{name}", f"new/{device}/{name}"))
    print(f"{changed} of {total} kernels differ", file=sys.stderr)
    return changed == 0


def build_of(name, target="try"):
    """Returns a build folder with |target| made: the folder |name|, or the build of the commit |name|."""
    if (pathlib.Path(name) / "build.ninja").exists():
        build = pathlib.Path(name).resolve()
        if not (build / target).exists():
            sys.exit(f"{build} lacks {target}: ninja -C {build} {target}")
        return build
    status, commit, said = run("git", "-C", ROOT, "rev-parse", "--verify", f"{name}^{{commit}}")
    if status != 0:
        sys.exit(f"{name} is neither a build folder nor a commit: {said.strip()}")
    tree = ROOT / "build" / "commits" / commit.strip()
    build = tree / "build"
    if not tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", tree, commit.strip()], check=True, stdout=sys.stderr)
    if not (build / "build.ninja").exists():
        subprocess.run(["meson", "setup", build, tree, "--buildtype=release", "-Dwerror=false", "-Dtests=false"], check=True, stdout=sys.stderr)
    subprocess.run(["ninja", "-C", build, target], check=True, stdout=sys.stderr)
    return build


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder whose texts are taken (default build)")
    parser.add_argument("--golden", type=pathlib.Path, default=GOLDEN, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="REGEX", default="", help="documents, by name: attention")
    parser.add_argument("--device", metavar="REGEX", default="", help="devices, by id: as:h100")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--renew", action="store_true", help="write the golden anew")
    what.add_argument("--diff", metavar="OLD", help="print how texts differ from those of a build folder or a commit")
    what.add_argument("--write", metavar="FOLDER", type=pathlib.Path, help="write all texts, one file a kernel")
    return parser.parse_args(words)


def main(words):
    options = parse(words)
    build = options.build.resolve()
    if not os.access(build / "try", os.X_OK) or not os.access(build / "documents", os.X_OK):
        sys.exit(f"{build} lacks try or documents: ninja -C {build} try documents")
    if not (options.diff or options.write) and is_by_clang(build):
        print(f"the golden is that of gcc, and {build} is by clang")
        return 77
    old = options.diff and all_texts(build_of(options.diff), options, build)
    found = all_texts(build, options)
    if options.renew:
        renew(found, options)
    elif options.write:
        write_texts(found, options.write)
    elif options.diff:
        return 0 if print_diff(old, found) else 1
    else:
        return 0 if compare(found, options) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
