"""Offsets at the brokers, and the contract of OffsetStore, for everything that keeps it."""

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.client.consume.offset_stores import (
    BrokerOffsets,
    LocalOffsets,
    OffsetStore,
    decode_offsets,
    encode_offsets,
)
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, RemoteRefused, RouteNotFound
from orbitmq.model.route import BrokerData, MessageQueue, TopicRoute
from orbitmq.wire.command import Command
from orbitmq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from unit.client.support import open_session
from waiting import until

QUEUE = MessageQueue("orders", "broker-a", 1)
OTHER = MessageQueue("orders", "broker-a", 0)


@asynccontextmanager
async def at_brokers(cluster, _directory):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        yield BrokerOffsets(session, "g", in_memory_queue_at_zero=False)


@asynccontextmanager
async def in_a_file(_cluster, directory):
    offsets = LocalOffsets(directory, "g")
    offsets.open("me")
    yield offsets


async def test_an_offset_is_kept_per_group_and_queue(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", in_memory_queue_at_zero=False)
        await offsets.store(QUEUE, 7)
        assert await offsets.load(QUEUE) == 7
        assert await offsets.load(QUEUE._replace(queue_id=0)) is None
        assert await BrokerOffsets(session, "other", in_memory_queue_at_zero=False).load(QUEUE) is None
    assert cluster.a.offsets == {("g", "orders", 1): 7}


async def test_the_first_offset_in_a_topic_goes_alone_and_later_ones_together():
    """Java's broker loses one of two first offsets that come at the same time."""
    asked, answers = [], []

    class Session:
        async def call_queue(self, queue, _header, *, only_this):
            asked.append(queue)
            answers.append(answer := asyncio.get_running_loop().create_future())
            await answer
            return Command(code=ResponseCode.SUCCESS)

        routes = SimpleNamespace(broker_of=lambda queue: queue, address=lambda _broker: "a")

    session: Any = Session()
    offsets = BrokerOffsets(session, "g", in_memory_queue_at_zero=False)
    for expected in (1, 2):
        stores = [asyncio.ensure_future(offsets.store(queue, 7)) for queue in (QUEUE, OTHER)]
        await until(lambda: answers)
        await asyncio.sleep(0)
        assert len(asked) == expected
        while not all(store.done() for store in stores):
            if answers:
                answers.pop().set_result(None)
            await asyncio.sleep(0)
        assert sorted(asked) == [OTHER, QUEUE]
        asked.clear()


@pytest.mark.parametrize(("in_memory_queue_at_zero", "offset"), [(True, 0), (False, None)])
async def test_a_group_that_is_new_to_a_queue_in_memory_begins_at_its_first_message_where_that_is_asked_for(
    cluster, in_memory_queue_at_zero, offset
):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        assert await BrokerOffsets(session, "g", in_memory_queue_at_zero=in_memory_queue_at_zero).load(QUEUE) == offset


@pytest.mark.parametrize(("kept", "offset"), [(0, 0), (-1, None)])
async def test_minus_one_is_no_offset_but_zero_is(cluster, kept, offset):
    cluster.topic("orders")
    cluster.a.offsets["g", "orders", 1] = kept
    async with open_session(cluster, "orders") as session:
        assert await BrokerOffsets(session, "g", in_memory_queue_at_zero=False).load(QUEUE) == offset


async def test_a_refusal_names_the_broker(cluster):
    cluster.topic("orders")
    cluster.a.refusals[QueryConsumerOffset] = cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SYSTEM_ERROR] * 2
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", in_memory_queue_at_zero=False)
        with pytest.raises(RemoteRefused, match=cluster.a.address):
            await offsets.load(QUEUE)
        with pytest.raises(RemoteRefused, match=cluster.a.address):
            await offsets.store(QUEUE, 1)


async def test_a_group_that_the_broker_does_not_know_yet_is_introduced_by_a_pull(cluster):
    cluster.topic("orders")
    cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST]
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", in_memory_queue_at_zero=False)
        await offsets.store(QUEUE, 7)
        assert await offsets.load(QUEUE) == 7


async def test_a_group_that_the_broker_does_not_make_is_an_error(cluster):
    cluster.topic("orders")
    cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST] * 2
    async with open_session(cluster, "orders") as session:
        with pytest.raises(RemoteRefused, match="26"):
            await BrokerOffsets(session, "g", in_memory_queue_at_zero=False).store(QUEUE, 7)


