"""Messages that cannot be decoded stop none behind them: a flag of a compression that is none, a body that unpacks too far."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq import Batch, ConsumeFrom, PullConsumer, PushConsumer, SimpleConsumer, StoredMessage
from orbitmq.admin.client import AdminClient
from orbitmq.admin.dead_letter_client import DeadLetters
from orbitmq.cli.main import main
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import SysFlag
from orbitmq.model.topic import TopicConfig
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.testing import LocalCluster
from orbitmq.wire.headers import SendMessageV2
from orbitmq.wire.messages.compression import DECOMPRESSED_SIZE_MAX
from waiting import until

BOMB = zlib.compress(bytes(DECOMPRESSED_SIZE_MAX + 1))
BODIES = [b"first", b"no zlib", b"second", BOMB, b"last"]
BAD = [b"no zlib", BOMB]
GOOD = [body for body in BODIES if body not in BAD]


@asynccontextmanager
async def filled() -> AsyncIterator[LocalCluster]:
    """A cluster with the bodies in the only queue of a topic; the bad ones are sent as a client of another mind would."""
    pool = ConnectionPool()
    async with LocalCluster() as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
        (address,) = cluster.brokers.values()
        for body in BODIES:
            header = SendMessageV2(
                producer_group="makers", topic="orders", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
                sys_flag=SysFlag.COMPRESSED if body in BAD else 0, born_at_ms=0, flag=0,
            )  # fmt: skip
            expect(await pool.request(address, header, body), address)
        await pool.close()
        yield cluster


async def dead_letters(cluster: LocalCluster, group: str) -> list[StoredMessage]:
    """Wait for the dead letters of both bad messages."""
    found: list[StoredMessage] = []
    async with PullConsumer("auditors", cluster.name_servers) as reader, AdminClient(cluster.name_servers) as admin:

        async def is_known() -> bool:
            return f"%DLQ%{group}" in await admin.topic_list()

        await until(is_known, 0.02)
        queues = await reader.queues(f"%DLQ%{group}")
        reader.assign(queues)
        for queue in queues:
            await reader.seek_to_begin(queue)
        while len(found) < len(BAD):
            found += await reader.poll()
    return found


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", ["handler", "message_handler"])
async def test_handlers_get_the_others_and_these_are_dead_letters(kind: str, ordered: bool) -> None:
    handled: list[bytes] = []

    async def handle(given: Batch | StoredMessage) -> None:
        handled.extend(message.body for message in ([given] if isinstance(given, StoredMessage) else given))

    async with filled() as cluster:
        settings: dict[str, Any] = {kind: handle, "ordered": ordered, "consume_from": ConsumeFrom.FIRST}
        async with PushConsumer("takers", cluster.name_servers, **settings) as consumer:
            consumer.subscribe("orders")
            await until(lambda: sorted(handled) == sorted(GOOD), 0.01)
            letters = await dead_letters(cluster, "takers")
        assert sorted(letter.body for letter in letters) == sorted(BAD)
        assert all(letter.decode_error for letter in letters)
        async with DeadLetters(cluster.name_servers) as dlq:
            with pytest.raises(InvalidArgument, match="decode"):
                async for _ in dlq.resend("takers"):
                    pass


async def test_who_iterates_gets_them_alone_with_the_reason() -> None:
    found: list[tuple[list[bytes], bool]] = []
    async with filled() as cluster:
        async with PushConsumer("takers", cluster.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
            consumer.subscribe("orders")
            async for batch in consumer:
                found.append(([message.body for message in batch], batch.decode_error is not None))
                batch.commit()
                if b"last" in found[-1][0]:
                    break
    assert found == [([body], body in BAD) for body in BODIES]


@pytest.mark.parametrize("kind", [PullConsumer, SimpleConsumer])
async def test_who_reads_gets_them_with_the_reason(kind: type) -> None:
    found: list[StoredMessage] = []
    async with filled() as cluster, kind("takers", cluster.name_servers) as consumer:
        if isinstance(consumer, PullConsumer):
            (queue,) = await consumer.queues("orders")
            consumer.assign([queue])
            await consumer.seek_to_begin(queue)
            while len(found) < len(BODIES):
                found += await consumer.poll()
        else:
            consumer.subscribe("orders")
            while len(found) < len(BODIES):
                found += await consumer.receive()
            await consumer.ack(found)
    assert [(message.body, message.decode_error is not None) for message in found] == [
        (body, body in BAD) for body in BODIES
    ]


async def test_the_command_consume_shows_them_and_goes_on(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    async with filled() as cluster:
        words = ["consume", "orders", "-n", cluster.name_servers, "-c", "5", "-o", "json"]
        assert await asyncio.to_thread(main, words) == 0
    out, err = capfdbinary.readouterr()
    assert err.count(b"cannot be decoded") == len(BAD)
    lines = [json.loads(line) for line in out.splitlines()]
    assert ["decode_error" in line for line in lines] == [body in BAD for body in BODIES]
