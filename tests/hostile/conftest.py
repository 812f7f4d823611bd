"""Fixtures of the attacks on a NameServer."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def without_collections() -> Iterator[None]:
    """Where turns are measured: a collection of the whole test process is none of the server's."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
