# SPDX-License-Identifier: MIT
"""Render templates with Jinja2 in the environment of transformers' chat templates.

Standard input is JSON: a list of {"template", "variables"}.  Standard output is a list of texts, with {"error": text} where
Jinja2 fails.  The Python with jinja2 runs this script.
"""
import datetime
import json
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox


NOW = 1732500000  # the time in all renderings


class Generation(jinja2.ext.Extension):
    """{% generation %}: outputs its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render_body"), [], [], body).set_lineno(line)

    def render_body(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """Rejects names that begin with an underscore."""

    def __init__(*arguments, **named):
        self, arguments = arguments[0], arguments[1:]
        values = dict(*arguments, **named)
        for name in values:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, values)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters.update(tojson=tojson, from_json=json.loads)  # from_json is not in transformers, but templates for other engines use it
    made.globals.update(raise_exception=raise_exception, strftime_now=lambda form: datetime.datetime.fromtimestamp(NOW).strftime(form), namespace=Namespace, dict=lambda *a, **n: dict(*a, **n))
    return made


def main():
    made = environment()
    out = []
    for case in json.load(sys.stdin):
        try:
            out.append(made.from_string(case["template"]).render(**case["variables"]))
        except Exception as error:  # any exception of Python is a failure of the template
            out.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
