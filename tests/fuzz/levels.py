# SPDX-License-Identifier: MIT
"""The levels on which a graph runs, and the criteria of a difference between levels.

    apart     interp:0 without moves, each node in its own buffer and loops unrolled: the reference
    noopt     interp:0 without moves
    interp    interp:0 with moves
    opencl, vulkan, and opencl-noopt, vulkan-noopt: the drivers

If floats differ by more than a few roundings, the graph itself decides: it runs several times with every rounded float
multiplied by 1 + small noise.  A level may differ by as much as the noise changes the element; a bug changes it more.  Exact
values get no noise, so everything computed from exact values alone must agree.
"""
import copy
import http.client
import json
import pathlib
import re
import sys
import threading

import numpy as np

from documents import FLOATS, ORDER, Document, Tensor, concrete, floats_of, ids_of

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "http"))
import fixture  # noqa: E402

CODES = {"BOOL": ("bool", np.bool_), "BF16": ("bfloat16", np.uint16), "F16": ("float16", np.float16), "F32": ("float32", np.float32),
         "F64": ("float64", np.float64),
         "F8_E4M3": ("float8_e4m3", np.uint8), "F8_E5M2": ("float8_e5m2", np.uint8),  # compared as bits
         **{f"{'I' if kind == 'int' else 'U'}{n}": (f"{kind}{n}", np.dtype(f"{kind}{n}")) for kind in ("int", "uint")
                                            for n in (8, 16, 32, 64)}}
SECONDS = 120  # time limit of one request
# level -> (server, device)
LEVELS = {"apart": ("noopt", "interp:0"), "noopt": ("noopt", "interp:0"), "interp": ("moves", "interp:0"),
          "opencl": ("moves", "opencl:0"), "vulkan": ("moves", "vulkan:0"),
          "opencl-noopt": ("noopt", "opencl:0"), "vulkan-noopt": ("noopt", "vulkan:0")}
REFERENCE = "apart"
# Texts in a driver's refusal that count as no difference: the driver lacks a function or a type.
LACKING = re.compile(r"has no |not supported|unsupported")

# Noise in units of the last place of a dtype: about the error of a level's functions.
NOISE = {"interp": 4, "noopt": 4, "opencl": 8, "opencl-noopt": 8, "vulkan": 32, "vulkan-noopt": 32}
# Without SignedZeroInfNanPreserve a shader may be compiled as if NaN and infinities did not exist: Mesa turns x - x into zero.
NO_NAN = {"vulkan", "vulkan-noopt"}
AVERAGES = {"mean", "var", "std"}  # ops that convert integers to floats
FEW, MANY = 6, 40   # runs with noise: at first, and before a result counts as a difference
FREE = 4            # differences in the last bits that are ignored
FACTOR = 6          # allowed multiple of the noise's effect


class Result:
    """An answer: outputs by name as (dtype, array), or a status with its message."""

    def __init__(self, outputs=None, status=200, text=""):
        self.outputs, self.status, self.text = outputs, status, text


