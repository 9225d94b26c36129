# SPDX-License-Identifier: MIT
"""The server that Tensors live on: found or started when it is first needed, one lease, handles, and the requests."""
from __future__ import annotations

import atexit
import json
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import urllib.parse

from .client import SAFETENSORS, Client
from .connection import NotFound
from .context import BEAM, DEBUG, GlobalCounters
from .values import read_safetensors, write_safetensors

TTL = 600                # seconds that the server waits for a word of us
FREED_BYTES = 32 << 20   # of dead tensors, before they are deleted rather than their names used again
FREED_NAMES = 256
KEPT_BYTES = 1024        # numbers up to this size, and numbers of a mapped file, stay in this process after an upload: a restarted server gets them again
ADDRESS = "http://127.0.0.1:8470"
# The shell ends the server when this process closes its end of the pipe, however it ends.
LAUNCH = '"$0" serve --port 0 --state none --log-level warn < /dev/null & server=$!; read -r line; kill "$server"; wait "$server"'


class Handle:
    """A tensor on the server.  Its name is free for another once this object is gone.

    lease: the lease of the tensor     data: the same numbers as an Array, if this process has them too
    """

    __slots__ = ("session", "name", "nbytes", "lease", "data")

    def __init__(self, session: Session, name: str, nbytes: int):
        self.session, self.name, self.nbytes, self.lease, self.data = session, name, nbytes, session.lease, None
        GlobalCounters.mem_used += nbytes

    def __del__(self) -> None:
        GlobalCounters.mem_used -= self.nbytes
        if self.lease == self.session.lease:
            self.session.freed.append((self.name, self.nbytes))

    @property
    def is_lost(self) -> bool:
        """Whether the lease, and so the tensor, has ended."""
        return self.lease != self.session.lease


def find_binary() -> str | None:
    """The server's program: $BEAMLINE, of the working copy that this file is in, or on the PATH."""
    root = pathlib.Path(__file__).resolve().parents[3]
    places = [os.environ.get("BEAMLINE"), str(root / "build" / "beamline"), shutil.which("beamline")]
    return next((place for place in places if place and os.access(place, os.X_OK) and os.path.isfile(place)), None)


