"""The contract of OffsetStore, for everything that keeps it."""

from contextlib import asynccontextmanager

import pytest

from orbitmq.client.consume.offsets.broker_offsets import BrokerOffsets
from orbitmq.client.consume.offsets.local_offsets import LocalOffsets
from orbitmq.client.consume.offsets.offset_store import OffsetStore
from orbitmq.model.route import MessageQueue
from unit.client.support import open_session

QUEUE, OTHER = (MessageQueue("orders", "broker-a", number) for number in range(2))


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


@pytest.mark.parametrize("opened", [at_brokers, in_a_file])
async def test_what_was_stored_last_is_what_is_loaded(cluster, tmp_path, opened):
    async with opened(cluster, tmp_path) as found:
        store: OffsetStore = found
        assert await store.load(QUEUE) is None
        await store.store(QUEUE, 7)
        await store.store(OTHER, 0)
        await store.store(QUEUE, 5)
        assert (await store.load(QUEUE), await store.load(OTHER)) == (5, 0)
