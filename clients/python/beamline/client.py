# SPDX-License-Identifier: MIT
"""The server's API as Python calls.  Standard library only."""
from __future__ import annotations

import http.client
import json
import os
import select
import threading
import time
import urllib.parse
from typing import Any

from .graph import Graph, Init, Program
from .jobs import Job, submit
from .values import (DTYPES, Array, array, as_array, as_result, count, dtype_name, exact, is_numpy, numpy, read_safetensors, restore,
                     write_safetensors)

SAFETENSORS = "application/x-safetensors"


class BeamlineError(Exception):
    """What the server refused or failed at, as its problem document tells it.

    status: the HTTP status     title: what kind of failure     detail: what it was, as a person would say it
    node: the id of the graph's node at fault, or None          step: how many steps of a program were applied, or None
    """

    def __init__(self, status, detail, title=None, node=None, step=None, kind=None, retry_after=None) -> None:
        super().__init__(f"{status} {title}: {detail}" if title else f"{status}: {detail}")
        self.status, self.detail, self.title, self.node, self.step, self.type = status, detail, title, node, step, kind
        self.retry_after = retry_after


class Malformed(BeamlineError):
    """400: not the JSON, or not the members, that the address takes."""


class Forbidden(BeamlineError):
    """401, 403 and 421: no key, the wrong one, or a host name that the server does not go by."""


class NotFound(BeamlineError):
    """404: there is no such tensor, program, lease or address."""


class Conflict(BeamlineError):
    """409 and 412: it is not in a state that allows this; it is there already."""


class TooLarge(BeamlineError):
    """413: the body is over the server's limit."""


class InvalidGraph(BeamlineError):
    """422: a graph, shape or value that cannot be, or that is over a limit."""


class Busy(BeamlineError):
    """429 and 503: over quota, full or draining; ``retry_after`` is in seconds."""


class TimedOut(BeamlineError):
    """504: not done within timeout_ms; nothing was applied beyond ``step`` steps."""


class OutOfMemory(BeamlineError):
    """507: out of device memory."""


ERRORS = {400: Malformed, 401: Forbidden, 403: Forbidden, 404: NotFound, 409: Conflict, 412: Conflict, 413: TooLarge, 421: Forbidden,
          422: InvalidGraph, 429: Busy, 503: Busy, 504: TimedOut, 507: OutOfMemory}


def make_error(status, headers, body) -> BeamlineError:
    """The exception that a reply with a failure stands for."""
    retry = headers.get("Retry-After", "")
    document = {}
    if "json" in headers.get("Content-Type", ""):
        try:
            document = json.loads(body)
        except ValueError:
            pass
    detail = document.get("detail") or document.get("error") or bytes(body[:200]).decode("utf-8", "replace")
    kind = ERRORS.get(status, BeamlineError)
    return kind(status, detail, document.get("title"), document.get("node"), document.get("step"), document.get("type"),
                float(retry) if retry.isdigit() else None)


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
    """Results by name.  ``stats``: the server's figures; ``kept``: what stayed there; ``collected``: series along a new first axis."""

    def __init__(self, outputs, stats, kept, collected) -> None:
        super().__init__(outputs)
        self.stats, self.kept, self.collected = stats, kept, collected


class Connection:
    """HTTP with keep-alive: one connection for each thread that calls."""

    def __init__(self, url, timeout, key=None) -> None:
        parts = urllib.parse.urlsplit(url if "//" in url else "//" + url, "http")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no address of a server")
        self.kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self.host, self.port, self.prefix = parts.hostname, parts.port or (443 if parts.scheme == "https" else 8470), parts.path.rstrip("/")
        self.timeout = timeout
        self.key = os.environ.get("BEAMLINE_KEY") if key is None else key
        self.local = threading.local()

    def get(self) -> Any:
        link = getattr(self.local, "link", None)
        # A connection that has something to say before it was asked is one that the server has closed.
        if link is not None and link.sock is not None and select.select([link.sock], [], [], 0)[0]:
            link.close()
        if link is None:
            link = self.local.link = self.kind(self.host, self.port, timeout=self.timeout)
        return link

    def exchange(self, method, path, body, headers) -> tuple:
        """(status, headers, body) of one exchange."""
        link = self.get()
        try:
            link.request(method, self.prefix + path, body, {**headers, "Authorization": f"Bearer {self.key}"} if self.key else headers)
            reply = link.getresponse()
            return reply.status, reply.headers, reply.read()
        except BaseException:
            link.close()
            raise

    def close(self) -> None:
        link = getattr(self.local, "link", None)
        if link is not None:
            link.close()


