# SPDX-License-Identifier: MIT
"""Chat templates compared with Jinja2 from PyPI: equal texts, or failures of both.

BEAMLINE_TEST_CHAT_TEMPLATES names a folder with *.jinja files of models, such as llama.cpp's models/templates.
"""

import json
import os
import pathlib
import re
import subprocess
import unittest

import jinja_random
from chat_conversations import renderings
from environment import HERE, environment
from jinja_cases import CASES
from repository import PROGRAM

RENDER = pathlib.Path(PROGRAM).parent / "render"
ROWS = HERE.parent.parent / "proto" / "chat" / "rows.def"
SEED, COUNT = 1, 4000


def render(cases):
    """Returns our renderings: texts, or failures as (status, text)."""
    lines = []
    for case in cases:
        given = dict(case["variables"])
        line = {"template": case["template"], "messages": given.pop("messages", []), "add_generation_prompt": given.pop("add_generation_prompt", False),
                "tools": given.pop("tools", None), "variables": given, "limits": case.get("limits", {})}
        lines.append(json.dumps(line, ensure_ascii=False))
    done = subprocess.run([RENDER], input=("\n".join(lines) + "\n").encode(), capture_output=True, check=False, timeout=600)
    answers = done.stdout.decode().split("\n")[:-1]
    assert len(answers) == len(cases) and done.returncode == 0, f"status {done.returncode} after {len(answers)} of {len(cases)}: {done.stderr.decode()[-2000:]}"
    return [bytes.fromhex(answer[3:]).decode() if answer.startswith("ok ") else tuple(answer.split(": ", 1)) for answer in answers]


def plain(messages):
    """Removes members that are None from messages, as transformers does."""
    return [{name: value for name, value in message.items() if value is not None} if isinstance(message, dict) else message for message in messages]


