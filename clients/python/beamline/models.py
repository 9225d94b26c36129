# SPDX-License-Identifier: MIT
"""Hosted models, asked by the Open Inference Protocol."""
from __future__ import annotations

import base64
import json
import os
import struct
from typing import Any, Iterator

from .connection import BeamlineError, read_events
from .values import Array, array, as_array, as_result, exact, flatten, is_numpy, nest, restore, shape_of

# name of a dtype -> the protocol's
DATATYPES = {"bool": "BOOL", "float16": "FP16", "bfloat16": "BF16", "float32": "FP32", "float64": "FP64",
             **{f"{kind}int{bits}": f"{kind}int{bits}".upper() for kind in ("", "u") for bits in (8, 16, 32, 64)}}
NAMES = {datatype: name for name, datatype in DATATYPES.items()}
HEADER = "Inference-Header-Content-Length"


class Model:
    """A hosted model: Client.model names one, RemoteProgram.promote makes one.  ``version``: None is the newest."""

    def __init__(self, client, name, version=None) -> None:
        self.client, self.name, self.version = client, name, None if version is None else str(version)
        self.kinds: dict | None = None

    def __repr__(self) -> str:
        return f"Model({self.name!r}{'' if self.version is None else f', version={self.version}'})"

    def path(self, rest="") -> str:
        name = self.client.quote(self.name)
        return f"/v2/models/{name}" + (f"/versions/{self.version}" if self.version else "") + rest

    # ---- what it is

    def metadata(self) -> dict:
        """{"name", "versions", "platform", "inputs", "outputs"}; of each tensor name, datatype and shape, with -1 where a size varies."""
        return self.client.call("GET", self.path())

    def config(self) -> dict:
        """How it is served, as Triton's ModelConfig has it; ``load`` takes it back."""
        return self.client.call("GET", self.path("/config"))

    def statistics(self) -> list:
        """A dict for each version: counts, and times in nanoseconds, of its inferences."""
        return self.client.call("GET", self.path("/stats"))["model_stats"]

    def ready(self) -> bool:
        """Whether it can be asked."""
        return self.client.connection.exchange("GET", self.path("/ready"), None, {})[0] == 200

    def trace(self, **settings) -> dict:
        """Which of its inferences are traced, after changing what is given (scope admin); None takes one back.

        settings: trace_level (["OFF"] or ["TIMESTAMPS"]), trace_rate, trace_count
        """
        return self.client.settings(f"/v2/models/{self.client.quote(self.name)}/trace/setting", settings)

    # ---- asking

    def infer(self, inputs, outputs=None, *, classes=None, **parameters) -> Any:
        """Ask it: a Result of outputs by name; ``stats`` has model_name, model_version and the answer's parameters.

        inputs: values by name: an Array or a NumPy array; numbers and nested lists, which take the dtype that the model declares (asked for
            once); texts, as str, bytes or nested lists of such
        outputs: names of those to send, by default all     classes: {output: n}: its n largest elements, as texts "VALUE:INDEX[:LABEL]"
        parameters: sequence_id, sequence_start, sequence_end, priority, timeout (microseconds)
        Texts come back as nested lists of str; bytes that are no UTF-8 are in them as Python's surrogateescape has it.
        Malformed where an input is missing or does not fit.
        """
        document: dict[str, Any] = {"inputs": [], **({"parameters": dict(parameters)} if parameters else {})}
        chunks: list = []
        for name, value in inputs.items():
            document["inputs"].append(self.encode(name, value, chunks))
        wanted = list(outputs) if outputs is not None else sorted(classes or {})
        if wanted:
            document["outputs"] = [{"name": name, **({"parameters": {"classification": classes[name]}} if name in (classes or {}) else {})}
                                   for name in wanted]
        if self.client.binary:
            document.setdefault("parameters", {})["binary_data_output"] = True
        text = json.dumps(document, allow_nan=False).encode()
        headers = {"Content-Type": "application/octet-stream", HEADER: str(len(text))} if chunks else {"Content-Type": "application/json"}
        return self.decode(*self.client.request("POST", self.path("/infer"), b"".join([text, *chunks]), headers))

    def generate(self, text=None, **members) -> dict:
        """Have a text model write on: {"text_output", "finish_reason", "num_input_tokens", "num_output_tokens", ...}.

        text: where it begins       members: max_tokens, temperature, top_k, top_p, seed, stop, ignore_eos, exclude_input_in_output, timeout,
            priority; of another model its inputs by name, and the answer has its outputs
        """
        return self.client.call("POST", self.path("/generate"), self.prompt(text, members))

    def stream(self, text=None, **members) -> Iterator[dict]:
        """The same as it is written: a dict for each token, whose "text_output" is what came to the text; the last has "finish_reason".

        BeamlineError of status 500 where it fails in the midst of it.
        """
        body = json.dumps(self.prompt(text, members)).encode()
        with self.client.connection.stream("POST", self.path("/generate_stream"), body, {"Content-Type": "application/json"}) as reply:
            for _, event in read_events(reply):
                if "error" in event:
                    raise BeamlineError(500, event["error"])
                yield event

    @staticmethod
    def prompt(text, members) -> dict:
        return {**({} if text is None else {"text_input": text}), **exact_members(members)}

    def encode(self, name, value, chunks) -> dict:
        """An input of a request; its bytes go to |chunks| where numbers travel so."""
        if is_text(value):
            texts = [each if isinstance(each, bytes) else str(each).encode() for each in flatten(listed(value), [])]
            entry = {"name": name, "datatype": "BYTES", "shape": list(shape_of(listed(value))) or [1]}
            return self.attach(entry, b"".join(struct.pack("<I", len(each)) + each for each in texts), chunks)
        if not isinstance(value, Array) and not is_numpy(value):
            value = array(value, self.dtype(name))
        value = as_array(value)
        if value.dtype not in DATATYPES:
            raise ValueError(f"{name}: the protocol has no {value.dtype}")
        entry = {"name": name, "datatype": DATATYPES[value.dtype], "shape": list(value.shape)}
        if self.client.binary:
            return self.attach(entry, value.data, chunks)
        return {**entry, "data": exact(value.flat())}

    @staticmethod
    def attach(entry, data, chunks) -> dict:
        chunks.append(data)
        return {**entry, "parameters": {"binary_data_size": memoryview(data).nbytes}}

    def dtype(self, name) -> str:
        """That of an input; float32 of one that there is none of, which the server refuses by name."""
        if self.kinds is None:
            self.kinds = {each["name"]: each["datatype"] for each in self.metadata()["inputs"]}
        return NAMES.get(self.kinds.get(name, "FP32"), "float32")

    def decode(self, headers, data) -> Any:
        size = int(headers.get(HEADER, len(data)))
        document, rest = json.loads(data[:size]), memoryview(data)[size:]
        values = {}
        for entry in document["outputs"]:
            size = entry.get("parameters", {}).get("binary_data_size")
            raw = None if size is None else rest[:size]
            rest = rest[size or 0:]
            values[entry["name"]] = self.output(entry, raw)
        return self.client.named({name: value for name, value in document.items() if name != "outputs"}, values)

    def output(self, entry, raw) -> Any:
        shape = tuple(entry["shape"])
        if entry["datatype"] == "BYTES":
            return nest(flatten(entry["data"] if raw is None else list(unpack_texts(raw)), []), shape)
        dtype = NAMES[entry["datatype"]]
        if raw is None:
            raw = array(restore(entry["data"]), dtype).data
        return as_result(dtype, shape, raw, self.client.use_numpy)

    # ---- loading

    def load(self, config=None, files=None) -> None:
        """Load it from the folder of models, or again (scope admin); with |files| as this key's own (scope train), beside those of the folder.

        config: what takes the place of its config.json, a dict
        files: {"1/model.json": a document, bytes, or the path of a file, "1/model.safetensors": ..., "1/model.onnx": ..., "1/tokenizer.json": ...}
        A load that fails leaves what was there, and is BeamlineError with the reason.
        """
        parameters = {} if config is None and not files else {"config": json.dumps(config or {})}
        parameters.update({f"file:{name}": base64.b64encode(content(value)).decode() for name, value in (files or {}).items()})
        self.client.call("POST", self.repository("load"), {"parameters": parameters})
        self.kinds = None

    def unload(self) -> None:
        """End it, all versions: requests under way are answered.  One that was promoted, or brought as files, is gone for good."""
        self.client.call("POST", self.repository("unload"), {})

    def repository(self, verb) -> str:
        return f"/v2/repository/models/{self.client.quote(self.name)}/{verb}"


