# SPDX-License-Identifier: MIT
"""The server's API as Python calls.  Standard library only."""
from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.parse
from typing import Any

from .blobs import Blob, upload
from .connection import Connection, NotFound, make_error
from .graph import Graph, Init, Program
from .jobs import Job, submit
from .models import Model, content, range_text
from .sharing import Sharing
from .values import (DTYPES, Array, array, as_array, as_result, count, dtype_name, exact, is_numpy, numpy, read_safetensors, restore,
                     write_safetensors)

SAFETENSORS = "application/x-safetensors"


class Held:
    """A tensor that the server holds, to be used as an input or a state.  ``share``: as a state, by reference and read-only."""

    def __init__(self, client, name, share=False) -> None:
        self.client, self.name, self.share = client, name, share

    def __repr__(self) -> str:
        return f"Held({self.name!r})"

    def get(self) -> Any:
        """Its numbers.  NotFound if it is gone."""
        return self.client.get(self.name)

    def delete(self) -> None:
        """Free it.  NotFound if it is gone."""
        self.client.delete(self.name)

    def shared(self) -> Held:
        """For a state that reads this tensor in place."""
        return Held(self.client, self.name, True)


class Result(dict):
    """Results by name.  ``stats``: the server's figures, of a dry run the cost; ``kept``: what stayed there; ``collected``: series along a new first axis."""

    def __init__(self, outputs, stats, kept, collected) -> None:
        super().__init__(outputs)
        self.stats, self.kept, self.collected = stats, kept, collected


