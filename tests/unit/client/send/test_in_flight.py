import asyncio

import pytest

from cases import each_case
from orbitmq.client.send.accumulator import CAUSES_MAX, InFlight
from orbitmq.errors import RequestTimeout, SendFailed


def filled(count, *, count_max=4, size_max=100, size=1):
    found = InFlight(count_max=count_max, size_max=size_max)
    for _ in range(count):
        found.add(size)
    return found


@each_case((0, 1, True), (3, 1, True), (4, 1, False), (5, 1, False), (1, 99, True), (1, 100, False), (1, 101, False))
def test_the_number_of_messages_and_their_size_are_bounded(count, size, has_room):
    assert filled(count, size=size).has_room is has_room


async def test_messages_that_travel_together_count_as_many():
    found = filled(0)
    found.add(1, 3)
    assert found.has_room
    found.add(1)
    assert not found.has_room


@pytest.mark.parametrize(
    ("count", "size", "removed"), [(4, None, [(1, 1), (1, 1)]), (2, 50, [(1, 49), (0, 1)])], ids=["messages", "bytes"]
)
async def test_there_is_room_again_when_half_is_free(count, size, removed):
    found = filled(count) if size is None else filled(count, size=size)
    found.remove(*removed[0])
    assert not found.has_room
    found.remove(*removed[1])
    assert found.has_room


async def test_callers_wait_for_room_also_when_others_took_it_before():
    found = filled(4)
    first = asyncio.create_task(found.wait_for_room())
    await asyncio.sleep(0)
    found.remove(2, 2)
    found.add(1)
    found.add(1)
    second = asyncio.create_task(found.wait_for_room())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not first.done()
    assert not second.done()
    found.remove(2, 2)
    await asyncio.gather(first, second)
    await found.wait_for_room()


async def test_a_flush_waits_until_nothing_is_in_flight_also_for_what_came_meanwhile():
    found = filled(2)
    flushing = asyncio.create_task(found.flush())
    await asyncio.sleep(0)
    found.remove(1, 1)
    await asyncio.sleep(0)
    assert not flushing.done()
    found.remove(1, 1)
    found.add(1)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not flushing.done()
    found.remove(1, 1)
    await flushing
    await found.flush()


async def test_a_flush_tells_what_failed_since_the_last_one():
    found = filled(0)
    for number in range(CAUSES_MAX + 1):
        found.record_failure(RequestTimeout(f"error {number}"), 3)
    with pytest.raises(
        SendFailed, match=r"^33 messages given to send_soon were not sent\. The first error: error 0"
    ) as caught:
        await found.flush()
    assert [str(cause) for cause in caught.value.causes] == [f"error {number}" for number in range(10)]
    await found.flush()
    found.record_failure(RequestTimeout("later"), 1)
    with pytest.raises(SendFailed, match=r"^1 messages .* later"):
        await found.flush()