class Levels:
    """Two servers, with kept connections from every thread."""

    def __init__(self, names, program_args=()):
        self.args, self.local, self.lock, self.servers, self.connections = program_args, threading.local(), threading.Lock(), {}, []
        self.backends = ",".join(["interp"] + sorted({LEVELS[name][1].split(":")[0] for name in names} - {"interp"}))
        for name in ("noopt", "moves"):
            self.start(name)
        with_devices = {device["id"] for device in json.loads(self.servers["moves"].call("GET", "/api/v1/devices").body)["devices"]}
        self.names = [name for name in names if LEVELS[name][1] in with_devices]

    def start(self, name):
        self.servers[name] = fixture.Server("--log-level", "error", "--backends", self.backends, *(["--noopt"] if name == "noopt" else []), *self.args)

    def stop(self):
        """Returns the exit statuses that are not 0."""
        for connection in self.connections:
            connection.close()
        return [status for status in [server.stop() for server in self.servers.values()] if status != 0]

    def revive(self, name, server):
        with self.lock:
            if self.servers[name] is not server:
                return ""
            if server.process.poll() is None:
                return "no answer"
            status = server.stop()
            self.start(name)
            return f"the server ended with status {status}: {server.log_text()[-1500:]}"

    def connection(self, name):
        kept = self.local.__dict__.setdefault("kept", {})
        server = self.servers[name]
        if name not in kept or kept[name][0] is not server:
            kept[name] = (server, http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS))
            self.connections.append(kept[name][1])
        return kept[name]

    def post(self, name, document):
        body, server = json.dumps(document), None
        for again in (True, False):
            server, connection = self.connection(name)
            try:
                connection.request("POST", "/api/v1/run", body, {"content-type": "application/json", "accept": fixture.SAFETENSORS})
                reply = connection.getresponse()
                return reply.status, reply.read()
            except (http.client.HTTPException, OSError) as problem:
                connection.close()
                self.local.kept.pop(name)
                if isinstance(problem, TimeoutError):
                    return 504, f"no answer in {SECONDS} s".encode()
                why = self.revive(name, server)
                if why and why != "no answer" or not again:  # the server may have closed an idle kept connection
                    return 599, (why or str(problem)).encode()
        return 599, b""

    def run(self, level, document):
        server, device = LEVELS[level]
        document = apart(unrolled(document)) if level == "apart" else document
        status, body = self.post(server, {**document.request(), "device": device})
        if status != 200:
            try:
                text = json.loads(body).get("detail", "")
            except ValueError:
                text = body.decode(errors="replace")
            return Result(status=status, text=text)
        found, _ = fixture.read_safetensors(body)
        outputs = {}
        for name, (code, shape, raw) in found.items():
            dtype, kind = CODES[code]
            array = np.frombuffer(raw, kind).reshape(shape)
            outputs[name] = dtype, floats_of(array) if dtype == "bfloat16" else array
        return Result(outputs)


# ---- variants of a document with nearly the same meaning

def inlined(body, operands, prefix):
    """Returns the nodes of a body with the given names for its inputs and a prefix for its ids, and the names of its results."""
    names = dict(zip(body["inputs"], operands))
    names.update((name, f"{prefix}.{name}") for node in body["nodes"] for name in ids_of(node))
    renamed = []
    for node in body["nodes"]:
        ids = [names[name] for name in ids_of(node)]
        renamed.append({**node, "id": ids if isinstance(node["id"], list) else ids[0], "in": [names.get(x, x) for x in node["in"]]})
    return renamed, [names[name] for name in body["outputs"]]


def unrolled(document):
    """Unrolls scans into their steps.  The length of a sequence is the length of an input."""
    def write_out(nodes):
        for node in nodes:
            attrs, ids = node.get("attrs", {}), ids_of(node)
            carries, many = attrs.get("carries", 1), attrs.get("sequences", 0)
            state, sequences, rest = node["in"][:carries], node["in"][carries:carries + many], node["in"][carries + many:]
            shapes = [document.inputs[x].array.shape for x in sequences if x in document.inputs] if node["op"] == "scan" and "body" in attrs else []
            if not shapes or not shapes[0] or len(attrs["body"]["inputs"]) != len(node["in"]):  # no scan, or an invalid scan
                yield node
                continue
            steps = shapes[0][0]
            stacks = [[None] * steps for _ in ids[carries:]]
            for t in reversed(range(steps)) if attrs.get("reverse") else range(steps):
                slices = [f"{ids[0]}.{t}.s{i}" for i in range(many)]
                yield from ({"id": name, "op": "take", "in": [x, t]} for name, x in zip(slices, sequences))
                inner, results = inlined(attrs["body"], [*state, *slices, *rest], f"{ids[0]}.{t}")
                yield from write_out(inner)
                state = results[:carries]
                for stack, result in zip(stacks, results[carries:]):
                    stack[t] = result
            yield from ({"id": name, "op": "contiguous", "in": [x]} for name, x in zip(ids, state))
            yield from ({"id": name, "op": "stack", "in": stack} for name, stack in zip(ids[carries:], stacks))
    return Document(document.inputs, list(write_out(document.nodes)), document.outputs, document.dims)


def apart(document):
    """Passes each result through `contiguous`, which prevents fusion."""
    nodes = []
    for node in document.nodes:
        # The copy of an input or of a copy needs no further copy.
        ids = ids_of(node)
        raw = [f"{name}.raw" for name in ids]
        nodes.append({**node, "id": raw if isinstance(node["id"], list) else raw[0]})
        nodes += [{"id": name, "op": "contiguous", "in": [before]} for name, before in zip(ids, raw)]
    return Document(document.inputs, nodes, document.outputs, document.dims)


