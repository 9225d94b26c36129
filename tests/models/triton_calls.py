# SPDX-License-Identifier: MIT
"""Calls of tritonclient with their expected results, on the server at argv[1]; test_triton.py runs this script."""

import asyncio
import sys

import numpy as np
import tritonclient.http as http
import tritonclient.http.aio as aio
from tritonclient.utils import InferenceServerException

X = np.arange(8, dtype=np.float32).reshape(2, 4)


def inputs(module, binary=True, name="x", data=X, kind="FP32"):
    one = module.InferInput(name, list(data.shape), kind)
    one.set_data_from_numpy(data, binary_data=binary)
    return [one]


def check(what, got, want=True):
    if not np.array_equal(got, want):
        sys.exit(f"{what}: {got!r}, and not {want!r}")
    print("ok", what)


def refusal(what, word, call):
    try:
        call()
    except InferenceServerException as error:
        check(what, word in str(error) and error.status() is not None)
    else:
        sys.exit(f"{what}: nothing was refused")


def about(client):
    check("live", client.is_server_live())
    check("ready", client.is_server_ready())
    check("model ready", client.is_model_ready("double") and client.is_model_ready("double", "1") and not client.is_model_ready("nobody"))
    check("server metadata", "binary_tensor_data" in client.get_server_metadata()["extensions"])
    check("model metadata", client.get_model_metadata("double")["inputs"][0], {"name": "x", "datatype": "FP32", "shape": [-1, 4], "dims": ["batch", 4]})
    check("config", client.get_model_config("double")["max_batch_size"], 64)
    check("index", {row["name"] for row in client.get_model_repository_index()} >= {"double", "upper"})
    check("statistics", client.get_inference_statistics("double")["model_stats"][0]["version"], "1")


def infer(client):
    for binary in (True, False):
        outputs = [http.InferRequestedOutput("y", binary_data=binary)]
        for coding in (None, "gzip", "deflate"):
            result = client.infer("double", inputs(http, binary), outputs=outputs, request_id="r", request_compression_algorithm=coding,
                                  response_compression_algorithm=coding)
            check(f"infer, binary {binary}, coded {coding}", result.as_numpy("y"), X * 2)
            check("id", result.get_response()["id"], "r")
    check("all outputs", client.infer("double", inputs(http)).as_numpy("y"), X * 2)
    calls = [client.async_infer("double", inputs(http, data=X + i)) for i in range(16)]
    check("async_infer", all(np.array_equal(call.get_result().as_numpy("y"), (X + i) * 2) for i, call in enumerate(calls)))
    own = {"color": "blue", "depth": 3, "ratio": 0.5, "flag": True}
    check("parameters of one's own", client.infer("double", inputs(http), parameters=own).as_numpy("y"), X * 2)
    words = np.array([[b"hello"], [b"world"]], dtype=np.object_)
    for binary in (True, False):
        result = client.infer("upper", inputs(http, binary, "text", words, "BYTES"))
        check(f"texts, binary {binary}", result.as_numpy("shout"), np.array([[b"HELLO"], [b"WORLD"]], dtype=np.object_))


def control(client):
    client.unload_model("double")
    check("unloaded", not client.is_model_ready("double"))
    refusal("infer of an unloaded model", "double", lambda: client.infer("double", inputs(http)))
    client.load_model("double")
    check("loaded", client.is_model_ready("double"))
    refusal("load of none", "nobody", lambda: client.load_model("nobody"))
    document = b'{"inputs": {"x": {"dtype": "float32", "shape": [2, 4]}}, "nodes": [{"id": "y", "op": "neg", "in": ["x"]}], "outputs": ["y"]}'
    client.load_model("sent", config="{}", files={"file:1/model.json": document})
    check("a model that was sent", client.infer("sent", inputs(http)).as_numpy("y"), -X)
    refusal("a wrong shape", "shape", lambda: client.infer("double", inputs(http, data=X.reshape(4, 2))))


async def asynchronous(url):
    async with aio.InferenceServerClient(url) as client:
        check("aio live", await client.is_server_live())
        check("aio metadata", (await client.get_model_metadata("double"))["name"], "double")
        results = await asyncio.gather(*[client.infer("double", inputs(aio, data=X + i)) for i in range(16)])
        check("aio infer", all(np.array_equal(one.as_numpy("y"), (X + i) * 2) for i, one in enumerate(results)))
        one = await client.infer("double", inputs(aio, False), outputs=[aio.InferRequestedOutput("y", binary_data=False)], response_compression_algorithm="gzip")
        check("aio JSON", one.as_numpy("y"), X * 2)
        await client.unload_model("double")
        await client.load_model("double")
        check("aio loaded", await client.is_model_ready("double"))


def main():
    url = sys.argv[1]
    client = http.InferenceServerClient(url, concurrency=16)
    about(client)
    infer(client)
    control(client)
    asyncio.run(asynchronous(url))
    print("done")


main()
