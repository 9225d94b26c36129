# SPDX-License-Identifier: MIT
"""Replaces the conftest.py of llama.cpp's server tests, which downloads all their models."""
import pytest
from utils import server_instances


@pytest.fixture(autouse=True)
def stop_server_after_each_test():
    yield
    for server in set(server_instances):
        server.stop()
