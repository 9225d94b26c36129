#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Build and run all tests, and end with one line: N passed, N failed, N skipped.

    tests/run.py [--full] [--long] [WORD...]    only the parts whose name contains one of the words
    tests/run.py [--full] [--long] --list       name the parts

Without --full and without words, slow tests are omitted: the parts of FULL, the files of FULL_FILES, and the unit tests whose
entry in a meson.build has the suite "full".

Two parts run at a time, since most tests wait more than they compute; the output of a part is printed at its end.  A failed
Python test runs once more at the end, alone, and is reported as unsteady if it then passes, since tests with time limits share
the machine with other parts.  A folder with more than a few failures is broken, not unsteady.

Parts: generated files, layers, texts (the text golden), format, clang (its warnings), cppcheck, tidy; unit (cmocka tests, with
ASan and UBSan); one part for each folder of Python tests (test_*.py, unittest) under tests/, with the plain build of the
server; tsan, mixed requests to a server with ThreadSanitizer.  --long adds long, which takes hours and resumes after a stop:
random graphs on all levels and devices, and kernels with random moves (`--long long` runs it alone); and races, the Python
tests of the server under ThreadSanitizer.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAIN, ASAN, TSAN = ROOT / "build", ROOT / "build-asan", ROOT / "build-tsan"
JOBS = str(os.cpu_count() or 2)
LANES = 2             # number of concurrent parts
# Parts that run only with --full or by name.
FULL = ("clang", "cppcheck", "tidy", "tsan", "amx", "api", "drivers", "fuzz", "packaging", "page", "ptx")
# Slow files of Python tests by folder, which run only with --full or by the folder's name.
FULL_FILES = {"http": ("test_job_restarts", "test_faults", "test_lifecycle", "test_caches", "test_children", "test_fair", "test_background"), "torch": ("test_attention",),
              "llm": ("test_device_memory",)}
SLOWEST = ("unit", "http", "models", "torch", "tsan")  # these start first, so that the lanes end at about the same time
FOLDER_SECONDS = 1500  # limit for a folder of Python tests
TSAN_MINUTES = 0.5     # duration of mixed requests under ThreadSanitizer
RACES = {"http": 90, "models": 20, "operations": 10}  # folders of Python tests that run under ThreadSanitizer, with their limits in minutes
MOST_UNSTEADY = 3     # tests of a folder that are tried again
TIDY_FILES = 12       # a sample, since all files take minutes
LONG_MOVES = {"interp": 100000, "opencl": 2000, "vulkan": 2000}  # number of kernels with random moves, compared with kernels without moves
MOVES_SLICE = 300     # kernels per slice: minutes on a driver
EMULATED = ["libemulated_amx.so"] if platform.machine() == "x86_64" else []  # for tests/amx
C_FOLDERS = ("engine", "proto", "server", "opencl", "vulkan", "tests", "tools")


