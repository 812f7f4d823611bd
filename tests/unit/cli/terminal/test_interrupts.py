import signal
import threading

import pytest

from orbitmq.cli.terminal.interrupts import finishing_on_termination


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