def start_server(binary: str) -> str:
    """The address of a server that lives as long as this process."""
    process = subprocess.Popen(["/bin/sh", "-c", LAUNCH, binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    words = re.search(r"listening on (\S+)", process.stdout.readline())
    if words is None:
        raise RuntimeError(f"{binary} did not start")

    def stop():
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
    atexit.register(stop)
    return f"http://{words.group(1)}"


def find_server() -> str:
    """$BEAMLINE_URL, else a server on the usual port, else one that is started.  Says on stderr what it found."""
    if os.environ.get("BEAMLINE_URL"):
        return os.environ["BEAMLINE_URL"]
    client = Client(ADDRESS, timeout=5)
    with client:
        if client.ready():
            print(f"beamline: using the server at {ADDRESS}", file=sys.stderr)
            return ADDRESS
    binary = find_binary()
    if binary is None:
        raise RuntimeError("no server: set BEAMLINE_URL to the address of one, or BEAMLINE to the program to start, or put it on "
                           "the PATH")
    url = start_server(binary)
    print(f"beamline: started {binary} at {url}", file=sys.stderr)
    return url


class Session:
    """This process on a server: its lease, and the names of its tensors.  Any thread."""

    def __init__(self, url: str):
        self.client = Client(url)
        if os.environ.get("BEAMLINE_PROGRESS", str(int(sys.stderr.isatty()))) not in ("", "0"):
            self.client.connection.waits = self.tell_wait
        self.lock = threading.RLock()
        self.lease = self.new_lease()
        self.freed: list = []          # (name, bytes) of dead handles
        self.programs: list = []       # names of dead programs
        self.counter = 0
        self.pid = os.getpid()
        self.ended = threading.Event()
        threading.Thread(target=self.renew, daemon=True).start()
        atexit.register(self.end)

    def new_lease(self) -> str:
        return self.client.call("POST", "/api/v1/leases", {"ttl": TTL})["lease"]

    def recover(self, lease: str) -> bool:
        """If |lease| has ended, continue under a new lease.  Returns: whether |lease| had ended."""
        with self.lock:
            if self.lease == lease:
                try:
                    self.call("PUT", f"/api/v1/leases/{lease}")
                    return False
                except NotFound:
                    self.lease = self.new_lease()
                    self.freed.clear()
                    self.programs.clear()
                    for each in Device.when_lost:
                        each()
                    print(f"beamline: the server at {self.client.connection.url} was restarted, or the lease of this process ended: continuing under a new lease",
                          file=sys.stderr)
            return True

    def renew(self) -> None:
        client = Client(self.client.connection.url)
        while not self.ended.wait(TTL / 3):
            try:
                client.call("PUT", f"/api/v1/leases/{self.lease}")
            except Exception:  # pylint: disable=broad-except  # the next request says what is wrong
                pass

    def end(self) -> None:
        """Free all that the server holds for this process."""
        if self.ended.is_set() or self.pid != os.getpid():
            return
        self.ended.set()
        try:
            self.call("DELETE", f"/api/v1/leases/{self.lease}")  # and with it tensors and programs
        except Exception:  # pylint: disable=broad-except  # the server is gone, and all with it
            pass
        self.lease = ""  # all tensors of the session are lost
        self.client.close()

    def tell_wait(self) -> None:
        """Print on stderr that a request waits, if the server has graphs to compile."""
        try:
            with Client(self.client.connection.url, timeout=5) as client:
                _, data = client.request("GET", "/metrics")
        except Exception:  # pylint: disable=broad-except  # the request reports the failure
            return
        found = re.search(rb'^beamline_queue_length\{device="compiler"\} ([1-9]\d*)', bytes(data), re.MULTILINE)
        if found:
            print(f"beamline: waiting for the server's compiler, which has {int(found[1])} graph{'s' * (int(found[1]) > 1)} to compile",
                  file=sys.stderr)

    # ---- requests

    def exchange(self, method: str, path: str, body=b"", content="application/json", accept="application/json"):
        """(headers, body); BeamlineError where the server refuses."""
        with self.lock:
            return self.client.request(method, path, body, {"Content-Type": content, "Accept": accept})

    def call(self, method: str, path: str, document=None):
        """One exchange of JSON documents."""
        _, data = self.exchange(method, path, b"" if document is None else json.dumps(document).encode())
        return json.loads(data) if data else None

    def post(self, path: str, text: str, files: dict | None, binary: bool) -> tuple[dict, dict]:
        """(reply, arrays): a document, with arrays beside it, to a graph or program; numbers come back if |binary|."""
        body, content = text.encode(), "application/json"
        if files:
            body, content = write_safetensors(files, {"request": text}), SAFETENSORS
        GlobalCounters.requests += 1
        headers, data = self.exchange("POST", path, body, content, SAFETENSORS if binary else "application/json")
        arrays: dict = {}
        if headers.get("Content-Type", "").startswith(SAFETENSORS):
            arrays, metadata = read_safetensors(data, False)
            return json.loads(metadata["response"]), arrays
        return json.loads(data), arrays

    def count(self, stats: dict, steps: int = 1) -> None:
        """Add one run to the counters, and print what it tells of itself.  All but the time is of each step."""
        GlobalCounters.kernel_count += (stats["kernels"] + stats["helpers"]) * steps
        GlobalCounters.time_sum_s += stats["compute_ms"] * 1e-3
        GlobalCounters.global_ops += stats["ops"] * steps
        GlobalCounters.global_mem += stats["bytes"] * steps
        if stats.get("debug"):
            print(stats["debug"].rstrip("\n"))

    # ---- tensors

    def fresh(self) -> str:
        """A name for a tensor: that of a dead one, which it replaces, or a new one."""
        if self.freed:
            return self.freed.pop()[0]
        self.counter += 1
        return f"t{self.counter}"

    def sweep(self, force: bool = False) -> None:
        """Delete dead tensors where they are many or large."""
        freed = self.freed
        if not freed and not self.programs:
            return
        if force or len(freed) > FREED_NAMES or sum(size for _, size in freed) > FREED_BYTES:
            names = []
            while freed:
                names.append(freed.pop()[0])
            if names:
                self.call("POST", "/api/v1/tensors/delete", {"names": names, "lease": self.lease})
        while self.programs:
            try:
                self.call("DELETE", f"/api/v1/programs/{self.programs.pop()}")
            except NotFound:  # the program ended with its lease
                pass

    def upload(self, value, device: str | None) -> Handle:
        """An Array as a tensor on the server."""
        self.sweep()
        name = self.fresh()
        query = {"dtype": value.dtype, "shape": ",".join(map(str, value.shape)), "lease": self.lease,
                 **({"device": device} if device else {})}
        self.exchange("PUT", f"/api/v1/tensors/{name}?{urllib.parse.urlencode(query, safe=',')}", value.data,
                      "application/octet-stream")
        handle = Handle(self, name, value.nbytes)
        if value.nbytes <= KEPT_BYTES or isinstance(getattr(value.data, "obj", None), mmap.mmap):
            handle.data = value
        return handle

    def download(self, handle: Handle):
        """The numbers of a tensor on the server, as an Array."""
        _, data = self.exchange("GET", f"/api/v1/tensors/{handle.name}?lease={self.lease}", accept=SAFETENSORS)
        return next(iter(read_safetensors(data, False)[0].values()))


class _Device:
    """The devices of the server.  ``Device.DEFAULT`` is the one that is used where none is named; it can be set."""

    def __init__(self) -> None:
        self.opened: Session | None = None
        self.url: str | None = None
        self.default: str | None = None
        self.ids: list | None = None
        self.when_lost: list = []  # functions to call after tensors on a server were lost
        self.lock = threading.Lock()

    @property
    def session(self) -> Session:
        """The session with the server, opened when it is first asked for."""
        if self.opened is None:
            with self.lock:
                if self.opened is None:
                    self.opened = Session(self.url or find_server())
            if self.default is None and os.environ.get("BEAMLINE_DEVICE"):
                self.default = self.canonicalize(os.environ["BEAMLINE_DEVICE"])
        return self.opened

    def connect(self, url: str) -> None:
        """Use this server from now on.  Tensors on another one are lost to this process."""
        if self.opened is not None:
            self.opened.end()
        self.opened, self.ids, self.url, self.default = None, None, url, None
        for each in self.when_lost:
            each()

    def list(self) -> list:
        """What the server says of its devices: a list of dicts with id, name, type and memory; the default one first."""
        if self.ids is None:
            self.ids = self.session.call("GET", "/api/v1/devices")["devices"]
        return self.ids

    @property
    def DEFAULT(self) -> str:
        """The id of the default device."""
        first = self.list()[0]["id"]  # and the session, which takes the default from the environment
        return self.default or first

    @DEFAULT.setter
    def DEFAULT(self, device: str) -> None:
        self.default = self.canonicalize(device)

    def canonicalize(self, device: str | None) -> str | None:
        """The server's id of a device: "opencl:0"; "CPU" and "GPU" find the first of that kind.  None stays the default."""
        if device is None or re.fullmatch(r"(opencl|vulkan|interp|cuda):\d+", device):
            return device
        name = device.lower()
        if name in ("opencl", "vulkan", "interp", "cuda"):
            return f"{name}:0"
        if re.fullmatch(r"(opencl|vulkan|interp|cuda):\d+", name):
            return name
        kind, _, number = name.partition(":")
        kind = {"cl": "opencl", "python": "cpu", "npy": "cpu", "clang": "cpu", "llvm": "cpu"}.get(kind, kind)
        fits = [each["id"] for each in self.list() if each["id"].startswith(kind + ":") or each["type"].lower() == kind]
        place = int(number) if number.isdecimal() else -1 if number else 0
        if not 0 <= place < len(fits):
            raise ValueError(f"no device {device!r}; there are {', '.join(each['id'] for each in self.list())}: name one of them, or \"CPU\", \"GPU\", "
                             "or such a kind with a number, as in \"GPU:1\"")
        return fits[place]

    def synchronize(self) -> None:
        """Delete on the server what is dead here.  Every request waits for its result, so there is nothing else to wait for."""
        self.session.sweep(force=True)

    def __getitem__(self, device: str) -> _Device:
        self.canonicalize(device)
        return self


Device = _Device()


def options() -> str:
    """The members of a request that settings ask for."""
    debug = f',"debug":{min(int(DEBUG), 7)}' if DEBUG.value >= 1 else ""
    return debug + (f',"beam":{int(BEAM)}' if BEAM.value else "")
