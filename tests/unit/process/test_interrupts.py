"""SIGTERM ends a program as Ctrl-C does, whatever handles that at the moment."""

from __future__ import annotations

import signal

import pytest

from orbitmq.process.interrupts import termination_as_interrupt

pytestmark = pytest.mark.usefixtures("signal_handlers")


def test_termination_interrupts():
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        signal.raise_signal(signal.SIGTERM)


def test_termination_goes_to_the_present_handler_of_interrupts():
    handled = []
    signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
    with termination_as_interrupt():
        signal.raise_signal(signal.SIGTERM)

    assert handled == [signal.SIGINT]


def test_the_handler_before_comes_back():
    def mine(number: int, frame: object) -> None:
        pass

    signal.signal(signal.SIGTERM, mine)
    with termination_as_interrupt():
        assert signal.getsignal(signal.SIGTERM) is not mine

    assert signal.getsignal(signal.SIGTERM) is mine
