"""SIGTERM and Ctrl-C end a job through every `finally`, whoever handles them at the moment."""

from __future__ import annotations

import signal

import pytest

from orbitmq.spark.driver.interrupts import plain_interrupts, termination_as_interrupt


@pytest.fixture(autouse=True)
def handlers():
    """Put the handlers back that the test began with."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_termination_interrupts():
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        signal.raise_signal(signal.SIGTERM)


def test_termination_goes_to_whoever_handles_interrupts_now():
    handled = []
    signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    with termination_as_interrupt():
        signal.raise_signal(signal.SIGTERM)

    assert handled == [signal.SIGINT]


def test_pythons_own_handler_is_used_for_a_while():
    def others(number: int, frame: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGINT, others)
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is others


def test_the_handler_before_comes_back():
    def mine(number: int, frame: object) -> None:
        pass

    signal.signal(signal.SIGTERM, mine)
    with termination_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) is not mine

    assert signal.getsignal(signal.SIGTERM) is mine
