"""The ways in which messages reach user code: calls of a handler, and loops over batches."""

import asyncio

import pytest

from orbitmq.client.consume.dispatch.batch_iterator import BatchIterator
from orbitmq.client.consume.dispatch.handler_call import call_handler


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
