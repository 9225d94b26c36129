#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run llama.cpp's server tests against this server, unmodified.

    tests/llama/run_llama_tests.py LLAMA_CPP [PYTEST-WORD...]     LLAMA_CPP: its source
    LLAMA_SERVER_BIN_PATH=.../llama-server tests/llama/run_llama_tests.py LLAMA_CPP     the same with another server

The tests need pytest, requests and openai.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FILES = ("chat_completion", "completion", "template", "tokenize", "ignore_eos", "basic", "ctx_shift")


def lay_out(source, folder):
    """Copies the tests to a folder, with links to the models and a stub of an unused module that they import."""
    tests = folder / "tools" / "server" / "tests"
    shutil.copytree(source / "tools" / "server" / "tests", tests)
    (folder / "models").symlink_to(source / "models")
    shutil.copy(HERE / "llama_conftest.py", tests / "conftest.py")
    (tests / "wget.py").write_text("")
    return tests


def run(source, words=(), python=sys.executable, **options):
    with tempfile.TemporaryDirectory() as folder:
        tests = lay_out(pathlib.Path(source), pathlib.Path(folder))
        env = {"LLAMA_SERVER_BIN_PATH": str(HERE / "llama-server"), "PYTHONDONTWRITEBYTECODE": "1", **os.environ}
        words = words or [f"unit/test_{name}.py" for name in FILES]
        return subprocess.run([python, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "--tb=short", "-rfE", *words], cwd=tests, env=env, **options)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(run(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]).returncode)
