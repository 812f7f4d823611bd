"""Offsets at the brokers, and the contract of OffsetStore, for everything that keeps it."""

from contextlib import asynccontextmanager

import pytest

from orbitmq.client.consume.offsets.broker_offsets import BrokerOffsets
from orbitmq.client.consume.offsets.local_offsets import LocalOffsets
from orbitmq.client.consume.offsets.offset_store import OffsetStore
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused, RouteNotFound
from orbitmq.model.route import BrokerData, MessageQueue, TopicRoute
from orbitmq.wire.headers import QueryConsumerOffset, UpdateConsumerOffset
from unit.client.support import open_session

QUEUE = MessageQueue("orders", "broker-a", 1)
OTHER = MessageQueue("orders", "broker-a", 0)


@asynccontextmanager
async def at_brokers(cluster, _directory):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        yield BrokerOffsets(session, "g", young_queue_at_zero=False)


@asynccontextmanager
async def in_a_file(_cluster, directory):
    offsets = LocalOffsets(directory, "g")
    offsets.open("me")
    yield offsets


async def test_an_offset_is_kept_per_group_and_queue(cluster):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", young_queue_at_zero=False)
        await offsets.store(QUEUE, 7)
        assert await offsets.load(QUEUE) == 7
        assert await offsets.load(QUEUE._replace(queue_id=0)) is None
        assert await BrokerOffsets(session, "other", young_queue_at_zero=False).load(QUEUE) is None
    assert cluster.a.offsets == {("g", "orders", 1): 7}


@pytest.mark.parametrize(("young_queue_at_zero", "offset"), [(True, 0), (False, None)])
async def test_a_group_that_is_new_to_a_young_queue_begins_at_its_first_message_where_that_is_asked_for(
    cluster, young_queue_at_zero, offset
):
    cluster.topic("orders")
    async with open_session(cluster, "orders") as session:
        assert await BrokerOffsets(session, "g", young_queue_at_zero=young_queue_at_zero).load(QUEUE) == offset


@pytest.mark.parametrize(("kept", "offset"), [(0, 0), (-1, None)])
async def test_minus_one_is_no_offset_but_zero_is(cluster, kept, offset):
    cluster.topic("orders")
    cluster.a.offsets["g", "orders", 1] = kept
    async with open_session(cluster, "orders") as session:
        assert await BrokerOffsets(session, "g", young_queue_at_zero=False).load(QUEUE) == offset


async def test_a_refusal_names_the_broker(cluster):
    cluster.topic("orders")
    cluster.a.refusals[QueryConsumerOffset] = cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SYSTEM_ERROR] * 2
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", young_queue_at_zero=False)
        with pytest.raises(RemoteRefused, match=cluster.a.address):
            await offsets.load(QUEUE)
        with pytest.raises(RemoteRefused, match=cluster.a.address):
            await offsets.store(QUEUE, 1)


async def test_a_group_that_the_broker_does_not_know_yet_is_introduced_by_a_pull(cluster):
    cluster.topic("orders")
    cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST]
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", young_queue_at_zero=False)
        await offsets.store(QUEUE, 7)
        assert await offsets.load(QUEUE) == 7


async def test_a_group_that_the_broker_does_not_make_is_an_error(cluster):
    cluster.topic("orders")
    cluster.a.refusals[UpdateConsumerOffset] = [ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST] * 2
    async with open_session(cluster, "orders") as session:
        with pytest.raises(RemoteRefused, match="26"):
            await BrokerOffsets(session, "g", young_queue_at_zero=False).store(QUEUE, 7)


async def test_a_slave_is_asked_for_an_offset_but_given_none(cluster):
    cluster.topic("orders")
    slave = BrokerData(cluster="c", broker_name="broker-a", addresses={1: cluster.a.address})
    cluster.routes["orders"] = TopicRoute(queues=cluster.routes["orders"].queues, brokers=(slave,))
    cluster.a.offsets["g", "orders", 1] = 7
    async with open_session(cluster, "orders") as session:
        offsets = BrokerOffsets(session, "g", young_queue_at_zero=False)
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