class Client(Sharing):
    """A server.  May be used by several threads at once.

    url: "http://127.0.0.1:8470"    timeout: seconds to wait for an answer
    key: of the server, where it asks for one; $BEAMLINE_KEY by default
    binary: send and take numbers as safetensors rather than JSON
    use_numpy: give NumPy arrays, which is the default where NumPy is installed; else beamline.Array
    retries: how often to come back when the server is full and says when to; and, where asking twice does no harm, when the connection breaks
    Every call raises BeamlineError, one of its kinds, where the server refuses, and OSError where it cannot be reached.
    """

    BROKEN = (OSError, http.client.HTTPException)  # what a connection that breaks raises

    def __init__(self, url="http://127.0.0.1:8470", *, timeout=600, binary=True, use_numpy=None, retries=5, key=None) -> None:
        self.connection = Connection(url, timeout, key)
        self.binary, self.retries = binary, retries
        self.use_numpy = numpy is not None if use_numpy is None else use_numpy
        self.lease_id = None

    def close(self) -> None:
        """Close this thread's connection."""
        self.connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    # ---- requests

    @staticmethod
    def pause(failures) -> float:
        """Seconds before one tries again what has failed so often."""
        return min(10, 0.05 * 2 ** failures)

    def request(self, method, path, body=None, headers=None, repeat=False) -> tuple:
        """One exchange: (headers, body).  Waits and comes back where the server is full, and, with |repeat|, where the connection breaks."""
        start = body.tell() if hasattr(body, "seekable") and body.seekable() else None
        for attempt in range(self.retries + 1):
            try:
                status, got, data = self.connection.exchange(method, path, body, headers or {})
            except self.BROKEN as broken:
                if not repeat or attempt == self.retries or isinstance(broken, socket.timeout):
                    raise
                time.sleep(self.pause(attempt + 1))
                continue
            if status < 400:
                return got, data
            error = make_error(status, got, data)
            if attempt == self.retries or error.retry_after is None or error.step or status not in (429, 503):
                raise error
            if hasattr(body, "read") and start is None:
                raise error  # it is read, and cannot be read again
            time.sleep(min(error.retry_after, 10))
            if start is not None:
                body.seek(start)

    def answer(self, method, path, body=None, headers=None, repeat=False) -> Any:
        """One exchange whose answer is a JSON document; None where it is empty."""
        _, data = self.request(method, path, body, headers, repeat)
        return json.loads(data) if data else None

    def call(self, method, path, document=None) -> Any:
        """One exchange of JSON documents: any address of the API."""
        body = None if document is None else json.dumps(document).encode()
        return self.answer(method, path, body, {"Content-Type": "application/json"} if body else {})

    def settings(self, path, settings) -> dict:
        """The settings of an address, after changing those that are given."""
        return self.call("POST", path, settings) if settings else self.call("GET", path)

    def send(self, method, path, document, tensors, headers=None, repeat=False) -> tuple:
        """Send a document with the tensors beside it; give the document and the tensors that come back."""
        headers = {"Accept": SAFETENSORS if self.binary else "application/json", **(headers or {})}
        text = json.dumps(document, allow_nan=False)
        if tensors:
            body = write_safetensors(tensors, {"request": text})
            headers["Content-Type"] = SAFETENSORS
        else:
            body = text.encode()
            headers["Content-Type"] = "application/json"
        got, data = self.request(method, path, body, headers, repeat)
        if got.get("Content-Type", "").startswith(SAFETENSORS):
            arrays, metadata = read_safetensors(data, self.use_numpy)
            return json.loads(metadata.get("response", "{}")), arrays
        return (json.loads(data) if data else {}), None

    @staticmethod
    def quote(name) -> str:
        """A name as a part of an address."""
        return urllib.parse.quote(name, safe="")

    def path(self, kind, name, **query) -> str:
        if self.lease_id is not None and kind == "tensors":
            query["lease"] = self.lease_id
        address = f"/api/v1/{kind}" + ("" if name is None else "/" + self.quote(name))
        return address + ("?" + urllib.parse.urlencode(query, safe=",") if query else "")

    def encode(self, value, dtype, name, tensors) -> Any:
        """A tensor value for a document; None where it goes into |tensors| instead."""
        if isinstance(value, Held):
            return {"tensor": value.name, "share": True} if value.share else {"tensor": value.name}
        if isinstance(value, Init):
            return value.document
        if isinstance(value, dict):
            return value
        if dtype is not None and not isinstance(value, Array) and not is_numpy(value):
            value = array(value, dtype)
        if not isinstance(value, Array) and not is_numpy(value):
            return exact(value)
        if self.binary:
            tensors[name] = value
            return None
        value = as_array(value)
        return {"dtype": value.dtype, "shape": list(value.shape), "data": exact(value.flat())}

    def encode_all(self, values, dtypes, tensors) -> dict:
        encoded = {name: self.encode(value, dtypes.get(name), name, tensors) for name, value in values.items()}
        return {name: value for name, value in encoded.items() if value is not None}

    def decode(self, entry, name, arrays) -> Any:
        if arrays is not None:
            return arrays[name]
        value = array(restore(entry["data"]), entry["dtype"])
        return as_result(value.dtype, tuple(entry["shape"]), value.data, self.use_numpy)

    def decode_all(self, entries, arrays, form="{}") -> dict:
        return {name: self.decode(entry, form.format(name), arrays) for name, entry in (entries or {}).items()}

    def named(self, stats, values) -> Result:
        """Values by name as a Result."""
        return Result(values, stats, {}, {})

    def result(self, document, arrays) -> Result:
        if "dry_run" in document:
            return self.named(document, {})
        kept = {name: Held(self, name) for name in document.get("kept", {})}
        return Result(self.decode_all(document.get("outputs"), arrays), document.get("stats", {}), kept,
                      self.decode_all(document.get("collected"), arrays, "collected[{}]"))

    # ---- graphs

    def run(self, graph, inputs=None, *, keep=None, **options) -> Result:
        """Run a graph once and give its outputs: a Result, which is a dict.

        graph: a Graph (or a document, as the wire has it)
        inputs: values by name: numbers, nested lists, an Array, a NumPy array or a Held tensor
        keep: {name: tensor}: results to leave on the server under these names
        options: device, seed, debug, beam, float32_matmul_precision, check_indices, timeout_ms, priority (-100 to 100; of this key's requests the lower goes
            first), and sizes: {name: size} of the dimensions that no input's shape gives
        """
        return self.result(*self.send("POST", "/api/v1/run", *self.graph_request(graph, inputs, keep, options)))

    def cost(self, graph, inputs=None, **options) -> dict:
        """What ``run`` of the same would take, without running it: ops, bytes of memory traffic, seconds (measured, or estimated), memory_bytes and
        what it is made of, kernels, schedule, ``launched``: a dict for each kernel.  Charged to nobody; OutOfMemory where it would not fit the device."""
        return self.run(graph, inputs, **options, dry_run=True).stats

    def graph_request(self, graph, inputs, keep, options) -> tuple:
        """(document, tensors) of a run."""
        document, dtypes, tensors = dict(options), {}, {}
        if isinstance(graph, Graph):
            shapes = {name: kind["shape"] for name, kind in graph.inputs.items() if any(isinstance(n, str) for n in kind["shape"] or [])}
            dtypes = {name: kind["dtype"] for name, kind in graph.inputs.items()}
            document.update(graph.document())
            document.update({"dims": graph.dims} if graph.dims else {}, **({"shapes": shapes} if shapes else {}))
        else:
            document.update(graph)
        values = {**document.get("inputs", {}), **(inputs or {})}
        # A list for a float32 input needs no dtype; for another one it becomes an array of it.
        wanted = {name: dtype for name, dtype in dtypes.items() if dtype != "float32"}
        document["inputs"] = self.encode_all(values, wanted, tensors)
        if keep:
            document["keep"] = {name: node if isinstance(node, str) else node.id for name, node in keep.items()}
        return self.leased(document), tensors

    def leased(self, document) -> dict:
        """A document that means the names of the lease, where this client has one."""
        if self.lease_id is not None:
            document["lease"] = self.lease_id
        return document

    # ---- tensors on the server

    def put(self, name, value, dtype=None, shape=None, device=None, durable=False) -> Held:
        """Keep a tensor on the server and give a Held one.

        value: numbers and nested lists (of |dtype|, by default float32), an Array, a NumPy array; or raw little-endian bytes, or a
            binary file, of |dtype| and |shape|
        device: where, by default on the first       durable: it is on the disk before this returns, and there again after a restart
        """
        if is_numpy(value) or isinstance(value, (Array, list, tuple, int, float)):
            value = as_array(value) if is_numpy(value) or isinstance(value, Array) else array(value, dtype or "float32")
            dtype, shape, value = value.dtype, value.shape, value.data
        query = {"dtype": dtype_name(dtype), "shape": ",".join(map(str, shape))}
        headers = {"Content-Type": "application/octet-stream"}
        if hasattr(value, "read"):
            headers["Content-Length"] = str(count(shape) * DTYPES[dtype_name(dtype)][0])
        self.request("PUT", self.path("tensors", name, **query, **place(device, durable)), value, headers)
        return Held(self, name)

    def put_from(self, held, source, /, *, device=None, durable=False, **options) -> Held:
        """Keep a tensor that the server makes of bytes that it has, and give a Held one.

        held: its name      source: a Blob, or the path of a file below the server's --data-folder
        device, durable: as for ``put``
        options: format ("raw", "npy", "idx", "safetensors", "csv", "images"; a file's name may tell it), dtype, shape, offset in bytes, name of a
            tensor in a safetensors file, header, columns and categories of CSV, size and part ("pixels", "labels") of a folder of images
        NotFound where there is no such file or blob, InvalidGraph where it is not of that format.
        """
        document = {"blob": source.digest} if isinstance(source, Blob) else {"file": str(source)}
        self.call("PUT", self.path("tensors", held, **place(device, durable)), {**document, **options})
        return Held(self, held)

    def get(self, name) -> Any:
        """The numbers of a tensor on the server.  NotFound if there is none of that name."""
        _, data = self.request("GET", self.path("tensors", name), headers={"Accept": SAFETENSORS})
        arrays, _ = read_safetensors(data, self.use_numpy)
        return arrays[name]

    def tensor(self, name) -> Held:
        """A tensor that the server holds, without asking whether it does."""
        return Held(self, name)

    def tensors(self) -> list:
        """What the server holds: a list of dicts with name, dtype, shape, bytes and device; and durable, moved or lost where that is so."""
        return self.call("GET", self.path("tensors", None))["tensors"]

    def delete(self, *names) -> None:
        """Free tensors.  Of one name: NotFound if there is none; of several, those that are there go."""
        if len(names) == 1:
            self.request("DELETE", self.path("tensors", names[0]))
        elif names:
            self.call("POST", self.path("tensors", "delete"), {"names": list(names)})

    def lease(self, ttl=60) -> Lease:
        """A Lease: a client whose tensors live until it ends, or for |ttl| seconds after its last use."""
        return Lease(self, ttl)

    # ---- blobs

    def upload(self, data, progress=None) -> Blob:
        """Send bytes that the server does not have from this key yet, and give them as a Blob.

        data: bytes, the name of a file, or a binary file that can seek, from where it stands
        progress: called with (bytes that are there, bytes in all) after each 16 MiB
        A connection that breaks is opened again, and so is an upload that ended early within the last day: both go on where the server has
        them up to.  BeamlineError of status 507 where --max-blobs is used up, InvalidGraph where the file changed meanwhile.
        """
        return upload(self, data, progress)

    def blob(self, digest) -> Blob:
        """The blob of a digest, "sha256:...", without asking whether it is there."""
        return Blob(self, digest)

    def blobs(self) -> list:
        """The blobs of this key: a list of dicts with digest, bytes and created (seconds since 1970)."""
        return self.call("GET", "/api/v1/blobs")["blobs"]

    # ---- programs

    def put_program(self, name, program, *, if_absent=False, durable=False, **options) -> RemoteProgram:
        """Define a program, its state included, and give a handle.

        program: a Program, or a document, as the wire has it
        if_absent: Conflict where there is one already, instead of replacing it
        durable: it is there again after a restart, with the state of at most a minute (--save-seconds) before a sudden end
        options: device, seed, debug, beam, float32_matmul_precision, check_indices
        """
        tensors, states = {}, {}
        if isinstance(program, Program):
            document, states = program.document(), program.states
        else:
            document = dict(program)
        document.update(options)
        encoded = self.encode_all(states, {}, tensors)
        if encoded:
            document["state"] = {**document.get("state", {}), **encoded}
        headers = {**({"If-None-Match": "*"} if if_absent else {}), "Accept": "application/json"}
        info, _ = self.send("PUT", self.path("programs", name, **place(None, durable)), self.leased(document), tensors, headers)
        return RemoteProgram(self, name, info)

    def put_onnx(self, name, model, *, device=None, dims=None, if_absent=False, durable=False) -> RemoteProgram:
        """Define a program by an ONNX model, whose inputs and outputs keep their names.

        model: its bytes, or the name of its file
        dims: {name: range}: of named dimensions (least, most), or (least, most, step), or one size; the server finds the others
        InvalidGraph where an operator is not known; its detail names it, with its node.
        """
        headers = {"Content-Type": "application/x-onnx", **({"If-None-Match": "*"} if if_absent else {})}
        ranges = {"dims": ",".join(f"{each}:{range_text(sizes)}" for each, sizes in dims.items())} if dims else {}
        return RemoteProgram(self, name, self.answer("PUT", self.path("programs", name, **ranges, **place(device, durable)), content(model), headers))

    def program(self, name) -> RemoteProgram:
        """A handle of a program that is there.  NotFound if it is not."""
        return RemoteProgram(self, name, self.call("GET", self.path("programs", name)))

    def programs(self) -> list:
        """The programs: a list of dicts."""
        return self.call("GET", self.path("programs", None))["programs"]

    # ---- jobs

    def job(self, name) -> Job:
        """A handle of the job with that id, without asking whether it is there."""
        return Job(self, name)

    def jobs(self) -> list:
        """The jobs: a list of dicts, as Job.info gives them."""
        return self.call("GET", "/api/v1/jobs")["jobs"]

    # ---- hosted models

    def model(self, name, version=None) -> Model:
        """A handle of a hosted model, without asking whether it is there.  version: by default the newest."""
        return Model(self, name, version)

    def models(self, ready=False) -> list:
        """The models that this key may ask, a dict for each version: name, version, state ("READY", "UNAVAILABLE", ...) and reason.

        ready: only what can be asked now
        """
        return self.call("POST", "/v2/repository/index", {"ready": ready})

    def statistics(self) -> list:
        """Model.statistics of all models."""
        return self.call("GET", "/v2/models/stats")["model_stats"]

    def trace(self, **settings) -> dict:
        """Which inferences are traced, after changing what is given (scope admin); as Model.trace for one model."""
        return self.settings("/v2/trace/setting", settings)

    def logging(self, **settings) -> dict:
        """What the log tells, after changing what is given (scope admin): log_info, log_warning, log_verbose_level (0 or 1).
        What tells more tells all that tells less: log_info comes with log_warning."""
        return self.settings("/v2/logging", settings)

    # ---- the server

    def server(self) -> dict:
        """{"name", "version", "extensions"} of the server."""
        return self.call("GET", "/v2")

    def description(self) -> dict:
        """The OpenAPI description of all addresses."""
        return self.call("GET", "/openapi.json")

    def devices(self) -> list:
        """The devices: a list of dicts with id, name, type and memory."""
        return self.call("GET", "/api/v1/devices")["devices"]

    def drain(self, device) -> dict:
        """No new work goes to the device ("opencl:0"); what it has moves or ends.  For the scope admin; gives what ``devices`` says of it.

        Raises Conflict where it is the last that takes work."""
        return self.call("POST", f"/api/v1/devices/{self.quote(device)}/drain")

    def resume(self, device) -> dict:
        """A drained device takes work again; gives what ``devices`` says of it."""
        return self.call("POST", f"/api/v1/devices/{self.quote(device)}/resume")

    def metrics(self) -> dict:
        """What Prometheus would read: {"name{labels}": number}."""
        _, data = self.request("GET", "/metrics")
        lines = [line.rsplit(" ", 1) for line in data.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def ready(self) -> bool:
        """Whether the server takes requests."""
        return self.is_well("ready")

    def live(self) -> bool:
        """Whether it answers at all; while it drains it is live, and not ready."""
        return self.is_well("live")

    def is_well(self, how) -> bool:
        try:
            return self.connection.exchange("GET", f"/v2/health/{how}", None, {})[0] == 200
        except self.BROKEN:
            return False

    def wait_ready(self, seconds=60) -> None:
        """Wait until it does; TimeoutError if it does not in time."""
        until = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > until:
                raise TimeoutError(f"no server at {self.connection.host}:{self.connection.port} after {seconds} s")
            time.sleep(0.05)


def place(device, durable) -> dict:
    """The query of something that is put."""
    return {**({"device": device} if device else {}), **({"durable": "true"} if durable else {})}


class Lease(Client):
    """A client with names of its own: what it keeps, and the programs that it puts, go when it ends.

        with client.lease(60) as mine:
            mine.put("x", [1, 2, 3])
    """

    def __init__(self, client, ttl) -> None:
        self.connection, self.binary, self.use_numpy, self.retries = client.connection, client.binary, client.use_numpy, client.retries
        self.lease_id = client.call("POST", "/api/v1/leases", {"ttl": ttl})["lease"]

    def __exit__(self, *_) -> None:
        self.end()

    def renew(self, ttl=None) -> None:
        """Begin its time again.  NotFound if it is over."""
        self.call("PUT", self.path("leases", self.lease_id), {"ttl": ttl} if ttl else None)

    def end(self) -> None:
        """Free all that it holds.  Does nothing if it is over already."""
        try:
            self.request("DELETE", self.path("leases", self.lease_id))
        except NotFound:
            pass


class RemoteProgram:
    """A program on the server.  ``info``: what it said when it was put or looked up."""

    def __init__(self, client, name, info) -> None:
        self.client, self.name, self.info = client, name, info

    def __repr__(self) -> str:
        return f"RemoteProgram({self.name!r})"

    def path(self, rest) -> str:
        return self.client.path("programs", self.name) + rest

    def run(self, inputs=None, *, entry=None, steps=None, collect=None, every=1, keep=None, seq=None, **options) -> Result:
        """Run steps of an entry and give the last one's outputs: a Result.

        inputs: values by name, as for Client.run; each takes the dtype that the program declares
        entry: which one, where there are several       steps: how many, by default 1
        collect: outputs to give as a series too, of each |every| steps: in ``collected``
        keep: {name: output}: outputs to leave on the server under these names, instead of sending them
        seq: the number of this run, one more than that of the last one (from 1, for each program and key): where the connection breaks it is
            asked for again, and applied once.  Conflict, which says the number that is next, where it is another
        options: device, debug, timeout_ms, priority, and sizes as for Client.run
        """
        document, tensors = dict(options), {}
        given = {"entry": entry, "steps": steps, "seq": seq, "collect": {"every": every, "outputs": list(collect)} if collect else None,
                 "keep": dict(keep) if keep else None, "inputs": self.client.encode_all(inputs or {}, {}, tensors) or None}
        document.update({name: value for name, value in given.items() if value is not None})
        return self.client.result(*self.client.send("POST", self.path("/run"), self.client.leased(document), tensors, repeat=seq is not None))

    def cost(self, inputs=None, **options) -> dict:
        """What ``run`` of the same would take, without running it: as Client.cost.  Numbers of kernels are of one step."""
        return self.run(inputs, **options, dry_run=True).stats

    def promote(self, model, version, entry=None) -> Model:
        """Make the state as it is now a version of a hosted model, without a copy, and give its handle; training goes on beside it.

        version: a number from 1; one that is there is replaced at once     entry: which one answers, by default the only one or ``main``
        InvalidGraph where there is no such entry.
        """
        info = self.client.call("POST", self.path("/promote"), {"model": model, "version": version, **({"entry": entry} if entry else {})})
        return Model(self.client, model, info["version"])

    def train(self, inputs=None, *, steps, entry=None, collect=None, every=1, evaluate=None, early_stop=None, checkpoint=None, accumulate=None, compute=None,
              loss_scale=None, priority=None, **options) -> Job:
        """Begin a job: |steps| steps that go on without this client, and after a restart of the server.  Gives a Job at once.

        inputs, entry, collect, every: as for ``run``; every |every| steps are a report
        evaluate: {"program", "entry", "inputs", "every", "outputs"}: another entry, run on what is being trained; or one of another program, given
            by name or as a RemoteProgram, whose states are those of the same name here
        early_stop: {"metric", "patience", "mode", "min_delta"}    checkpoint: {"every", "seconds", "keep", "max_age"}
        accumulate: steps whose gradients are added up to one update    compute: "float16" or "bfloat16", with float32 parameters
        loss_scale: a number, or "dynamic"    priority: of this key's jobs the lowest number goes first
        options: sizes as for Client.run
        Conflict where another job trains the program.
        """
        document = {**options, "steps": steps}
        given = {"entry": entry, "early_stop": early_stop, "checkpoint": checkpoint, "accumulate": accumulate, "compute": compute, "loss_scale": loss_scale,
                 "priority": priority}
        document.update({name: value for name, value in given.items() if value is not None})
        if collect:
            document["collect"] = {"every": every, "outputs": list(collect)}
        return submit(self, inputs, document, evaluate)

    def state(self) -> dict:
        """All of its state, by name: parameters, what the optimisers remember, and ``rng``."""
        _, data = self.client.request("GET", self.path("/state"), headers={"Accept": SAFETENSORS})
        arrays, _ = read_safetensors(data, self.client.use_numpy)
        return arrays

    def plan(self, entry=None) -> dict:
        """Which kernels compute an entry, with its nodes, their moves, nests, sources and times; entry: by default the only one, or "main"."""
        return self.client.answer("GET", self.path("/plan" + (f"?entry={entry}" if entry is not None else "")), repeat=True)

    def set_state(self, values) -> None:
        """Replace the state, whole.  InvalidGraph where one is missing or does not fit."""
        tensors = {}
        state = self.client.encode_all(values, {}, tensors)
        self.client.send("PUT", self.path("/state"), self.client.leased({"state": state} if state or not tensors else {}), tensors,
                         {"Accept": "application/json"})

    def delete(self) -> None:
        """Remove it, its state included.  NotFound if it is gone."""
        self.client.request("DELETE", self.client.path("programs", self.name))
