"""SIGTERM ends a program as Ctrl-C does, whatever handles that at the moment."""

from __future__ import annotations

import signal
import threading

import pytest

from orbitmq.process.interrupts import finishing_on_termination, termination_as_interrupt


@pytest.fixture(autouse=True)
def default_termination():
    """SIGTERM as a process has it at its start."""
    previous = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, previous)


def test_sigterm_interrupts_as_ctrl_c_does_and_is_itself_again_afterwards():
    with pytest.raises(KeyboardInterrupt), finishing_on_termination():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_present_handler_of_sigterm_goes_on_doing_so():
    seen = []
    signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    with finishing_on_termination():
        signal.raise_signal(signal.SIGTERM)
    assert seen == [signal.SIGTERM]


def test_in_another_thread_nothing_is_changed():
    found = []

    def work():
        with finishing_on_termination():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.SIG_DFL]


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


def test_termination_interrupts_also_where_interrupts_are_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt), termination_as_interrupt():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