class Client:
    """A server.  May be used by several threads at once.

    url: "http://127.0.0.1:8470"    timeout: seconds to wait for an answer
    key: of the server, where it asks for one; $BEAMLINE_KEY by default
    binary: send and take numbers as safetensors rather than JSON
    use_numpy: give NumPy arrays, which is the default where NumPy is installed; else beamline.Array
    retries: how often to come back when the server is full and says when to
    Every call raises BeamlineError, one of its kinds, where the server refuses, and OSError where it cannot be reached.
    """

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

    def request(self, method, path, body=None, headers=None) -> tuple:
        """One exchange: (headers, body).  Waits and comes back where the server is full."""
        for attempt in range(self.retries + 1):
            status, got, data = self.connection.exchange(method, path, body, headers or {})
            if status < 400:
                return got, data
            error = make_error(status, got, data)
            if attempt == self.retries or error.retry_after is None or error.step or status not in (429, 503):
                raise error
            time.sleep(min(error.retry_after, 10))

    def call(self, method, path, document=None) -> Any:
        """One exchange of JSON documents."""
        body = None if document is None else json.dumps(document).encode()
        _, data = self.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        return json.loads(data) if data else None

    def send(self, method, path, document, tensors, headers=None) -> tuple:
        """Send a document with the tensors beside it; give the document and the tensors that come back."""
        headers = {"Accept": SAFETENSORS if self.binary else "application/json", **(headers or {})}
        text = json.dumps(document, allow_nan=False)
        if tensors:
            body = write_safetensors(tensors, {"request": text})
            headers["Content-Type"] = SAFETENSORS
        else:
            body = text.encode()
            headers["Content-Type"] = "application/json"
        got, data = self.request(method, path, body, headers)
        if got.get("Content-Type", "").startswith(SAFETENSORS):
            arrays, metadata = read_safetensors(data, self.use_numpy)
            return json.loads(metadata.get("response", "{}")), arrays
        return (json.loads(data) if data else {}), None

    def path(self, kind, name, **query) -> str:
        if self.lease_id is not None and kind == "tensors":
            query["lease"] = self.lease_id
        address = f"/api/v1/{kind}" + ("" if name is None else "/" + urllib.parse.quote(name, safe=""))
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

    def result(self, document, arrays) -> Result:
        kept = {name: Held(self, name) for name in document.get("kept", {})}
        return Result(self.decode_all(document.get("outputs"), arrays), document.get("stats", {}), kept,
                      self.decode_all(document.get("collected"), arrays, "collected[{}]"))

    # ---- graphs

    def run(self, graph, inputs=None, *, keep=None, **options) -> Result:
        """Run a graph once and give its outputs: a Result, which is a dict.

        graph: a Graph (or a document, as the wire has it)
        inputs: values by name: numbers, nested lists, an Array, a NumPy array or a Held tensor
        keep: {name: tensor}: results to leave on the server under these names
        options: device, seed, debug, beam, float32_matmul_precision, timeout_ms, and sizes: {name: size} of the dimensions that no input's shape gives
        """
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
        if self.lease_id is not None:
            document["lease"] = self.lease_id
        return self.result(*self.send("POST", "/api/v1/run", document, tensors))

    # ---- tensors on the server

    def put(self, name, value, dtype=None, shape=None, device=None) -> Held:
        """Keep a tensor on the server and give a Held one.

        value: numbers and nested lists (of |dtype|, by default float32), an Array, a NumPy array; or raw little-endian bytes, or a
            binary file, of |dtype| and |shape|
        """
        if is_numpy(value) or isinstance(value, (Array, list, tuple, int, float)):
            value = as_array(value) if is_numpy(value) or isinstance(value, Array) else array(value, dtype or "float32")
            dtype, shape, value = value.dtype, value.shape, value.data
        query = {"dtype": dtype_name(dtype), "shape": ",".join(map(str, shape))}
        headers = {"Content-Type": "application/octet-stream"}
        if hasattr(value, "read"):
            headers["Content-Length"] = str(count(shape) * DTYPES[dtype_name(dtype)][0])
        self.request("PUT", self.path("tensors", name, **query, **({"device": device} if device else {})), value, headers)
        return Held(self, name)

    def get(self, name) -> Any:
        """The numbers of a tensor on the server.  NotFound if there is none of that name."""
        _, data = self.request("GET", self.path("tensors", name), headers={"Accept": SAFETENSORS})
        arrays, _ = read_safetensors(data, self.use_numpy)
        return arrays[name]

    def tensor(self, name) -> Held:
        """A tensor that the server holds, without asking whether it does."""
        return Held(self, name)

    def tensors(self) -> list:
        """What the server holds: a list of dicts with name, dtype, shape, bytes and device."""
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

    # ---- programs

    def put_program(self, name, program, *, if_absent=False, **options) -> RemoteProgram:
        """Define a program, its state included, and give a handle.

        program: a Program, or a document, as the wire has it
        if_absent: Conflict where there is one already, instead of replacing it
        options: device, seed, debug, beam, float32_matmul_precision
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
        if self.lease_id is not None:
            document["lease"] = self.lease_id
        headers = {"If-None-Match": "*"} if if_absent else {}
        headers["Accept"] = "application/json"
        info, _ = self.send("PUT", self.path("programs", name), document, tensors, headers)
        return RemoteProgram(self, name, info)

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

    # ---- the server

    def devices(self) -> list:
        """The devices: a list of dicts with id, name, type and memory."""
        return self.call("GET", "/api/v1/devices")["devices"]

    def metrics(self) -> dict:
        """What Prometheus would read: {"name{labels}": number}."""
        _, data = self.request("GET", "/metrics")
        lines = [line.rsplit(" ", 1) for line in data.decode().splitlines() if line and not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def ready(self) -> bool:
        """Whether the server takes requests."""
        try:
            return self.connection.exchange("GET", "/v2/health/ready", None, {})[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_ready(self, seconds=60) -> None:
        """Wait until it does; TimeoutError if it does not in time."""
        until = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > until:
                raise TimeoutError(f"no server at {self.connection.host}:{self.connection.port} after {seconds} s")
            time.sleep(0.05)


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

    def run(self, inputs=None, *, entry=None, steps=None, collect=None, every=1, keep=None, **options) -> Result:
        """Run steps of an entry and give the last one's outputs: a Result.

        inputs: values by name, as for Client.run; each takes the dtype that the program declares
        entry: which one, where there are several       steps: how many, by default 1
        collect: outputs to give as a series too, of each |every| steps: in ``collected``
        keep: {name: output}: outputs to leave on the server under these names, instead of sending them
        options: device, debug, timeout_ms, and sizes as for Client.run
        """
        document, tensors = dict(options), {}
        document.update({"entry": entry} if entry else {}, **({"steps": steps} if steps else {}))
        if collect:
            document["collect"] = {"every": every, "outputs": list(collect)}
        if keep:
            document["keep"] = dict(keep)
        values = self.client.encode_all(inputs or {}, {}, tensors)
        if values:
            document["inputs"] = values
        if self.client.lease_id is not None:
            document["lease"] = self.client.lease_id
        return self.client.result(*self.client.send("POST", self.path("/run"), document, tensors))

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

    def set_state(self, values) -> None:
        """Replace the state, whole.  InvalidGraph where one is missing or does not fit."""
        tensors = {}
        state = self.client.encode_all(values, {}, tensors)
        self.client.send("PUT", self.path("/state"), {"state": state} if state or not tensors else {}, tensors,
                         {"Accept": "application/json"})

    def delete(self) -> None:
        """Remove it, its state included.  NotFound if it is gone."""
        self.client.request("DELETE", self.client.path("programs", self.name))