def reference(cases):
    folder = environment("requirements-jinja.txt")
    if folder is None:
        return None
    given = [{"template": case["template"], "variables": {**case["variables"], "messages": plain(case["variables"].get("messages", []))}} for case in cases]
    done = subprocess.run([folder / "bin" / "python", HERE / "jinja_reference.py"], input=json.dumps(given).encode(), capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return json.loads(done.stdout)


class ChatTemplates(unittest.TestCase):
    def compare(self, cases, most_wrong=5):
        wanted = reference(cases)
        if wanted is None:
            self.skipTest("pip cannot get Jinja2")
        wrong = []
        for case, want, got in zip(cases, wanted, render(cases)):
            if isinstance(want, str) and " at 0x" in want:  # the address of an object, which only Python prints
                continue
            if isinstance(want, dict) != isinstance(got, tuple) or (isinstance(want, str) and want != got):
                wrong.append(f"{case.get('name', '')} {case['template'][:400]!r}\n  wanted {want!r}\n  got    {got!r}")
        self.assertEqual([], wrong[:most_wrong], f"{len(wrong)} of {len(cases)} differ:\n" + "\n".join(wrong[:most_wrong]))
        return wanted

    def compare_folder(self, folder):
        files = sorted(pathlib.Path(folder).glob("*.jinja"))
        self.assertGreater(len(files), 0)
        cases = [{"name": f"{file.name} {name}", "template": file.read_text(), "variables": variables} for file in files for name, variables in renderings()]
        wanted = self.compare(cases)
        self.assertGreater(sum(isinstance(want, str) for want in wanted), len(cases) // 2)

    def test_models(self):
        folder = os.environ.get("BEAMLINE_TEST_CHAT_TEMPLATES")
        if not folder:
            self.skipTest("BEAMLINE_TEST_CHAT_TEMPLATES names no folder of templates")
        self.compare_folder(folder)

    def test_committed(self):
        self.compare_folder(HERE / "chat_templates")

    def test_cases(self):
        """Every row of the tables has a case, and every case has the text of Jinja2."""
        wanted = self.compare([{"template": template, "variables": jinja_random.VARIABLES} for template in CASES])
        worked = "\n".join(template for template, want in zip(CASES, wanted) if isinstance(want, str))
        missing = []
        for macro, row in re.findall(r"^BL_(FILTER|TEST|METHOD|GLOBAL)\((.*?)\)$", ROWS.read_text(), re.MULTILINE):
            name = re.search(r'"(.*?)"', row).group(1)
            form = {"FILTER": rf"\| ?{re.escape(name)}\b", "TEST": rf"is (not )?{re.escape(name)}\b|'{re.escape(name)}'", "METHOD": rf"\.{name}\(", "GLOBAL": rf"\b{name}\("}[macro]
            if not re.search(form, worked if name != "raise_exception" else "\n".join(CASES)):
                missing.append(f"{macro} {row}")
        self.assertEqual([], missing)

    def test_random(self):
        self.compare([{"template": template, "variables": jinja_random.VARIABLES} for template in jinja_random.templates(SEED, COUNT)])


class Limits(unittest.TestCase):
    """T18: templates are bounded in time and memory."""

    def fails(self, template, status, *words, limits=None, variables=None):
        got, = render([{"template": template, "variables": variables or {}, "limits": limits or {}}])
        self.assertIsInstance(got, tuple, f"{template[:200]!r} gave {got[:200]!r}")
        self.assertEqual(status, got[0], got)
        for word in words:
            self.assertIn(word, got[1])

    def test_t18_steps(self):
        loop = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
        self.fails(loop, "ELIMIT", "line 1", "steps")
        self.fails("\n{% for i in range(100) %}{{ i }}{% endfor %}", "ELIMIT", "line 2", "steps", limits={"steps": 100})
        for use in ("'ab' in s", "s.strip(s)", "s|trim(s)", "s|upper|length", "s == s + ''", "s.rfind('ab')", "s|wordcount"):
            self.fails("{% set s = 'x' * 100000 %}{% for i in range(99999) %}{{ " + use + " }}{% endfor %}", "ELIMIT")

    def test_t18_memory(self):
        self.fails("{% set ns = namespace(x='ab') %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "ELIMIT")
        self.fails("{{ 'x' * 9223372036854775807 }}", "ELIMIT")
        self.fails("{{ [0] * 9223372036854775807 }}", "ELIMIT")
        self.fails("{{ '%99999999999d' % 1 }}", "ELIMIT")
        self.fails("{{ '{:99999999999d}'.format(1) }}", "ELIMIT")
        self.fails("{{ 'x'.center(10000000000) }}", "ELIMIT")
        self.fails("{{ 'x'|indent(10000000000) }}", "ELIMIT")

    def test_long_conversations(self):
        """A template that builds one string from all messages needs memory for the string, not for all its prefixes."""
        for join in ("ns.out ~ m.role ~ ': ' ~ f(m.content) ~ '<sep>'", "ns.out + m.role + ': ' + f(m.content) + '<sep>'"):
            template = "{% macro f(x) %}{{ x }}{% endmacro %}{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = " + join + " %}{% endfor %}{{ ns.out }}"
            messages = [{"role": ("user", "assistant")[i % 2], "content": f"message {i} " + "word " * (i % 97)} for i in range(5000)]
            got, = render([{"template": template, "variables": {"messages": messages}}])
            self.assertEqual("".join(f"{m['role']}: {m['content']}<sep>" for m in messages), got)

    def test_strings_that_share_a_beginning(self):
        """Appending to a string does not change other strings with the same beginning."""
        got, = render([{"template": "{% set a = 'x' * 300 ~ '|' %}{% set b = a ~ 'b' %}{% set c = a ~ 'c' %}{% set d = b ~ b ~ 'd' %}{% set e = b + ('e' ~ (b ~ 'f')) + b %}"
                                    "{% set g = a ~ (a ~ (a ~ 'g') ~ 'h') ~ a %}{{ [a, b, c, d, e, g]|join(' ') }}", "variables": {}}])
        a = "x" * 300 + "|"
        b = a + "b"
        self.assertEqual([a, b, a + "c", b + b + "d", b + "e" + b + "f" + b, a + a + a + "gh" + a], got.split(" "))

    def test_t18_output(self):
        self.fails("{% for i in range(1000) %}{{ 'x' * 1000 }}{% endfor %}", "ELIMIT", "too long", limits={"output": 10000})

    def test_t18_depth(self):
        self.fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "ELIMIT", "nested calls")
        self.fails("{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "ELIMIT", "nested calls")
        self.fails("{{ " + "(" * 300 + "1" + ")" * 300 + " }}", "EINVAL", "nested brackets")
        self.fails("{{ " + "not " * 300 + "1 }}", "ELIMIT", "within each other")
        self.fails("{% if 1 %}" * 300 + "{% endif %}" * 300, "ELIMIT", "within each other")
        self.fails("{{ 1" + " + 1" * 1000 + " }}", "ELIMIT", "within each other")
        deep = "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}"
        for use in ("{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x == [ns.x] }}", "{{ ns.x < [ns.x] }}"):
            self.fails(deep + use, "ELIMIT", "nest")

    def test_t18_nothing_but_data(self):
        for template in ("{{ messages.append(1) }}", "{{ {}.update(a=1) }}", "{{ ''.__class__.__mro__ }}", "{{ self.x.y }}", "{% include 'x' %}", "{{ cycler.x.y }}",
                         "{% set ns = namespace(_x=1) %}", "{{ ''.join.__globals__.x }}"):
            got, = render([{"template": template, "variables": {}}])
            self.assertIsInstance(got, tuple, template)

    def test_long_conversations(self):
        """Limits grow with the conversation."""
        template = "{% for m in messages %}{% set before = messages[:loop.index0] | selectattr('role', 'equalto', 'tool') | list %}{{ (m.content | trim) + '\n' }}{% endfor %}"
        long = [{"role": "user", "content": f"number {i}"} for i in range(800)]
        large = [{"role": "user", "content": "word " * 1000000}] * 2
        texts = render([{"template": template, "variables": {"messages": messages}} for messages in (long, large)])
        self.assertEqual(["".join(m["content"].strip() + "\n" for m in messages) for messages in (long, large)], texts)

    def test_errors_name_the_line(self):
        for template, line, words in (("a\n{% if %}", 2, "expression"), ("a\n\n{{ x", 3, "expected"), ("{% for a in b %}\nx", 1, "endfor"), ("{# x", 1, "comment"), ("\n{{ 'x }}", 2, "string"),
                                      ("\n\n{{ x|nothing }}", 3, "No filter named 'nothing'"), ("{{ x is nothing }}", 1, "No test named"), ("{% nothing %}", 1, "unknown tag 'nothing'"),
                                      ("\n{{ x.y }}", 2, "'x' is undefined"), ("\n{{ raise_exception('no ' ~ 1) }}", 2, "no 1"), ("{{ 1 + 'a' }}", 1, "unsupported operand"),
                                      ("{% break %}", 1, "loop"), ("{% set 1 = 2 %}", 1, "assign")):
            self.fails(template, "EINVAL", f"line {line}", words)
        self.fails("{% include 'x' %}", "EUNSUPPORTED", "include")
        self.fails("x" * ((1 << 20) + 1), "ELIMIT", "bytes")


if __name__ == "__main__":
    unittest.main()
