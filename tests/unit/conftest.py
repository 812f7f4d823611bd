"""Fixtures for what a test changes of the process that it runs in."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def signal_handlers() -> Iterator[None]:
    """Put the handlers of Ctrl-C and SIGTERM back that the test began with."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