async def test_a_slave_is_asked_for_an_offset_but_given_none(cluster):
    cluster.topic("orders")
    slave = BrokerData(cluster="c", broker_name="broker-a", addresses={1: cluster.a.address})
    cluster.routes["orders"] = TopicRoute(queues=cluster.routes["orders"].queues, brokers=(slave,))
    cluster.a.offsets["g", "orders", 1] = 7
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", in_memory_queue_at_zero=False)
        assert await offsets.load(QUEUE) == 7
        with pytest.raises(RouteNotFound, match="a master"):
            await offsets.store(QUEUE, 8)


@pytest.mark.parametrize("opened", [at_brokers, in_a_file])
async def test_what_was_stored_last_is_what_is_loaded(cluster, tmp_path, opened):
    async with opened(cluster, tmp_path) as found:
        store: OffsetStore = found
        assert await store.load(QUEUE) is None
        await store.store(QUEUE, 7)
        await store.store(OTHER, 0)
        await store.store(QUEUE, 5)
        assert (await store.load(QUEUE), await store.load(OTHER)) == (5, 0)


def opened(directory):
    offsets = LocalOffsets(directory, "group")
    offsets.open("client")
    return offsets


def test_the_file_has_the_form_of_javas():
    content = encode_offsets({QUEUE: 7, OTHER: 5})
    assert content == (
        b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5,'
        b'{"brokerName":"broker-a","queueId":1,"topic":"orders"}:7}}'
    )
    assert decode_offsets(content) == {QUEUE: 7, OTHER: 5}
    assert decode_offsets(b'{"offsetTable":null}') == {}


@each_case(b"", b"{", b"[]", b"{}", b'{"offsetTable":{"a":1}}', b'{"offsetTable":[1]}')
def test_what_is_no_table_of_offsets_is_said(content):
    with pytest.raises(HeaderError):
        decode_offsets(content)


async def test_offsets_survive_in_the_file_of_the_client(tmp_path):
    path = tmp_path / "client" / "group.json"
    offsets = opened(tmp_path)
    assert await offsets.load(QUEUE) is None
    await offsets.store(QUEUE, 7)
    await offsets.store(OTHER, 5)
    again = opened(tmp_path)
    assert (await again.load(QUEUE), await again.load(OTHER)) == (7, 5)
    assert sorted(file.name for file in path.parent.iterdir()) == ["group.json", "group.json.bak"]


async def test_offsets_stored_at_the_same_time_are_written_one_after_the_other(tmp_path, monkeypatch):
    writing, most, written, may_end = 0, 0, [], threading.Event()

    def replace(_path, content):
        nonlocal writing, most
        writing += 1
        most = max(most, writing)
        written.append(decode_offsets(content))
        may_end.wait()
        writing -= 1

    monkeypatch.setattr("orbitmq.client.consume.offset_stores.replace_file", replace)
    offsets = opened(tmp_path)
    first = [asyncio.create_task(offsets.store(MessageQueue("orders", "broker-a", n), n)) for n in range(5)]
    await until(lambda: written)
    second = [asyncio.create_task(offsets.store(MessageQueue("orders", "broker-a", n), 10 + n)) for n in range(5)]
    for _ in range(100):
        await asyncio.sleep(0)
    may_end.set()
    await asyncio.gather(*first, *second)
    assert most == 1
    assert len(written) == 2
    assert set(written[-1].values()) == {10, 11, 12, 13, 14}


@pytest.mark.parametrize("damage", [b"", b'{"offsetTable":{{"brokerNa'])
async def test_a_damaged_file_gives_way_to_the_generation_before(tmp_path, damage, caplog):
    path = tmp_path / "client" / "group.json"
    offsets = opened(tmp_path)
    await offsets.store(QUEUE, 7)
    await offsets.store(QUEUE, 8)
    path.write_bytes(damage)
    assert await opened(tmp_path).load(QUEUE) == 7
    assert "cannot use" in caplog.text


async def test_an_instance_goes_on_where_its_latest_client_id_was(tmp_path):
    """A pod that is started again has another address: its messages came again, or were lost."""
    for number, client_id in enumerate(("10.0.0.1@me", "10.0.0.2@me", "10.0.0.3@other")):
        old = LocalOffsets(tmp_path, "g")
        old.open(client_id)
        await old.store(QUEUE, number)
        os.utime(tmp_path / client_id / "g.json", (number, number))
    offsets = LocalOffsets(tmp_path, "g")
    offsets.open("me")
    assert await offsets.load(QUEUE) == 1
    await offsets.store(QUEUE, 7)
    again = LocalOffsets(tmp_path, "g")
    again.open("me")
    assert await again.load(QUEUE) == 7
