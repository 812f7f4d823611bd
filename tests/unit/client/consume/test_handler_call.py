"""The ways in which messages reach user code: calls of a handler, and loops over batches."""

import asyncio

import pytest

from orbitmq.client.consume.batch import BatchIterator
from orbitmq.client.consume.handler_call import PLACES_MAX, TRACEBACK_INTERVAL_S, FailureLog, call_handler


class FakeBatch:
    """A batch that notes how often it was left."""

    def __init__(self):
        self.left = 0

    def leave(self):
        self.left += 1


def iterator(*batches):
    left = list(batches)

    async def next_batch():
        return left.pop(0) if left else None

    return BatchIterator(next_batch)


@pytest.mark.parametrize("handler", [list.append, lambda found, item: asyncio.sleep(0, found.append(item))])
async def test_a_handler_is_called_and_awaited_where_that_is_needed(handler):
    found: list[str] = []
    await call_handler(lambda argument: handler(found, argument), "x", 60_000)
    assert found == ["x"]


async def fail(_argument):
    raise ValueError("no")


async def test_what_a_handler_raises_is_raised():
    with pytest.raises(ValueError, match="no"):
        await call_handler(fail, None, 60_000)
    with pytest.raises(ZeroDivisionError):
        await call_handler(lambda argument: 1 / argument, 0, 60_000)


async def test_a_handler_that_takes_too_long_is_cancelled():
    with pytest.raises(TimeoutError):
        await call_handler(lambda event: event.wait(), asyncio.Event(), 1)


@pytest.mark.parametrize(
    "handler", [lambda future: future, lambda future: future.result()], ids=["waits for it", "raises of it"]
)
async def test_a_handler_of_something_cancelled_has_failed_and_the_caller_goes_on(handler):
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    with pytest.raises(RuntimeError, match="cancelled"):
        await call_handler(handler, gone, 60_000)


async def test_a_caller_that_is_cancelled_ends():
    begun = asyncio.Event()

    async def wait(event):
        begun.set()
        await event.wait()

    task = asyncio.create_task(call_handler(wait, asyncio.Event(), 60_000))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_batches_are_yielded_until_there_are_none_and_each_is_left_when_the_next_is_asked_for():
    batches = FakeBatch(), FakeBatch()
    found = []
    async for batch in iterator(*batches):
        found.append(batch)
        assert [each.left for each in found] == [1] * (len(found) - 1) + [0]
    assert found == list(batches)
    assert [each.left for each in batches] == [1, 1]


async def test_a_batch_is_left_once_although_the_end_is_asked_for_again():
    batch = FakeBatch()
    batches = iterator(batch)
    assert await anext(batches) is batch
    assert [await anext(batches, None) for _ in range(2)] == [None, None]
    assert batch.left == 1


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
