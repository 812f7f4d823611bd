import pytest

from orbitmq.client.consume.dispatch.failure_log import PLACES_MAX, TRACEBACK_INTERVAL_S, FailureLog


def raised(text, kind=ValueError):
    """Return an error that was raised in this line of code."""
    try:
        raise kind(text)
    except kind as error:
        return error


def raised_elsewhere(text):
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def full(caplog):
    return [record.exc_info is not None for record in caplog.records]


def test_an_error_is_logged_in_full_once_for_each_line_of_code_and_kind(caplog):
    failures = FailureLog("g")
    failures.failed(raised("1"), "message %d", 7)
    failures.failed(raised("2\nmore"), "message %d", 8)
    failures.failed(raised("3", TypeError), "message %d", 9)
    failures.failed(raised_elsewhere("4"), "message %d", 10)
    assert caplog.messages == [
        "group g: the handler failed on message 7",
        "group g: the handler failed on message 8: ValueError: 2",
        "group g: the handler failed on message 9",
        "group g: the handler failed on message 10",
    ]
    assert full(caplog) == [True, False, True, True]


def test_an_error_is_logged_in_full_again_after_a_while(caplog):
    now_s = 5.0
    failures = FailureLog("g", clock=lambda: now_s)
    failures.failed(raised("1"), "a message")
    now_s += TRACEBACK_INTERVAL_S - 0.01
    failures.failed(raised("2"), "a message")
    now_s += 0.01
    failures.failed(raised("3"), "a message")
    assert full(caplog) == [True, False, True]


@pytest.mark.parametrize("text", ["", "\n"])
def test_an_error_without_text_or_origin_is_logged_all_the_same(caplog, text):
    failures = FailureLog("g")
    for _ in range(2):
        failures.failed(ValueError(text), "a message")
    assert caplog.messages[1].startswith("group g: the handler failed on a message: ValueError:")


def test_only_so_many_lines_of_code_are_remembered():
    failures = FailureLog("g")
    for number in range(3 * PLACES_MAX):
        failures.failed(type(f"Error{number}", (Exception,), {})(), "a message")
        assert len(failures._places) <= PLACES_MAX