# ---- exact values

# Ops whose results are elements of the operands (or integers that depend on them).
CHOOSING = {"neg", "abs", "sign", "floor", "ceil", "trunc", "round", "maximum", "minimum", "clamp", "relu", "relu6", "hardtanh", "copysign", "where",
            "contiguous", "detach", "max", "min", "argmax", "argmin", "all", "any", "count_nonzero", "cummax", "cummin", "sort", "argsort", "topk",
            "max_pool2d", "gather", "take", "index", "masked_select", "nonzero", "one_hot", "tril", "triu", "reshape", "permute", "transpose", "expand",
            "pad", "shrink", "slice", "flip", "squeeze", "unsqueeze", "roll",
            "repeat", "repeat_interleave", "unfold", "diagonal", "flatten", "unflatten", "cat", "stack", "arange", "full", "zeros", "ones",
            "zeros_like", "ones_like", "eye", "bitcast", "logical_and", "logical_or", "logical_xor", "logical_not", "equal", "not_equal", "less",
            "less_equal", "greater", "greater_equal", "isnan", "isfinite", "isinf", "randint", "randperm"}
SUMMING = {"add", "sub", "sum", "cumsum"}


def quantum(arrays):
    """The binary logarithm of the largest power of two that divides all finite numbers."""
    least = 1100
    for array in arrays:
        x = np.asarray(array, np.float64).reshape(-1)
        x = x[np.isfinite(x) & (x != 0)]
        if x.size:
            mantissa, exponent = np.frexp(x)
            whole = (np.abs(mantissa) * 2.0 ** 53).astype(np.int64)
            zeros = np.log2((whole & -whole).astype(np.float64))
            least = min(least, int((exponent - 53 + zeros).min()))
    return least


def fits(dtype, low, total):
    """Whether sums of multiples of 2^low with magnitudes up to |total| are exact."""
    return low >= 1100 or not np.isfinite(total) or total == 0 or np.log2(total) <= low + ORDER.get(dtype, 63)


def exact_ids(document, values):
    """Returns the ids whose values are computed without rounding; |values| has all values as (dtype, array)."""
    exact = {name for name, t in document.inputs.items() if t.dtype not in FLOATS or quantum([t.array]) >= -6}
    values = {**{name: (t.dtype, t.array) for name, t in document.inputs.items()}, **values}
    for node in document.nodes:
        ids = ids_of(node)
        if any(name not in values for name in ids) or not all(x in exact for x in node["in"] if isinstance(x, str)):
            continue
        operands = [values[x][1] if isinstance(x, str) else np.float64(x) for x in node["in"]]
        kinds = [values[x][0] for x in node["in"] if isinstance(x, str)]
        dtype, out = values[ids[0]]
        op, good = node["op"], False
        with np.errstate(all="ignore"):
            if op in CHOOSING or not any(kind in FLOATS for kind in kinds + [dtype]):
                good = True
            elif op == "cast":
                good = dtype not in FLOATS or kinds[0].startswith("float8") or np.array_equal(np.asarray(out, np.float64), np.asarray(operands[0], np.float64), equal_nan=True)
            elif op in SUMMING:
                total = sum(np.nansum(np.abs(np.asarray(x, np.float64))) for x in operands) if op in ("sum", "cumsum") else sum(
                    np.nanmax(np.abs(np.asarray(x, np.float64)), initial=0) for x in operands)
                good = fits(dtype, quantum(operands), total)
            elif op in ("mul", "square", "matmul"):
                pair = operands if len(operands) == 2 else operands * 2
                largest = [np.nanmax(np.abs(np.asarray(x, np.float64)), initial=0) for x in pair]
                length = pair[0].shape[-1] if op == "matmul" and pair[0].ndim else 1
                good = fits(dtype, quantum(pair[:1]) + quantum(pair[1:]), largest[0] * largest[1] * max(length, 1))
            elif op in ("mod", "fmod", "floor_div", "trunc_div"):
                good = all(quantum([x]) >= 0 for x in operands)
        if good:
            exact |= set(ids)
    return exact


