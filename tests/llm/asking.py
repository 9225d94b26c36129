# SPDX-License-Identifier: MIT
"""Requests to hosted language models in tests."""
import json
import urllib.error
import urllib.request

import numpy as np

def call(url, document=None):
    """Returns the answer, or the text of the error."""
    data = None if document is None else json.dumps(document).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
            return json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode()}


def logits(url, model, tokens, vocabulary):
    """Returns the log probabilities of the 100 likeliest next tokens, and NaN for the others."""
    answer = call(f"{url}/completion", {"model": model, "prompt": list(tokens), "n_predict": 1, "n_probs": 100, "temperature": 0, "cache_prompt": False})
    if "error" in answer:
        raise AssertionError(answer["error"])
    out = np.full(vocabulary, np.nan)
    for row in answer["completion_probabilities"][0]["top_logprobs"]:
        out[row["id"]] = row["logprob"]
    return out


def vectors(url, model, texts, **more):
    """Returns float64 [texts, width]; a text is a str or a list of tokens."""
    answer = call(f"{url}/v1/embeddings", {"model": model, "input": texts, **more})
    if "error" in answer:
        raise AssertionError(answer["error"])
    rows = sorted(answer["data"], key=lambda row: row["index"])
    return np.array([row["embedding"] for row in rows])


def error(got, logits):
    """Normalised mean square error between log probabilities and logits."""
    wanted = logits - logits.max()
    wanted = wanted - np.log(np.exp(wanted).sum())
    got, wanted = got[~np.isnan(got)], wanted[~np.isnan(got)]
    return float(((got - wanted) ** 2).mean() / (wanted ** 2).mean())
