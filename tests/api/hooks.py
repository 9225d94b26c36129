# SPDX-License-Identifier: MIT
"""What schemathesis, which loads this, is told of the server beyond its description."""
import schemathesis
from schemathesis import GenerationMode


def whole(value):
    """2.0 as 2: for JSON Schema it is an integer, and the server takes integers that are written as such."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return value


# What a schema cannot say: that the numbers of a Content-Range are in order, that parameters of the address go with a body.
BETWEEN = ("is no range", "raw bytes need dtype and shape in the address")


@schemathesis.hook
def map_body(context, body):
    return whole(body)


@schemathesis.check
def what_the_schema_allows_is_not_malformed(ctx, response, case):
    """Instead of positive_data_acceptance: a graph that the schema allows may well be one that cannot be (422), but it is never malformed
    (400).  Of bodies that are no JSON the schema cannot say what is in them.  /v2 has the codes of Triton, /v1 and the addresses of llama.cpp's server those of OpenAI, for whom
    400 is also what cannot be."""
    meta = case.meta
    if meta is None or meta.generation.mode != GenerationMode.POSITIVE or not case.path.startswith("/api/"):
        return
    if any(text in response.text for text in BETWEEN):
        return
    if isinstance(case.body, schemathesis.core.NotSet) or case.media_type == "application/json":
        assert response.status_code != 400, f"the schema allows it, and the answer is {response.text[:300]}"


@schemathesis.check
def examples_are_good(ctx, response, case):
    """Whoever copies an example from the description has an answer; only what it names may not be there."""
    if case.meta is not None and case.meta.phase.name.value == "examples":
        assert response.status_code < 300 or response.status_code == 404, response.text[:300]


@schemathesis.hook
def before_call(context, case, kwargs):
    """The key that all requests have stays as it is, although a list of keys has told of it."""
    if case.path.startswith("/api/v1/keys/") and (case.path_parameters or {}).get("name") == "tester":
        case.path_parameters["name"] = "somebody"