def with_noise(document, exact, values, generator, amount):
    """Returns the document with noise of about |amount| units in the last place on every inexact float, and on every exact
    float that is an operand of a rounding op."""
    document = concrete(document)
    inputs, nodes, shaken = dict(document.inputs), [], {}
    kinds = {**{name: (t.dtype, t.array.shape) for name, t in document.inputs.items()}, **{name: (dtype, a.shape) for name, (dtype, a) in values.items()}}

    def shake(name, into, op="mul"):
        dtype, shape = kinds[name]
        noise = generator.uniform(-1, 1, shape) * amount * 2.0 ** (1 - ORDER[dtype])
        inputs[f"{into}.noise"] = Tensor(dtype, noise + (op == "mul"))
        nodes.append({"id": into, "op": op, "in": [name, f"{into}.noise"]})

    def floating(name):
        return isinstance(name, str) and name in kinds and kinds[name][0] in FLOATS
    for node in document.nodes:
        ids = ids_of(node)
        rounds = not set(ids) <= exact
        words = []
        for x in node["in"]:
            if rounds and node["op"] in AVERAGES and isinstance(x, str) and kinds[x][0] not in FLOATS:
                # Integers that are summed as floats: the rounding of the sum is that of its float operands.
                real = f"{x}.real"
                if real not in kinds:
                    nodes.append({"id": real, "op": "cast", "in": [x], "attrs": {"dtype": kinds[ids[0]][0]}})
                    kinds[real] = (kinds[ids[0]][0], kinds[x][1])
                    shake(real, f"{real}.shaken")
                x = f"{real}.shaken"
            if rounds and floating(x) and x in exact | set(document.inputs) and node["op"] not in ("grad", "bitcast"):
                if x not in shaken:
                    shaken[x] = f"{x}.shaken"
                    shake(x, shaken[x])
                x = shaken[x]
            words.append(x)
        raw = [f"{name}.raw" if rounds and floating(name) else name for name in ids]
        nodes.append({**node, "in": words, "id": raw if isinstance(node["id"], list) else raw[0]})
        for name, before in zip(ids, raw):
            if before != name:
                kinds[before] = kinds[name]
                # A float computed from no floats (normal, or sin of integers) may be close to 0 while its error is not.
                shake(before, name, "mul" if any(floating(x) for x in node["in"]) else "add")
    return Document(inputs, nodes, document.outputs)


# ---- comparison

class Difference:
    def __init__(self, level, output, text, kind, at=None):
        self.level, self.output, self.text, self.kind, self.at = level, output, text, kind, at

    def __str__(self):
        return f"{self.level} against {REFERENCE}: {self.text}"


def unequal(dtype, got, want, allowed=0):
    """Returns where the elements differ by more than |allowed| and a few units in the last place."""
    if dtype not in FLOATS:
        return got != want
    a, b = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        # A driver may flush the smallest normal numbers of float16 and float32 to zero.
        tiny = {"float16": 2.0 ** -14, "float32": 2.0 ** -126, "bfloat16": 2.0 ** -126}.get(dtype, 0)
        free = FREE * 2.0 ** (1 - ORDER[dtype]) * np.abs(b) + tiny
        near = np.abs(a - b) <= free + allowed
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))


def compare(level, got, want):
    """Returns the first difference, or None."""
    if got.status != want.status or got.status >= 500:
        both = f"status {got.status} ({got.text})", f"status {want.status} ({want.text})"
        return Difference(level, None, f"{both[0]}, not {both[1]}", "status")
    if got.status != 200:
        return None
    for name, (dtype, b) in want.outputs.items():
        kind, a = got.outputs[name]
        if kind != dtype or a.shape != b.shape:
            return Difference(level, name, f"{name} is {kind}{list(a.shape)}, not {dtype}{list(b.shape)}", "type")
    for name, (dtype, b) in want.outputs.items():
        a = got.outputs[name][1]
        bad = unequal(dtype, a, b)
        if bad.any():
            return Difference(level, name, describe(name, dtype, a, b, bad), "value", tuple(int(i) for i in np.argwhere(bad)[0]))
    return None


def describe(name, dtype, a, b, bad):
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{name} {dtype}{list(b.shape)}: {int(bad.sum())} of {bad.size} elements differ, the first at {list(at)}: {a[at]!r}, not {b[at]!r}"