def is_text(value) -> bool:
    """Whether it is a text or lists of such."""
    if is_numpy(value):
        return value.dtype.kind in "USO"
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return isinstance(value, (str, bytes))


def listed(value) -> Any:
    return value.tolist() if is_numpy(value) else value


def unpack_texts(raw) -> Iterator[str]:
    """Texts as the binary extension packs them: each behind its length."""
    at = 0
    while at < len(raw):
        size, = struct.unpack_from("<I", raw, at)
        yield bytes(raw[at + 4:at + 4 + size]).decode("utf-8", "surrogateescape")
        at += 4 + size


def exact_members(members) -> dict:
    return {name: exact(value.tolist() if isinstance(value, Array) or is_numpy(value) else value) for name, value in members.items()}


def content(value) -> bytes:
    """A file of a model as bytes."""
    if isinstance(value, dict):
        return json.dumps(value).encode()
    if isinstance(value, (str, os.PathLike)):
        with open(value, "rb") as file:
            return file.read()
    return bytes(value)


def range_text(sizes) -> str:
    """(1, 8) is "1-8", (32, 1280, 32) is "32-1280:32", and 7 is "7"."""
    if isinstance(sizes, int):
        return str(sizes)
    low, high, *step = sizes
    return "".join([f"{low}-{high}", *(f":{each}" for each in step)])
