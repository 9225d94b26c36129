# SPDX-License-Identifier: MIT
"""Raw logits of a hosted language model, whatever form its program has."""
import json
import urllib.error
import urllib.request

import numpy as np

DTYPES = {"INT32": np.int32, "FP32": np.float32, "FP16": np.float16}
PAGE = 32


def call(url, document=None):
    """The answer, or the error's text."""
    data = None if document is None else json.dumps(document).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode()}


def inputs(tokens, tensors):
    """Arrays for the inputs of a text that begins with |tokens|."""
    n, pages = len(tokens), (len(tokens) + PAGE - 1) // PAGE
    known = {"tokens": np.array([tokens]), "position": np.zeros(1), "slots": np.arange(n)[None], "table": np.arange(pages)[None]}
    return {t["name"]: np.asarray(known.get(t["name"], np.zeros([1 if size < 0 else size for size in t["shape"]])), DTYPES[t["datatype"]])
            for t in tensors}, {t["name"]: t["datatype"] for t in tensors}


def logits(url, model, tokens):
    """Of the last of the tokens."""
    arrays, kinds = inputs(tokens, call(f"{url}/v2/models/{model}")["inputs"])
    answer = call(f"{url}/v2/models/{model}/infer", {
        "inputs": [{"name": name, "shape": list(array.shape), "datatype": kinds[name], "data": array.ravel().tolist()} for name, array in arrays.items()],
        "outputs": [{"name": "logits"}]})
    if "error" in answer:
        raise AssertionError(answer["error"])
    out = answer["outputs"][0]
    return np.array(out["data"], np.float64).reshape(out["shape"])[0].reshape(-1, out["shape"][-1])[-1]


def error(got, wanted):
    """Normalised mean square error."""
    return float(((got - wanted) ** 2).mean() / (wanted ** 2).mean())
