"""The families of headers, found by name."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

from orbitmq.wire import headers

FAMILIES = ("admin", "groups", "kv", "nameserver", "offsets", "consuming.pull", "consuming.pop", "send", "topics")


@pytest.mark.parametrize("family", FAMILIES)
def test_each_header_of_a_family_is_found_in_the_package(family: str) -> None:
    module = import_module(f"orbitmq.wire.headers.{family}")
    assert module.__all__
    for name in module.__all__:
        assert getattr(headers, name) is getattr(module, name)


@pytest.mark.parametrize("name", ["NoSuchHeader", "no_such_function", ""])
def test_a_name_of_no_family_is_no_attribute(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(headers, name)


@pytest.mark.real
def test_loading_all_binds_the_codes_of_each_family() -> None:
    # In a process of its own: this one has loaded every family long ago.
    code = "from orbitmq.wire import header, headers; headers.load_all(); print(*header.bound_codes())"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    # One code of each: broker configuration, heartbeat, KV, route, offset, pull, send, topic.
    assert {26, 34, 100, 105, 14, 11, 310, 17} <= set(map(int, found.split()))