class Tally:
    """The results of some tests, and the messages about them."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures, self.unsteady, self.said = [], [], []
        self.again = []  # (folder, test): to be tried again alone

    def add(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped

    def say(self, text):
        self.said.append(text.rstrip())

    def fail(self, name, text=""):
        self.failed += 1
        self.failures.append(name)
        self.say(f"FAILED {name}\n{text}")

    def take(self, other):
        """Adds the results of another tally."""
        self.add(other.passed, other.failed, other.skipped)
        for mine, theirs in ((self.failures, other.failures), (self.unsteady, other.unsteady), (self.again, other.again)):
            mine.extend(theirs)


def command(*words, env=None, seconds=1200, text=""):
    """Runs a command in the root of the project with |text| as its input.  Returns (exit status, output); 124 after a
    timeout."""
    try:
        done = subprocess.run([str(word) for word in words], cwd=ROOT, env={**os.environ, **(env or {})}, timeout=seconds, input=text.encode(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace") + f"\ntook over {seconds} s"
    return done.returncode, done.stdout.decode(errors="replace")


def simple(tally, name, *words, **options):
    status, output = command(*words, **options)
    if status == 0:
        tally.add(passed=1)
        for line in output.splitlines():
            if line.startswith("note:"):
                tally.say(line)
    else:
        tally.fail(name, output)


def set_up(folder, *options):
    """Sets up a build folder.  Returns the output of a failed meson."""
    if (folder / "build.ninja").exists():
        return ""
    status, output = command("meson", "setup", folder, *options)
    return output if status else ""


building = threading.Lock()


def build(tally, name, folder, options, targets):
    with building:
        problem = set_up(folder, *options)
        if not problem:
            status, output = command("ninja", "-C", folder, *targets)
            problem = output if status else ""
    if problem:
        tally.fail(name, problem[-6000:])
    return not problem


def build_plain(tally):
    return build(tally, "build", PLAIN, ["--buildtype=release", "-Dwerror=false", "-Dtests=false"], ["beamline", "ops", "check_moves", "render", "planes", "tokenize", "try", "documents", "idle_layer.so", *EMULATED])


def build_asan(tally):
    return build(tally, "build with ASan", ASAN, ["--buildtype=debug", "-Doptimization=1", "-Db_sanitize=address,undefined", "-Db_ndebug=false"], ["all"])


def build_tsan(tally):
    return build(tally, "build with TSan", TSAN, ["--buildtype=debugoptimized", "-Db_sanitize=thread", "-Db_ndebug=false", "-Dtests=false"], ["beamline"])


# ---- static checks

def c_files():
    return sorted(str(path.relative_to(ROOT)) for folder in C_FOLDERS for path in (ROOT / folder).rglob("*.[ch]"))


def run_generated(tally):
    if build_plain(tally):
        simple(tally, "generated", sys.executable, "tools/generate.py", PLAIN, "--check")


def run_layers(tally):
    simple(tally, "layers", sys.executable, "tools/layers")


def run_texts(tally):
    """The rendered text of each kernel equals the golden, tests/texts."""
    if not build_plain(tally):
        return
    status, output = command(sys.executable, "tools/texts.py", "--build", PLAIN)
    if status == 77:
        tally.add(skipped=1)
        tally.say(f"skipped texts: {output}")
    elif status == 0:
        tally.add(passed=1)
    else:
        tally.fail("texts", output)


def run_format(tally):
    simple(tally, "format", "clang-format", "--dry-run", "--Werror", *c_files())


def run_cppcheck(tally):
    simple(tally, "cppcheck", "cppcheck", "-q", "-j", JOBS, "--std=c11", "--enable=warning,portability", "--inline-suppr", "--error-exitcode=1",
           # The first two are no findings; of the third, all findings were false: the code checks the index in time.
           "--suppress=missingIncludeSystem", "--suppress=internalAstError", "--suppress=arrayIndexThenCheck", "--max-configs=2", "-I", ".", "-D_GNU_SOURCE",
           *[name for name in c_files() if name.endswith(".c") and not name.startswith("tests/")])


def run_tidy(tally):
    if not build_asan(tally):
        return
    files = [name for name in c_files() if name.endswith(".c") and not name.startswith(("tests/", "tools/"))]
    step = max(1, len(files) // TIDY_FILES)
    simple(tally, "tidy", "clang-tidy", "-quiet", "-p", ASAN, *files[::step])


def run_clang(tally):
    """Compiles with clang, with every warning as an error; gcc's warnings are errors in the build with ASan."""
    if not build_plain(tally):  # for the generated headers
        return
    flags = (ROOT / "tools" / "cflags").read_text().split()
    names = [name for name in c_files() if name.endswith(".c") and not name.startswith("tests/fuzz")]
    simple(tally, "clang", "xargs", "-P", JOBS, "-n", "8", "clang", "-fsyntax-only", "-I/usr/include/cjson", f"-I{PLAIN}", *flags, text="\n".join(names))


