"""Notices to brokers: all together, again when one does not answer, and never an outdated one."""

import asyncio
import logging

import pytest

from orbitmq.controller import notices as notices_module
from orbitmq.controller.notices import ATTEMPTS, Notices
from orbitmq.errors import ConnectionFailed, RequestTimeout
from orbitmq.wire.bodies.controller import SyncSet, decode_sync_set
from orbitmq.wire.command import Command
from unit.controller.groups import group, living

LED = group(master=1, master_epoch=4, sync_set=[1], sync_set_epoch=6)


class Pool:
    """Stands for the connections: answers, fails, or lets wait."""

    def __init__(self):
        self.told = []
        self.failures = {}
        self.waiting = set()
        self.connected = []
        self.code = 0

    async def request(self, address, header, body, *, timeout_ms):
        self.told.append((address, header, decode_sync_set(body)))
        if address in self.waiting:
            await asyncio.Event().wait()
        if self.failures.get(address):
            raise self.failures[address].pop()
        return Command(code=self.code, opaque=1, remark="no")

    async def connect(self, address):
        self.connected.append(address)
        if self.failures.get(address):
            raise self.failures[address].pop()

    def close_address(self, address):
        self.connected.append(f"closed {address}")


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(notices_module, "PAUSE_S", 0)
    monkeypatch.setattr(notices_module, "CONNECT_PAUSE_S", 0)
    return Pool()


async def settle(notices):
    while tasks := (*notices._tasks.values(), *notices._connecting):
        await asyncio.wait(tasks)


async def test_every_living_member_is_told_and_no_other(pool):
    notices = Notices(pool)
    notices.tell(LED, living(1, 2, 9))
    await settle(notices)
    assert sorted(address for address, _, _ in pool.told) == ["10.0.0.1:10911", "10.0.0.2:10911"]
    _, header, sync_set = pool.told[0]
    assert (header.master_address, header.master_broker_id) == ("10.0.0.1:10911", 1)
    assert (header.master_epoch, header.sync_state_set_epoch) == (4, 6)
    assert sync_set == SyncSet(frozenset([1]), 6)


async def test_a_member_that_does_not_answer_delays_no_other(pool):
    pool.waiting = {"10.0.0.1:10911"}
    notices = Notices(pool)
    notices.tell(LED, living(1, 2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(pool.told) == 2
    await notices.close()


async def test_a_member_is_told_again_through_a_new_connection(pool):
    pool.failures["10.0.0.2:10911"] = [RequestTimeout("late"), ConnectionFailed("gone")]
    notices = Notices(pool)
    notices.tell(LED, living(2))
    await settle(notices)
    assert (len(pool.told), pool.connected) == (3, ["closed 10.0.0.2:10911"] * 2)


async def test_a_member_that_never_answers_is_given_up(pool, caplog):
    pool.failures["10.0.0.2:10911"] = [ConnectionFailed("gone") for _ in range(9)]
    notices = Notices(pool)
    notices.tell(LED, living(2))
    await settle(notices)
    assert len(pool.told) == ATTEMPTS
    assert "could not tell 10.0.0.2:10911" in caplog.text


async def test_newer_news_end_older_ones(pool):
    pool.waiting = {"10.0.0.2:10911"}
    notices = Notices(pool)
    notices.tell(LED, living(2))
    await asyncio.sleep(0)
    (older,) = notices._tasks.values()
    pool.waiting = set()
    notices.tell(group(master=3, master_epoch=5, sync_set=[3]), living(2))
    await settle(notices)
    assert older.cancelled()
    assert [header.master_epoch for _, header, _ in pool.told] == [4, 5]


async def test_a_refusal_is_told_to_the_operator(pool, caplog):
    pool.code = 1
    notices = Notices(pool)
    notices.tell(LED, living(2))
    await settle(notices)
    assert "10.0.0.2:10911 does not take its role: [1] no" in caplog.text


async def test_a_broker_is_connected_to_before_there_are_news(pool, caplog):
    caplog.set_level(logging.INFO)
    pool.failures["a:1"] = [ConnectionFailed("not yet")]
    notices = Notices(pool)
    notices.connect("a:1")
    await settle(notices)
    assert pool.connected == ["a:1", "a:1"]
    pool.failures["a:1"] = [ConnectionFailed("never") for _ in range(99)]
    notices.connect("a:1")
    await settle(notices)
    assert "could not connect to the broker a:1" in caplog.text
