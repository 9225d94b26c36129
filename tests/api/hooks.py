# SPDX-License-Identifier: MIT
"""Hooks of schemathesis: facts about the server that its description cannot express."""
import schemathesis
from schemathesis import GenerationMode


def whole(value):
    """Converts 2.0 to 2: JSON Schema takes 2.0 for an integer, but the server accepts only integers in integer notation."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [whole(item) for item in value]
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return value


# A schema cannot say that the numbers of a Content-Range are in order, or that address parameters need a body.
BETWEEN = ("is not a valid range", "raw bytes need dtype and shape in the address")


@schemathesis.hook
def map_body(context, body):
    return whole(body)


@schemathesis.check
def what_the_schema_allows_is_not_malformed(ctx, response, case):
    """Replaces positive_data_acceptance.  A graph that the schema allows may be an invalid graph (422), but is never malformed
    (400).  For bodies that are no JSON the schema describes no contents.  /v2 has the codes of Triton; /v1 and the addresses of
    llama.cpp's server have the codes of OpenAI, where 400 also means an invalid graph."""
    meta = case.meta
    if meta is None or meta.generation.mode != GenerationMode.POSITIVE or not case.path.startswith("/api/"):
        return
    if any(text in response.text for text in BETWEEN):
        return
    if isinstance(case.body, schemathesis.core.NotSet) or case.media_type == "application/json":
        assert response.status_code != 400, f"the schema allows it, and the answer is {response.text[:300]}"


@schemathesis.check
def examples_are_good(ctx, response, case):
    """The description's examples succeed, unless the resource that they name is missing."""
    if case.meta is not None and case.meta.phase.name.value == "examples":
        assert response.status_code < 300 or response.status_code == 404, response.text[:300]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Sends requests about the key of the tests to another name, so that no request changes this key."""
    if case.path.startswith("/api/v1/keys/") and (case.path_parameters or {}).get("name") == "tester":
        case.path_parameters["name"] = "somebody"
