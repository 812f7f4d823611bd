"""Pops that wait: woken by messages, ended by time, and never lost between two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from orbitmq.broker.pop.waiting import WaitingPops
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Reply
from orbitmq.store import Draft, Store
from orbitmq.wire.command import Command
from waiting import until

from ..parts import FakePeer, memory_store

LONG_MS = 60_000
PLACE = ("t", "g", -1)
FOUND, NOTHING = Reply(remark="found"), Reply(ResponseCode.POLLING_TIMEOUT)


class Harness:
    """A store, what waits for its messages, and requests that take one message each."""

    def __init__(self, place_max: int = 10) -> None:
        self.store: Store = memory_store()
        self.available = 0
        self.waiting = WaitingPops(
            self.store, held_max=10, place_max=place_max, has_messages=lambda *place: self.available > 0
        )

    def hold(self, peer: FakePeer, wait_ms: int = LONG_MS, attempt: Callable[[], Reply | None] | None = None) -> bool:
        return self.waiting.hold(peer, Command(0), PLACE, None, wait_ms, attempt or self.attempt, lambda: NOTHING)

    def attempt(self) -> Reply | None:
        if not self.available:
            return None
        self.available -= 1
        return FOUND

    def send(self, count: int = 1) -> None:
        self.available += count
        for _ in range(count):
            self.store.append(Draft("t", 0, b"x"))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture(name="all")
def harness() -> Harness:
    return Harness()


async def test_a_message_answers_one_who_waits_and_leaves_the_others(all: Harness) -> None:
    first, second = FakePeer(), FakePeer()
    assert all.hold(first)
    assert all.hold(second)
    all.send()
    await turns()
    assert (first.replies, second.replies) == ([FOUND], [])
    all.send()
    await turns()
    assert second.replies == [FOUND]


async def test_sends_pay_for_no_waiter(all: Harness) -> None:
    peer = FakePeer()
    assert all.store.on_arrived == []
    all.hold(peer)
    assert len(all.store.on_arrived) == 1
    all.send()
    await turns()
    assert all.store.on_arrived == []


async def test_who_finds_nothing_waits_on_for_the_rest_of_its_time(all: Harness) -> None:
    peer = FakePeer()
    all.hold(peer, wait_ms=30)
    all.store.append(Draft("t", 0, b"somebody else took it"))
    await turns()
    assert peer.replies == []
    await until(lambda: peer.replies)
    assert peer.replies == [NOTHING]
    assert all.store.on_arrived == []


async def test_who_is_woken_when_its_time_is_over_is_answered_all_the_same(all: Harness) -> None:
    peer = FakePeer()

    async def slow() -> None:
        all.hold(peer, wait_ms=1)
        all.store.append(Draft("t", 0, b"x"))

    await slow()
    loop = asyncio.get_running_loop()
    began = loop.time()
    while loop.time() < began + 0.01:
        pass  # the loop is busy: the time is over before the request is tried again
    await turns()
    assert peer.replies == [NOTHING]


async def test_too_many_are_not_let_in() -> None:
    all = Harness(place_max=1)
    assert all.hold(FakePeer())
    assert not all.hold(FakePeer())


async def test_a_broker_that_leaves_passes_on_what_it_was_woken_for(all: Harness) -> None:
    gone, other = FakePeer(), FakePeer()
    all.hold(gone)
    all.hold(other)
    all.send()
    all.waiting.drop_connection(gone)
    await turns()
    assert (gone.replies, other.replies) == ([], [FOUND])


async def test_a_broker_that_leaves_while_it_waits_is_forgotten(all: Harness) -> None:
    gone = FakePeer()
    all.hold(gone)
    all.waiting.drop_connection(gone)
    assert all.waiting.held.count == 0


async def test_a_client_that_does_not_read_gets_nothing_and_delays_no_other(all: Harness) -> None:
    slow, other = FakePeer(), FakePeer()
    slow.room = -1
    all.hold(slow)
    all.hold(other)
    all.send()
    await turns()
    assert (slow.replies, other.replies) == ([NOTHING], [FOUND])


async def test_a_lost_wake_up_is_made_good(all: Harness) -> None:
    peer = FakePeer()
    all.hold(peer)
    all.waiting.wake_overtaken()
    await turns()
    assert peer.replies == []
    all.available = 1
    all.waiting.wake_overtaken()
    await turns()
    assert peer.replies == [FOUND]


async def test_who_asks_to_be_woken_soon_may_wait_before(all: Harness) -> None:
    peer = FakePeer()
    all.waiting.wake_soon(*PLACE)
    all.available = 1
    all.hold(peer)
    await turns()
    assert peer.replies == [FOUND]


async def test_what_goes_wrong_is_its_own_answer(all: Harness) -> None:
    refused, failed, fine = FakePeer(), FakePeer(), FakePeer()

    def refuse() -> Reply:
        raise Rejected(17, "no such topic")

    def fail() -> Reply:
        raise ValueError("a mistake")

    all.hold(refused, attempt=refuse)
    all.hold(failed, attempt=fail)
    all.hold(fine)
    all.waiting.answer_topic("t")
    all.available = 1
    await turns()
    assert refused.replies == [Reply(17, remark="no such topic")]
    assert failed.replies[0].code == 1
    assert fine.replies == [FOUND]


async def test_the_end_answers_all_waiters(all: Harness) -> None:
    waiting, woken = FakePeer(), FakePeer()
    all.hold(woken)
    all.send()
    all.hold(waiting)
    all.waiting.close()
    assert (waiting.replies, woken.replies) == ([NOTHING], [NOTHING])
    assert not all.hold(FakePeer())
    await turns()


async def test_many_are_tried_in_several_turns(all: Harness) -> None:
    all.waiting = WaitingPops(all.store, held_max=1_000, place_max=1_000, has_messages=lambda *place: True)
    peers = [FakePeer() for _ in range(150)]
    for peer in peers:
        all.hold(peer)
    all.send(150)
    await turns()
    assert [peer.replies for peer in peers] == [[FOUND]] * 150


async def test_a_connection_that_leaves_many_is_forgotten_in_several_turns(all: Harness) -> None:
    all.waiting = WaitingPops(all.store, held_max=1_000, place_max=1_000, has_messages=lambda *place: True)
    gone, other = FakePeer(), FakePeer()
    for _ in range(350):
        all.hold(gone)
    all.hold(other)
    all.send(250)  # as many are woken, and none of them tried yet
    assert all.waiting.held.count == 101
    all.waiting.drop_connection(gone)
    counts = []
    while all.waiting.held.has_closed:
        counts.append(all.available)
        await asyncio.sleep(0)
    assert len(counts) >= 2
    await turns(10)
    assert (gone.replies, other.replies, all.available) == ([], [FOUND], 249)
    assert all.store.on_arrived == []
