# SPDX-License-Identifier: MIT
"""Random chat templates for test_chat_templates.py: valid ones with all statements and expressions, and some with errors."""
import pathlib
import random
import re

ROWS = (pathlib.Path(__file__).resolve().parent.parent.parent / "proto" / "chat" / "rows.def").read_text()
FILTERS = re.findall(r'^BL_FILTER\("(\w+)"', ROWS, re.MULTILINE)
TESTS = re.findall(r'^BL_TEST\("(\w+)", \w+, "(.*)"\)', ROWS, re.MULTILINE)
METHODS = re.findall(r'^BL_METHOD\((STRING|LIST|DICT), "(\w+)", \w+, "(.*)"\)', ROWS, re.MULTILINE)
VARIABLES = {"messages": [{"role": "user", "content": "Hello, Wörld"}, {"role": "assistant", "content": "Hi <there>"}], "l": [3, "b", 1.5, [1], True], "d": {"city": "Oslo", "B": 2, "a": 1},
             "n": 5, "f": 2.5, "s": "Ab cd\n Éf", "yes": True, "nothing": None, "tree": [{"n": 1, "c": [{"n": 2, "c": []}, {"n": 3, "c": [{"n": 4}]}]}, {"n": 5}]}
# Addresses of objects, which Python prints, and the order of sets are not part of the language.
NAMES = ["messages", "l", "d", "n", "f", "s", "yes", "nothing", "tree", "missing", "x", "y", "ns.a"]
CONSTANTS = ["0", "1", "2", "-1", "7", "1.5", "0.1", "''", "'a'", "'Abc d'", "'ä\\nß'", "\"it's\"", "true", "false", "none", "[]", "[1, 2, 3]", "['b', 'a', 'C']", "{}", "{'k': 1, 'j': [2]}", "(1, 'a')",
             "range(4)", "'<b>&'", "' x  y '", "[{'a': 1}, {'a': 2, 'b': none}]"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def one_of(self, *choices):
        return self.random.choice(choices)()

    def leaf(self):
        return self.random.choice(self.random.choice([NAMES, CONSTANTS, CONSTANTS]))

    def arguments(self, params, depth, most=2):
        names = params.replace("$", "").split()
        if names == ["*"]:
            return ", ".join(self.expression(depth) for _ in range(self.random.randint(0, 2)))
        needed = sum(not name.endswith("?") for name in names)
        return ", ".join(self.expression(depth) for _ in range(self.random.randint(needed, max(needed, min(len(names), most)))))

    def filtered(self, depth):
        name = self.random.choice(FILTERS)
        subject = self.expression(depth)
        params = re.search(rf'^BL_FILTER\("{name}", \w+, "(.*)"\)', ROWS, re.MULTILINE).group(1)
        if name in ("map", "select", "reject", "selectattr", "rejectattr"):
            inner = {"map": ["'upper'", "'string'", "attribute='a'", "'length'", "'tojson'", "'default', 1"]}.get(name, ["", "'defined'", "'string'", "'eq', 1", "'gt', 1", "'in', [1, 'b']"])
            chosen = self.random.choice(inner)
            if name.endswith("attr"):
                chosen = self.random.choice(["'a'", "'role'"]) + (", " + chosen if chosen else "")
            return f"({subject})|{name}({chosen})|list"
        tail = "|list" if name in ("batch", "slice", "unique", "items", "reverse") and self.random.random() < 0.9 else ""
        given = self.arguments(params, depth)
        return f"({subject})|{name}" + (f"({given})" if given or self.random.random() < 0.3 else "") + tail

    def called(self, depth):
        kind, name, params = self.random.choice(METHODS)
        of = {"STRING": ["s", "'a b a'", "'ÄÖß,x'", "messages[0].content"], "LIST": ["l", "[1, 2, 1]"], "DICT": ["d", "{'k': 1}"]}[kind]
        if name in ("format", "format_map"):
            return "'{}-{:>4}'.format(1, 'a')"
        return f"{self.random.choice(of)}.{name}({self.arguments(params, 0)})"

    def tested(self, depth):
        name, params = self.random.choice(TESTS)
        return f"({self.expression(depth)}) is {self.random.choice(['', 'not '])}{name}" + (f"({self.leaf()})" if params else "")

    def member(self, depth):
        if self.random.random() < 0.3:  # not of a constant, which Jinja2 folds with other rules
            return self.random.choice(NAMES) + self.random.choice(["[1:]", "[:2]", "[::-1]", "[::2]", "[-2:]", "[1:-1]"])
        return f"({self.expression(depth)})" + self.random.choice([".a", ".role", "['k']", "[0]", "[-1]", ".items()|list", ".content", f"[{self.leaf()}]"])

    def expression(self, depth):
        if depth <= 0 or self.random.random() < 0.2:
            return self.leaf()
        depth -= 1
        return self.one_of(lambda: f"({self.expression(depth)} {self.random.choice(BINARY)} {self.expression(depth)})", lambda: self.filtered(depth), lambda: self.filtered(depth), lambda: self.called(depth),
                           lambda: self.tested(depth), lambda: self.member(depth), lambda: f"({self.expression(depth)} if {self.expression(depth)} else {self.expression(depth)})",
                           lambda: f"not {self.expression(depth)}", lambda: f"[{self.expression(depth)}, {self.expression(depth)}]", lambda: f"{{'a': {self.expression(depth)}}}",
                           lambda: f"-{self.leaf()}", lambda: f"({self.expression(depth)}) < ({self.expression(depth)}) <= ({self.expression(depth)})")

    def tag(self, text):
        return "{%" + self.random.choice(["", "", "-", "+"]) + f" {text} " + self.random.choice(["", "", "-", "+"]) + "%}"

    def data(self):
        return self.random.choice(["", "a", "\n", "  ", " b\n", "\n  ", "c \n\n", "\t", "{# note #}", "{#- x -#}\n", "é "])

    def body(self, depth, in_loop):
        return "".join(self.data() + self.statement(depth - 1, in_loop) for _ in range(self.random.randint(1, 2))) + self.data()

    def statement(self, depth, in_loop):
        if depth <= 0:
            return "{{" + self.random.choice(["", "-"]) + f" {self.expression(2)} " + self.random.choice(["", "-"]) + "}}"
        return self.one_of(
            lambda: "{{ " + self.expression(3) + " }}", lambda: "{{ " + self.expression(3) + " }}",
            lambda: self.tag(f"if {self.expression(2)}") + self.body(depth, in_loop) + (self.tag("else") + self.body(depth, in_loop) if self.random.random() < 0.5 else "") + self.tag("endif"),
            lambda: self.tag(f"for {self.random.choice(['x', 'y'])} in {self.expression(1)}" + (f" if {self.expression(1)}" if self.random.random() < 0.3 else "")) + "{{ loop.index }}{{ loop.last }}" +
            self.body(depth, True) + self.tag("endfor"),
            lambda: self.tag(f"set {self.random.choice(['x', 'y', 'ns.a'])} = {self.expression(2)}"),
            lambda: self.tag("set x") + self.body(depth, False) + self.tag("endset"),
            lambda: self.tag(f"filter {self.random.choice(['upper', 'trim', 'indent(2)', 'length', 'title'])}") + self.body(depth, False) + self.tag("endfilter"),
            lambda: self.tag(f"with x = {self.expression(1)}") + self.body(depth, in_loop) + self.tag("endwith"),
            lambda: self.tag(f"macro m(x, y={self.leaf()})") + self.body(depth, False) + self.tag("endmacro") + "{{ m(" + self.leaf() + ") }}",
            lambda: self.tag(self.random.choice(["break", "continue"])) if in_loop else self.data())

    def template(self):
        text = "{% set ns = namespace(a=1) %}" + "".join(self.data() + self.statement(3, False) for _ in range(self.random.randint(1, 3))) + self.data()
        if self.random.random() < 0.1:  # with a syntax error
            at = self.random.randrange(len(text))
            text = text[:at] + self.random.choice(["", "{%", "%}", "}}", "(", "]", "'", "|", ".", " if ", "-"]) + text[at + self.random.randint(0, 3):]
        return text


def templates(seed, count):
    """Yields templates whose output contains no address of an object."""
    writer = Writer(seed)
    while count > 0:
        yield writer.template()
        count -= 1