# ---- unit tests

def count_cmocka(output):
    """Returns (passed, failed, skipped) from cmocka's output, or None if there are none."""
    ran = re.search(r"\[==========\].* (\d+) test\(s\) run", output)
    if ran is None:
        return None
    passed = re.search(r"\[  PASSED  \] (\d+) test\(s\)", output)
    skipped = re.search(r"\[  SKIPPED \].* (\d+) test\(s\)", output)
    passed, skipped = int(passed.group(1)) if passed else 0, int(skipped.group(1)) if skipped else 0
    return passed, int(ran.group(1)) - passed - skipped, skipped


def add_unit(tally, entry):
    """Adds one line of meson's log: a program with several tests."""
    output = entry.get("stdout", "") + entry.get("stderr", "")
    counts = count_cmocka(output)
    if entry["result"] in ("OK", "EXPECTEDFAIL"):
        tally.add(*(counts or (1, 0, 0)))
    elif entry["result"] == "SKIP":
        tally.add(skipped=1)
    elif counts and counts[1] == 0 and "Tracer caught signal" in output and "detected memory leaks" not in output:
        # LeakSanitizer stops all threads at exit and may crash with PoCL's threads: always on a bare Debian 12, never on other
        # machines
        tally.add(*counts)
        tally.say(f"note: {entry['name']}: LeakSanitizer crashed beside a driver's threads, so leaks were not looked for; all tests passed")
    else:
        passed, failed, skipped = counts or (0, 1, 0)
        tally.add(passed, max(failed, 1) - 1, skipped)
        tally.fail(f"{entry['name']} ({entry['result']}, status {entry.get('returncode')})", output[-6000:])


def run_unit(tally):
    if not build_asan(tally):
        return
    log = ASAN / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    env = {"LSAN_OPTIONS": f"suppressions={ROOT}/tests/lsan.supp:print_suppressions=0",
           "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_stack_use_after_return=1"}
    suites = ["--no-suite", "full"] if os.environ.get("BEAMLINE_TEST_QUICK") else []
    _, output = command("meson", "test", "-C", ASAN, "--num-processes", JOBS, *suites, env=env)
    if not log.exists():
        tally.fail("unit", output)
        return
    for line in log.read_text().splitlines():
        add_unit(tally, json.loads(line))


# ---- Python tests, with a process per folder

