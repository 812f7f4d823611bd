"""Ctrl-C ends a job through every `finally`, whoever handled it before."""

from __future__ import annotations

import signal

import pytest

from orbitmq.spark.driver.interrupts import plain_interrupts


@pytest.fixture(autouse=True)
def handlers():
    """Put the handlers back that the test began with."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_pythons_own_handler_is_used_for_a_while():
    def others(number: int, frame: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGINT, others)
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is others
