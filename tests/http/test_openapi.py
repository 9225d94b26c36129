# SPDX-License-Identifier: MIT
"""The API description against the table of routes and against the server's answers."""

import json
import re
import unittest

from fixture import ROOT, ServerTest, counter, graph


def check(schema, value, root, path="$"):
    """Checks the part of JSON Schema that proto/openapi.yaml uses.  Returns a list of complaints."""
    if "$ref" in schema:
        target = root
        for part in schema["$ref"][2:].split("/"):
            target = target[part]
        return check(target, value, root, path)
    if "anyOf" in schema and all(check(s, value, root, path) for s in schema["anyOf"]):
        return [f"{path}: fits none"]
    for part in schema.get("allOf", []):
        wrong = check(part, value, root, path)
        if wrong:
            return wrong
    if "enum" in schema and value not in schema["enum"]:
        return [f"{path}: {value!r} is not among {schema['enum']}"]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float)}
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[t]) and (t == "boolean" or not isinstance(value, bool)) for t in types):
        return [f"{path}: {type(value).__name__} is not {types}"]
    wrong = []
    if isinstance(value, dict):
        wrong += [f"{path}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, member in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is False:
                wrong.append(f"{path}: {name} is not known")
            if isinstance(known, dict):
                wrong += check(known, member, root, f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for i, member in enumerate(value):
            wrong += check(schema["items"], member, root, f"{path}[{i}]")
    return wrong


class OpenApi(ServerTest):
    def setUp(self):
        self.api = self.ok(self.call("GET", "/openapi.json")).json

    def test_names_of_schemas_are_there_once(self):
        with open(ROOT + "/proto/openapi.yaml") as file:
            names = re.findall(r"^    (\w+):", file.read().partition("\n  schemas:\n")[2], re.M)
        self.assertEqual([], sorted({name for name in names if names.count(name) > 1}))
        self.assertEqual(set(names), set(self.api["components"]["schemas"]))

    def test_paths_are_the_routes(self):
        with open(ROOT + "/server/http/routes.def") as file:
            routes = set(re.findall(r'^BL_ROUTE\("(\w+)", "([^"]+)"', file.read(), re.M))
        described = {(verb.upper(), path) for path, item in self.api["paths"].items() for verb in item if verb != "parameters"}
        self.assertEqual(routes, described)

    def test_operations_have_names(self):
        """Operation ids are unique and in camelCase with a verb first, since generated clients use them as method names; each
        operation has a tag that the description explains."""
        operations = [one for item in self.api["paths"].values() for verb, one in item.items() if verb != "parameters"]
        names = [one.get("operationId", "") for one in operations]
        self.assertEqual([], [name for name in names if not re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name)])
        self.assertEqual([], sorted({name for name in names if names.count(name) > 1}))
        tags = [tag["name"] for tag in self.api["tags"]]
        self.assertEqual([], [one["operationId"] for one in operations if len(one.get("tags", [])) != 1 or one["tags"][0] not in tags])
        self.assertEqual(sorted(tags), sorted({one["tags"][0] for one in operations}))

    def walk(self, node, path=""):
        """Yields every value with its path."""
        yield path, node
        if isinstance(node, (dict, list)):
            for name, value in node.items() if isinstance(node, dict) else enumerate(node):
                yield from self.walk(value, f"{path}/{name}")

    def test_nothing_is_null(self):
        """In YAML's flow style an unquoted comma ends a text, and the rest becomes a member with the value null."""
        self.assertEqual([], [path for path, value in self.walk(self.api) if value is None])

    def test_references_lead_somewhere(self):
        for path, value in self.walk(self.api):
            if isinstance(value, dict) and isinstance(value.get("$ref"), str):
                target = self.api
                for part in value["$ref"][2:].split("/"):
                    self.assertIn(part, target, path)
                    target = target[part]

    def test_bodies_of_loops_fit(self):
        """Each example of the op table is a valid Node, including loops and conditions; a body with an unknown member is
        invalid."""
        with open(ROOT + "/proto/ops.json") as file:
            nodes = [{"id": "y", **example["node"]} for op in json.load(file)["ops"] for example in op.get("examples", [])]
        schema = {"$ref": "#/components/schemas/Node"}
        self.assertEqual([], [node for node in nodes if check(schema, node, self.api)])
        loop = next(node for node in nodes if node["op"] == "scan")
        loop["attrs"]["body"]["updates"] = {}
        self.assertNotEqual([], check(schema, loop, self.api))

    def conforms(self, answer, verb, path):
        item = self.api["paths"][path][verb]["responses"]
        response = item.get(str(answer.status)) or item["default"]
        if "$ref" in response:
            response = self.api["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        if "content" not in response:
            self.assertEqual(b"", answer.body)
            return
        kind = answer.type.split(";")[0]
        self.assertIn(kind, response["content"])
        if kind.endswith("json"):
            self.assertEqual([], check(response["content"][kind]["schema"], answer.json, self.api))

    def test_answers_fit_the_schemas(self):
        run = "/api/v1/run"
        self.conforms(self.call("POST", run, graph(keep={"t": "y"}, debug=2)), "post", run)
        self.conforms(self.call("POST", run, graph(nodes=[])), "post", run)
        self.conforms(self.call("POST", run, graph(), {"accept": "application/x-safetensors"}), "post", run)
        one = "/api/v1/programs/{name}"
        self.conforms(self.call("PUT", "/api/v1/programs/c", counter()), "put", one)
        self.conforms(self.call("PUT", "/api/v1/programs/c", counter()), "put", one)
        self.conforms(self.call("GET", "/api/v1/programs/c"), "get", one)
        self.conforms(self.call("POST", "/api/v1/programs/c/run", {"steps": 4, "collect": {"every": 2, "outputs": ["m"]}}), "post", one + "/run")
        state = self.call("GET", "/api/v1/programs/c/state")
        self.conforms(state, "get", one + "/state")
        self.conforms(self.call("PUT", "/api/v1/programs/c/state", state.json), "put", one + "/state")
        lease = self.call("POST", "/api/v1/leases", {"ttl": 5})
        self.conforms(lease, "post", "/api/v1/leases")
        self.conforms(self.call("PUT", "/api/v1/leases/" + lease.json["lease"], {}), "put", "/api/v1/leases/{id}")
        self.conforms(self.call("DELETE", "/api/v1/leases/" + lease.json["lease"]), "delete", "/api/v1/leases/{id}")
        self.conforms(self.call("GET", "/api/v1/tensors/t"), "get", "/api/v1/tensors/{name}")
        self.conforms(self.call("PUT", "/api/v1/tensors/u", [1, 2]), "put", "/api/v1/tensors/{name}")
        self.conforms(self.call("POST", "/api/v1/tensors/delete", {"names": ["t", "none"]}), "post", "/api/v1/tensors/delete")
        self.conforms(self.call("DELETE", "/api/v1/programs/c"), "delete", one)
        jobs, one = "/api/v1/jobs", "/api/v1/jobs/{id}"
        self.ok(self.call("PUT", "/api/v1/programs/j", counter()), 201)
        job = self.call("POST", jobs, {"program": "j", "inputs": {}, "steps": 9, "collect": {"every": 2, "outputs": ["m"]}})
        self.conforms(job, "post", jobs)
        self.conforms(self.call("POST", jobs, {"program": "none", "steps": 9}), "post", jobs)
        at = f"{jobs}/{job.json['job']}"
        self.conforms(self.call("GET", at + "/events"), "get", one + "/events")
        self.conforms(self.call("GET", at + "/events", headers={"last-event-id": "9"}), "get", one + "/events")
        for query in ("", "?format=csv"):
            self.conforms(self.call("GET", at + "/history" + query), "get", one + "/history")
        self.conforms(self.call("GET", at), "get", one)
        self.conforms(self.call("GET", jobs), "get", jobs)
        self.conforms(self.call("DELETE", at), "delete", one)
        self.conforms(self.call("DELETE", at + "?remove=true"), "delete", one)
        for path in ("/", "/metrics", "/v2", "/v2/", "/v2/health/live", "/v2/health/ready", "/openapi.json", "/api/v1/devices", "/api/v1/me", "/api/v1/now", "/api/v1/now/history",
                     "/api/v1/tensors", "/api/v1/programs"):
            self.conforms(self.call("GET", path), "get", path)


if __name__ == "__main__":
    unittest.main()
