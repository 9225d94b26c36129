# SPDX-License-Identifier: MIT
"""Everything generated from server/command/commands.def: parsing, help, the manual page, and completion in three shells."""
import re
import shutil
import subprocess
import tempfile
import unittest

from served import ROOT, SERVER

TABLE = (ROOT / "server/command/commands.def").read_text()
COMMANDS = re.findall(r'^BL_COMMAND\("(\w+)"', TABLE, re.M)
VERBS = re.findall(r'^BL_VERB\("(\w+)", "(\w+)"', TABLE, re.M)
OPTIONS = re.findall(r'^BL_OPTION\("(\w+)", "([\w-]+)", "(\w?)", (\w+)', TABLE, re.M)


def beamline(*words):
    done = subprocess.run([SERVER, *words], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


class Table(unittest.TestCase):
    def test_help_has_each_row(self):
        for name in COMMANDS:
            status, out, told = beamline(name, "--help")
            self.assertEqual((0, ""), (status, told))
            self.assertEqual(out, beamline("help", name)[1])
            for command, verb in VERBS:
                if command == name:
                    self.assertRegex(out, rf"(?m)^  {verb}( [A-Z\[\] ]+)?  ")
            for command, flag, letter, kind in OPTIONS:
                if command == name:
                    self.assertRegex(out, rf"(?m)^  {f'-{letter}, ' if letter else ''}--{flag}{'' if kind == 'SWITCH' else ' [A-Z]'}")

    def test_the_manual_page_has_each_row(self):
        page = beamline("man")[1]
        for name in COMMANDS:
            self.assertIn(f"\\fBbeamline\\fR \\fB{name}\\fR", page)
        for _, flag, _, _ in OPTIONS:
            self.assertIn("\\fB\\-\\-" + flag.replace("-", "\\-"), page)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page, capture_output=True, text=True, check=True)
            self.assertEqual("", done.stderr)

    def test_wrong_usage_is_2(self):
        for words, says in ((("nothing",), 'unknown command "nothing"'), (("chta",), 'did you mean "chat"'), (("top", "a", "b"), 'unexpected argument "b"'),
                            (("tune",), "beamline tune PROGRAM.json"), (("keys",), "keys list | create NAME"), (("keys", "fly"), '"fly"'), (("devices", "drain"), "missing"),
                            (("top", "--intervall", "1"), 'did you mean "interval"'), (("top", "--interval"), "needs a value"), (("top", "--interval", "soon"), "not a number"),
                            (("top", "--interval=0"), "between"), (("top", "--times", "1.5"), "whole"), (("top", "--json=1"), "takes no value"), (("top", "-x"), "-x"),
                            (("serve", "--prot", "1"), 'did you mean "port"'), (("help", "nothing"), "nothing"), (("completion", "csh"), "csh"), (("usage", "x"), "DAYS"),
                            (("pull", "hf:a/b"), "--to"), (("kernels", "export", "k", "--url", "x"), "kernels list"), (("usage", "--state"), "needs a value")):
            status, out, told = beamline(*words)
            self.assertEqual((2, ""), (status, out), words)
            self.assertIn(says, told, words)
            self.assertEqual(1, told.count("\n"), told)

    def test_no_server_is_3(self):
        for words in (("top",), ("devices", "--json"), ("usage", "--json"), ("kernels", "list", "--json"), ("devices", "drain", "x")):
            status, out, told = beamline(*words, "--url", "127.0.0.1:1")
            self.assertEqual((3, ""), (status, out), words)
            self.assertIn("no answer from http://127.0.0.1:1", told)

    def test_a_key_file(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            for text, says in (("", "is empty"), ("bl_a\r\nX-Evil: 1", "a character that is not allowed")):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                status, _, told = beamline("top", "--url", "127.0.0.1:1", "--key-file", file.name)
                self.assertEqual(1, status)
                self.assertIn(says, told)
        self.assertIn("cannot be opened", beamline("top", "--key-file", "/nonexistent")[2])


class Completion(unittest.TestCase):
    def complete(self, *words):
        """Returns bash's completions of the last word."""
        script = beamline("completion", "bash")[1] + 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _beamline; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", "beamline", *words], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual("", done.stderr)
        return done.stdout.split()

    def test_bash(self):
        self.assertEqual(COMMANDS, self.complete(""))
        self.assertEqual(["chat"], self.complete("cha"))
        for name in COMMANDS:
            mine = {"--" + flag for command, flag, _, _ in OPTIONS if command == name} | {"--help"}
            self.assertLessEqual(mine, set(self.complete(name, "--")), name)
            self.assertEqual([verb for command, verb in VERBS if command == name] or None, self.complete(name, "") if any(command == name for command, _ in VERBS) else None)
        self.assertEqual(["--max-body"], self.complete("serve", "--max-bo"))
        self.assertEqual([], self.complete("serve", "--port", ""))
        self.assertEqual(["bash", "zsh", "fish"], self.complete("completion", ""))
        self.assertEqual(["tune"], self.complete("help", "tu"))
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual([folder], self.complete("pull", "hf:a/b", "--to", folder[:-1]))
            self.assertEqual([folder], self.complete("keys", "list", "--state", folder[:-1]))

    def test_the_scripts_are_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            status, script, _ = beamline("completion", shell)
            self.assertEqual(0, status)
            for name in COMMANDS:
                self.assertRegex(script, rf"\b{name}\b")
            if shutil.which(shell):
                done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)
                self.assertEqual((0, ""), (done.returncode, done.stderr), shell)

    def test_fish(self):
        if shutil.which("fish") is None:
            self.skipTest("no fish")
        script = beamline("completion", "fish")[1] + 'complete -C "beamline keys "\necho ---\ncomplete -C "beamline top --ti"\necho ---\ncomplete -C "beamline us"'
        verbs, flags, commands = subprocess.run(["fish", "--no-config"], input=script, capture_output=True, text=True, check=True).stdout.split("---\n")
        self.assertLessEqual({verb for command, verb in VERBS if command == "keys"}, set(verbs.split()))
        self.assertTrue(flags.startswith("--times"), flags)
        self.assertTrue(commands.startswith("usage"), commands)


if __name__ == "__main__":
    unittest.main()