class Counting(unittest.TextTestResult):
    """A result that also counts successes; failed subtests count as one failure of their test."""

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.passed, self.began, self.seconds = 0, 0.0, {}

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        self.seconds[test.id()] = time.monotonic() - self.began

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def single_tests(suite):
    """Yields the single tests of a suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from single_tests(test)
        else:
            yield test


def run_folder_here(folder, report, names):
    """Runs the tests of a folder in this process, or the tests with the given names, and writes the results."""
    sys.path[:0] = [str(folder), str(ROOT / "clients" / "python"), str(ROOT / "examples"), str(ROOT / "tests")]
    import watched_threads
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names) if names else loader.discover(str(folder), "test_*.py", str(folder))
    if not names and os.environ.get("BEAMLINE_TEST_QUICK"):
        left = FULL_FILES.get(folder.name, ())
        suite = unittest.TestSuite(test for test in single_tests(suite) if type(test).__module__ not in left)
    result = unittest.TextTestRunner(resultclass=Counting, verbosity=1).run(suite)
    bad = result.failures + result.errors
    if watched_threads.raised:  # raised after the last test
        print("\n".join(watched_threads.raised), file=sys.stderr)
        bad.append((unittest.FunctionTestCase(watched_threads.tell), ""))
    whole = {getattr(test, "test_case", test) for test, _ in bad} | set(result.unexpectedSuccesses)  # the test of a failed subtest
    pathlib.Path(report).write_text(json.dumps({
        "passed": result.passed + len(result.expectedFailures), "failures": sorted(test.id() for test in whole),
        "skipped": [[str(test), why] for test, why in result.skipped], "seconds": result.seconds}))


def run_folder(folder, *names):
    """Returns (report of a folder's tests or None, errors or output)."""
    report = PLAIN / f"report-{folder.name}.json"
    report.unlink(missing_ok=True)
    status, output = command(sys.executable, __file__, "--folder", folder, report, *names, seconds=FOLDER_SECONDS)
    return json.loads(report.read_text()) if report.exists() else None, f"status {status}\n{output}"


def run_python(tally, folder):
    if not build_plain(tally):
        return
    counts, output = run_folder(folder)
    if counts is None:
        tally.fail(f"tests/{folder.name}", output[-6000:])
        return
    tally.add(counts["passed"], 0, len(counts["skipped"]))
    for test, why in counts["skipped"]:
        tally.say(f"skipped {test}: {why}")
    if counts["failures"]:
        tally.say(output[-12000:])
    if len(counts["failures"]) <= MOST_UNSTEADY:
        tally.again = [(folder, name) for name in counts["failures"]]
    else:
        for name in counts["failures"]:
            tally.fail(name)


def run_again(tally, tests):
    """Runs the failed tests again, one by one."""
    for folder, name in tests:
        counts, output = run_folder(folder, name)
        if counts and counts["passed"]:
            tally.add(passed=1)
            tally.unsteady.append(name)
        else:
            tally.fail(name, output[-6000:])


# ---- ThreadSanitizer, with the interpreter, since drivers are not instrumented

def run_tsan(tally):
    if not build_tsan(tally):
        return
    status, output = command(TSAN / "beamline", "--version")
    if status != 0 and "unexpected memory mapping" in output:  # gcc 12's runtime does not support kernels that randomise more than 28 bits of addresses
        tally.add(skipped=1)
        tally.say("skipped tsan: ThreadSanitizer does not start with this kernel's vm.mmap_rnd_bits")
    else:
        simple(tally, "tsan", sys.executable, "tests/soak.py", "--tsan", TSAN, "--minutes", TSAN_MINUTES)


def run_races(tally):
    """Runs the tests of the server, ten times as slow: failures may be due to time limits, so only reported races count."""
    if not build_tsan(tally):
        return
    for name, minutes in RACES.items():
        logs = TSAN / "races" / name
        shutil.rmtree(logs, ignore_errors=True)
        logs.mkdir(parents=True)
        env = {"BEAMLINE": str(TSAN / "beamline"), "BEAMLINE_TEST_ARGS": "--backends interp",
               "TSAN_OPTIONS": f"halt_on_error=0 exitcode=0 second_deadlock_stack=1 log_path={logs}/log"}
        report = logs / "report.json"
        status, output = command(sys.executable, __file__, "--folder", ROOT / "tests" / name, report, env=env, seconds=60 * minutes)
        told = [log.read_text(errors="replace") for log in sorted(logs.glob("log.*"))]
        if told or status == 124 or not report.exists():
            tally.fail(f"races in tests/{name}", told[0] if told else output[-6000:])
        else:
            tally.add(passed=1)


def run_long(tally):
    """Runs thousands of random graphs, then random moves, and prints their progress."""
    if not build_plain(tally):
        return
    simple(tally, "soak of texts", sys.executable, "tests/soak_texts.py")
    status = subprocess.run([sys.executable, "tests/fuzz/fuzz.py", "--long"], cwd=ROOT).returncode
    if status == 0:
        tally.add(passed=1)
    else:
        tally.fail(f"long (status {status})", "the differences are above, and in build/fuzz/")
    for device, pairs in LONG_MOVES.items():
        run_moves(tally, device, pairs)


def run_moves(tally, device, pairs):
    """Checks pairs of a kernel and a move list, in slices on all cores; a file stores the progress, from which the next run
    resumes."""
    program, state = PLAIN / "check_moves", PLAIN / "fuzz" / f"moves-{device}.json"
    made = hashlib.sha256(program.read_bytes()).hexdigest()
    done = json.loads(state.read_text()) if state.exists() else {}
    if done.get("program") != made or "counts" not in done:
        done = {"program": made, "pairs": 0, "counts": {}}
    state.parent.mkdir(parents=True, exist_ok=True)
    starts = range(done["pairs"], pairs, MOVES_SLICE)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        slices = pool.map(lambda at: command(program, device, MOVES_SLICE, at, seconds=3600), starts)
        for at, (status, output) in zip(starts, slices):
            if status != 0:
                pool.shutdown(wait=False, cancel_futures=True)
                tally.fail(f"moves on {device}, from pair {at} on (status {status})", output)
                return
            done["pairs"] = at + MOVES_SLICE
            for name, count in re.findall(r"(\w+)=(\d+)", output.splitlines()[-1]):
                done["counts"][name] = done["counts"].get(name, 0) + int(count)
            state.write_text(json.dumps(done))
            print(f"{device}: {done['pairs']} of {pairs} pairs", flush=True)
    print(f"{device}: {done['pairs']} pairs;", ", ".join(f"{name} {count}" for name, count in done["counts"].items()), flush=True)
    never = [name for name, count in done["counts"].items() if count == 0]
    if device == "interp" and never:
        tally.fail(f"moves on {device}", f"never drawn: {', '.join(never)}")
    else:
        tally.add(passed=1)


def parts():
    """Returns {name: function} of the parts to run: the quickest first, then the slowest, then the others."""
    found = {"generated": run_generated, "layers": run_layers, "texts": run_texts, "format": run_format, "clang": run_clang, "cppcheck": run_cppcheck, "tidy": run_tidy,
             "unit": run_unit, "tsan": run_tsan}
    for folder in sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")}):
        found[str(folder.relative_to(ROOT / "tests"))] = lambda tally, folder=folder: run_python(tally, folder)
    first = ["generated", "layers", "texts", "format", *SLOWEST]
    return {name: found[name] for name in first + [name for name in found if name not in first]}


LONG = {"long": run_long, "races": run_races}  # one after the other, after all other parts


def run_part(name, function):
    """Runs a part and prints its results."""
    tally, start = Tally(), time.monotonic()
    try:
        function(tally)
    except Exception as error:  # an error of this script; the other parts still run
        tally.fail(name, repr(error))
    unsure = f", {len(tally.again)} to be tried again" if tally.again else ""
    tally.say(f"{name}: {tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped{unsure}, {time.monotonic() - start:.0f} s")
    print("\n".join(tally.said), flush=True)
    return tally


def chosen(named, words):
    return [(name, function) for name, function in named.items() if not words or any(word in name for word in words)]


def main():
    words = sys.argv[1:]
    if words[:1] == ["--folder"]:
        run_folder_here(pathlib.Path(words[1]), words[2], words[3:])
        return 0
    long, full = LONG if "--long" in words else {}, "--full" in words
    words = [word for word in words if word not in ("--long", "--full")]
    named = {name: function for name, function in parts().items() if full or name not in FULL or words not in ([], ["--list"])}
    if words == ["--list"]:
        print("\n".join([*named, *long]))
        return 0
    if not full and not words:
        os.environ["BEAMLINE_TEST_QUICK"] = "1"
    tally = Tally()
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        for of_part in lanes.map(lambda part: run_part(*part), chosen(named, words)):
            tally.take(of_part)
    if tally.again:
        tally.take(run_part("alone", lambda alone: run_again(alone, tally.again)))
    for part in chosen(long, words):
        tally.take(run_part(*part))
    if tally.unsteady:
        print("unsteady, passed when alone:\n  " + "\n  ".join(tally.unsteady))
    if tally.failures:
        print("failed:\n  " + "\n  ".join(tally.failures))
    if not full and not words:
        print(f"left to ./check --full: {', '.join(FULL)}, and the longest unit tests and files")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
