import asyncio

import pytest

from orbitmq.client.requests.pending import PendingRequests
from orbitmq.errors import ClientError, RequestTimeout
from unit.client.messages import stored
from waiting import until


async def test_each_request_gets_the_reply_that_names_it():
    pending = PendingRequests(10)
    async with pending.open(20_000) as first, pending.open(20_000) as second:
        assert first.correlation_id != second.correlation_id
        assert pending.count == 2
        assert pending.resolve(second.correlation_id, stored(2))
        assert pending.resolve(first.correlation_id, stored(1))
        assert [(await request.reply).queue_offset for request in (first, second)] == [1, 2]
        assert 0 < first.left_ms <= 20_000


async def test_a_second_reply_and_one_to_nobody_find_nobody():
    pending = PendingRequests(10)
    assert not pending.resolve("nobody", stored(1))
    async with pending.open(20_000) as request:
        assert pending.resolve(request.correlation_id, stored(1))
        assert not pending.resolve(request.correlation_id, stored(2))
        assert (await request.reply).queue_offset == 1
    assert not pending.resolve(request.correlation_id, stored(3))


async def test_who_asks_beyond_the_limit_waits_for_a_place():
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000):
            return pending.count

    async with pending.open(20_000) as first:
        second = asyncio.ensure_future(ask())
        await asyncio.sleep(0)
        assert (pending.count, second.done()) == (1, False)
        pending.resolve(first.correlation_id, stored(1))
    assert await second == 1


async def test_who_finds_no_place_in_time_is_told_the_limit():
    pending = PendingRequests(1)
    async with pending.open(20_000):
        with pytest.raises(RequestTimeout, match=r"not sent within 1 ms: 1 others \(requests_max\)"):
            async with pending.open(1):
                raise AssertionError


@pytest.mark.parametrize("how", ["an error", "a cancellation"])
async def test_a_request_that_ends_in_any_way_leaves_nothing_behind(how):
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000) as request:
            if how == "an error":
                raise ZeroDivisionError
            await request.reply

    asking = asyncio.ensure_future(ask())
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        await asking
    assert pending.count == 0
    async with pending.open(1) as request:  # the place is free again
        assert pending.count == 1
        assert not request.reply.done()


async def test_closing_ends_all_waiting_also_for_a_place():
    pending = PendingRequests(1)

    async def ask():
        async with pending.open(20_000) as request:
            return await request.reply

    asking = [asyncio.ensure_future(ask()) for _ in range(2)]
    await until(lambda: pending.count)
    pending.close()
    for one in asking:
        with pytest.raises(ClientError, match="closed before the reply came"):
            await one
    assert pending.count == 0
