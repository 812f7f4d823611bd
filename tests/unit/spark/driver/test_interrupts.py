"""Ctrl-C ends a job through every `finally`, whatever handled it before."""

from __future__ import annotations

import signal

import pytest

from orbitmq.spark.driver.interrupts import plain_interrupts

pytestmark = pytest.mark.usefixtures("signal_handlers")


def test_pythons_own_handler_is_used_for_a_while():
    def others(number: int, frame: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGINT, others)
    with pytest.raises(KeyboardInterrupt), plain_interrupts():
        signal.raise_signal(signal.SIGINT)

    assert signal.getsignal(signal.SIGINT) is others