def not_finite(document, values, output):
    """Whether the output depends on a value that is NaN or infinite."""
    needed = {output}
    for node in reversed(document.nodes):
        if needed & set(ids_of(node)):
            needed |= {x for x in node["in"] if isinstance(x, str)} | set(ids_of(node))
    arrays = [array for name, (dtype, array) in values.items() if name in needed and dtype in FLOATS]
    arrays += [t.array for name, t in document.inputs.items() if name in needed and t.dtype in FLOATS]
    return any(not np.isfinite(array).all() for array in arrays)


def excused(levels, level, document, got, want):
    """Returns None if noise explains the difference, else the difference."""
    # In the backward loop the last step's carries begin with zeros; unrolled, they may have no gradient at all.  Multiplied by
    # NaN the results differ.
    loops = any(node["op"] == "scan" for node in document.nodes) and any(node["op"] == "grad" for node in document.nodes)
    document = unrolled(document)
    every = copy.copy(document)
    every.outputs = [name for node in document.nodes for name in ids_of(node)]
    all_values = levels.run(REFERENCE, every)
    if all_values.status != 200:  # a value that the wire cannot represent
        kept = set(document.outputs)
        every.outputs = [name for name in every.outputs if name in kept]
        all_values = levels.run(REFERENCE, every)
    values = all_values.outputs or {}
    exact = exact_ids(document, values)
    runs, noisy_level = [], "noopt"
    problem = compare(level, got, want)
    for enough in (FEW, MANY):
        while len(runs) < enough:
            generator = np.random.default_rng(len(runs))
            # The noise decreases from run to run, so that borderline comparisons are decided both ways.
            amount = NOISE[level] * (1, 1, 0.5, 2)[len(runs) % 4]
            noisy = levels.run(noisy_level, with_noise(document, exact, values, generator, amount))
            if noisy.status != 200:
                return Difference(level, problem.output, f"{problem.text} (and with noise: status {noisy.status}, {noisy.text})", problem.kind, problem.at)
            runs.append(noisy.outputs)
        problem = None
        for name, (dtype, b) in want.outputs.items():
            a = got.outputs[name][1]
            others = [run[name][1] for run in runs]
            with np.errstate(all="ignore"):
                if dtype in FLOATS:
                    stacked = np.stack([b.astype(np.float64)] + [x.astype(np.float64) for x in others])
                    spread = np.abs(stacked - stacked[0]).max(axis=0)
                    finite = np.isfinite(stacked)
                    unsteady = finite.any(axis=0) & ~finite.all(axis=0)
                    bad = unequal(dtype, a, b, FACTOR * np.where(np.isfinite(spread), spread, 0)) & ~unsteady
                else:
                    bad = (a != b) & ~np.any([x != b for x in others], axis=0)
            if bad.any() and not ((level in NO_NAN or loops) and not_finite(document, values, name)):
                problem = Difference(level, name, describe(name, dtype, a, b, bad), "value", tuple(int(i) for i in np.argwhere(bad)[0]))
                break
        if problem is None:
            return None
    return problem


class Verdict:
    def __init__(self):
        self.differences, self.excused, self.refused, self.lacking, self.unexpected = [], 0, "", [], ""


def judge(levels, document, names=None):
    """Runs the document on every level.  Returns the verdict."""
    verdict = Verdict()
    want = levels.run(REFERENCE, document)
    if want.status == 422:
        verdict.refused = want.text
    for name, (dtype, shape) in document.expected.items():
        if want.status == 200 and (want.outputs[name][0], want.outputs[name][1].shape) != (dtype, shape):
            verdict.unexpected = f"{name} is {want.outputs[name][0]}{list(want.outputs[name][1].shape)}, expected {dtype}{list(shape)}"
    for level in names or levels.names:
        if level == REFERENCE:
            continue
        got = levels.run(level, document)
        if got.status == 422 and want.status == 200 and LEVELS[level][1] != "interp:0" and LACKING.search(got.text):
            verdict.lacking.append(level)
            continue
        problem = compare(level, got, want)
        if problem is not None and problem.kind == "value":
            problem = excused(levels, level, document, got, want)
            verdict.excused += problem is None
        if problem is not None:
            verdict.differences.append(problem)
    return verdict
