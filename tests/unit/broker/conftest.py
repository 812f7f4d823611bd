"""A broker on the loopback, spoken to through a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PullMessage, SendMessageV2, UpdateSubscriptionGroup
from orbitmq.wire.messages.record import Record, iter_records

from .parts import Serve


class Harness:
    """A running broker and a client's connections to it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.pools: list[ConnectionPool] = []
        self.pool = self.connect()

    def connect(self, **settings: Any) -> ConnectionPool:
        pool = ConnectionPool(**settings)
        self.pools.append(pool)
        return pool

    async def ask(self, header: object, body: bytes = b"", timeout_ms: int = 20_000) -> Command:
        return await self.pool.request(self.broker.address, header, body, timeout_ms=timeout_ms)

    async def answer(self, header: object, response_type: type[Any], body: bytes = b"") -> Any:
        """Ask, expect success, and decode the answer's header."""
        answer = await self.ask(header, body)
        assert answer.code == 0, answer.remark
        return decode_header(response_type, answer.ext_fields)

    async def code(self, header: object, body: bytes = b"") -> int:
        return (await self.ask(header, body)).code

    async def make_group(self, group: str = "g") -> None:
        """Make a consumer group as an administrator does."""
        assert await self.code(UpdateSubscriptionGroup(), encode_group_config(GroupConfig(group=group))) == 0

    async def send(self, topic: str = "t", body: bytes = b"hello", properties: str = "", **fields: Any) -> Command:
        return await self.ask(send_header(topic, properties, **fields), body)

    async def pull(self, topic: str = "t", **fields: Any) -> tuple[Command, list[Record]]:
        answer = await self.ask(pull_header(topic, **fields))
        return answer, list(iter_records(answer.body))


def send_header(topic: str = "t", properties: str = "", **fields: Any) -> SendMessageV2:
    settings: dict[str, Any] = {
        "producer_group": "p", "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4,
        "queue_id": 0, "sys_flag": 0, "born_at_ms": 1_700_000_000_000, "flag": 0, "properties": properties,
    }  # fmt: skip
    return SendMessageV2(**settings | fields)


def pull_header(topic: str = "t", **fields: Any) -> PullMessage:
    settings: dict[str, Any] = {
        "consumer_group": "g", "topic": topic, "queue_id": 0, "queue_offset": 0, "count_max": 32, "sys_flag": 4,
        "commit_offset": 0, "suspend_timeout_ms": 0, "subscription": "*", "sub_version": 0,
    }  # fmt: skip
    return PullMessage(**settings | fields)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Run a broker inside `async with`; the store of one test survives several of them."""

    @asynccontextmanager
    async def serving(clocks: Mapping[str, Any] = {}, **settings: Any) -> AsyncIterator[Harness]:
        config: dict[str, Any] = {
            "bind_address": "127.0.0.1", "listen_port": 0, "store_path_root_dir": tmp_path / "store",
            "broker_name": "a", "mapped_file_size_commit_log": 1024 * 1024,
            "mapped_file_size_consume_queue": 20_000,
        }  # fmt: skip
        broker = Broker(BrokerConfig(**config | settings), **clocks)
        await broker.start()
        harness = Harness(broker)
        try:
            async with asyncio.timeout(60):
                yield harness
        finally:
            for pool in harness.pools:
                await pool.close()
            await broker.stop()

    return serving


@pytest.fixture
def harness(serve: Serve) -> AbstractAsyncContextManager[Harness]:
    """A broker with the settings of `serve`, which runs while the test does."""
    return serve()
