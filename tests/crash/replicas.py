"""A NameServer, a master and its slave in processes of their own, on stores that take either role."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import orjson

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delivery.delay import parse_delay_offsets
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.store.timers.checkpoint import parse_timer_checkpoint
from orbitmq.testing.processes import ServerProcess
from orbitmq.wire.bodies.groups import GroupConfig, decode_group_table, encode_group_config
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CreateTopic,
    ExchangeReplicationInfo,
    ExchangeReplicationInfoResponse,
    GetAllDelayOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetMaxOffset,
    GetReplicationStatus,
    GetTimerCheckpoint,
    OffsetResponse,
    PullMessage,
    PullSysFlag,
    UpdateSubscriptionGroup,
)
from orbitmq.wire.messages.record import Record, iter_records

NAME, HOST, AUDITORS = "broker-a", "127.0.0.1", "auditors"
SEGMENT_SIZE = 256 * 1024 * 1024
"""Bytes of a file of the log: an empty slave gets the last one only, and here that is the whole log."""
SETTINGS: Mapping[str, Any] = {
    "broker_name": NAME,
    "bind_address": HOST,
    "listen_port": 0,
    "ha_listen_port": 0,
    "vip_channel_enable": False,
    "disk_space_clean_forcibly_ratio": 100,
    "disk_space_warning_level_ratio": 100,
    "mapped_file_size_commit_log": SEGMENT_SIZE,
    "mapped_file_size_consume_queue": 4_000 * 20,
    "mapped_file_size_timer_log": 256 * 1024,
    "max_hash_slot_num": 512,
    "max_index_num": 4_000,
    "ha_send_heartbeat_interval": 500,
    "ha_housekeeping_interval": 5_000,
    "slave_timeout": 1_000,
    "register_name_server_period": 10_000,
    "flush_consumer_offset_interval": 500,
    "transaction_time_out": 500,
    "transaction_check_interval": 300,
    "transaction_check_max": 1_000_000,
}
WAIT_S = 30
"""What comes about after a start at all comes about within this time."""
_PAUSE_S = 0.02


class Lost(AssertionError):
    """The brokers broke their word."""


async def until(condition: Callable[[], Any], what: str) -> None:
    """Wait until a condition holds, an awaitable one maybe. Raises Lost: it does not within WAIT_S."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + WAIT_S
    while True:
        with suppress(ClientError):  # a broker that is starting
            found = condition()
            if await found if asyncio.iscoroutine(found) else found:
                return
        if loop.time() > until_s:
            raise Lost(f"{what}: not within {WAIT_S} s")
        await asyncio.sleep(_PAUSE_S)


class Node:
    """A store, and the broker that runs on it now."""

    def __init__(self, home: Path, name_servers: str, settings: Mapping[str, Any]) -> None:
        self.home = home
        self.address = ""
        """Where its broker serves clients, or has served them, as host:port."""
        self._settings = {**SETTINGS, **settings, "namesrv_addr": name_servers, "store_path_root_dir": home}
        self._process: ServerProcess | None = None

    @property
    def pid(self) -> int:
        """The process's number."""
        assert self._process is not None, f"{self.home} runs no broker"
        assert self._process._process is not None, f"{self.home} runs no broker"
        return self._process._process.pid

    async def start(self, role: str, **settings: Any) -> None:
        """Start a broker on the store; the last one here has ended."""
        config = BrokerConfig(
            **{**self._settings, **settings, "broker_role": role, "broker_id": 1 if role == "SLAVE" else 0}
        )
        self._process = ServerProcess("broker", config.to_properties(), self.home)
        await self._process.start()
        self.address = self._process.address

    async def stop(self) -> None:
        """End the broker in order, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            await process.stop()

    async def kill(self) -> None:
        """Kill -9."""
        process, self._process = self._process, None
        if process is not None:
            await process.kill()

    def log(self) -> bytes:
        """Return the bytes of the CommitLog, without the zeros at its end."""
        found = bytearray()
        with (self.home / "commitlog" / "0".zfill(20)).open("rb") as file:
            while (part := file.read(1024 * 1024)).strip(b"\0"):
                found += part
        return bytes(found).rstrip(b"\0")

    def said(self) -> str:
        """Return what its brokers have logged."""
        return (self.home / "broker.log").read_text(errors="replace")


class Replicas:
    """The cluster: `async with Replicas(...)`; `master` serves, and `slave` follows it.

    Args:
        topics: made with two queues each, those of retries with one, before the slave starts: it takes tables over every ten seconds only.
        groups: made as well.
    """

    def __init__(
        self, home: Path, topics: tuple[str, ...] = (), groups: tuple[str, ...] = (AUDITORS,), **settings: Any
    ) -> None:
        self.pool = ConnectionPool()
        self.name_servers = ""
        self._home = home
        self._topics = topics
        self._groups = groups
        self._settings = settings
        self._nodes: list[Node] = []
        self._numbers = count()
        config = NameServerConfig(
            bind_address=HOST, listen_port=0, kv_config_path=home / "kv.json", config_store_path=home / "ns.properties"
        )
        self._name_server = ServerProcess("nameserver", config.to_properties(), home)

    async def __aenter__(self) -> Replicas:
        try:
            await self._name_server.start()
            self.name_servers = self._name_server.address
            self.master = self.new_node()
            await self.master.start("SYNC_MASTER")
            for topic in self._topics:
                await self.create(topic, 1 if topic.startswith("%RETRY%") else 2)
            for group in self._groups:
                await self.ask(
                    self.master, UpdateSubscriptionGroup(), body=encode_group_config(GroupConfig(group=group))
                )
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self._nodes:
            await node.kill()
        await self._name_server.kill()
        await self.pool.close()

    def new_node(self) -> Node:
        """Return a node with an empty store."""
        self._nodes.append(Node(self._home / f"store-{next(self._numbers)}", self.name_servers, self._settings))
        return self._nodes[-1]

    async def put_away(self, node: Node) -> None:
        """Remove a node and its store for good."""
        await node.stop()
        self._nodes.remove(node)
        shutil.rmtree(node.home)

    async def new_slave(self) -> None:
        """Let an empty slave follow."""
        self.slave = self.new_node()
        await self.slave.start("SLAVE")
        await self.wait_in_sync()

    async def ask(self, node: Node, header: Any, *, body: bytes = b"") -> Command:
        """Return a broker's answer, whatever its code."""
        return await self.pool.request(node.address, header, body, timeout_ms=5_000)

    async def create(self, topic: str, queue_count: int = 2) -> None:
        """Create a topic on the master."""
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queue_count, write_queue_nums=queue_count, perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        assert (await self.ask(self.master, header)).code == 0

    async def status(self, node: Node) -> dict[str, Any]:
        """Return what a broker says of its slaves (907)."""
        return dict(orjson.loads((await self.ask(node, GetReplicationStatus())).body))

    async def ha_address(self, node: Node) -> tuple[str, int]:
        """Return where a master's slaves connect."""
        answer = await self.ask(node, ExchangeReplicationInfo())
        found = decode_header(ExchangeReplicationInfoResponse, answer.ext_fields).master_ha_address
        host, _, port = (found or "").rpartition(":")
        return host, int(port)

    async def is_followed_to(self, end: int) -> bool:
        """Return True if a slave of the master is in sync and has its log up to `end`."""
        slaves = (await self.status(self.master))["haConnectionInfo"]
        return any(slave["inSync"] and slave["slaveAckOffset"] >= end for slave in slaves)

    async def wait_in_sync(self) -> None:
        """Wait until the slave has the master's log, its tables and its progress of deliveries as they are now."""
        end = (await self.status(self.master))["masterCommitLogMaxOffset"]
        assert end < SEGMENT_SIZE, "an empty slave lacks the files before the last: a larger SEGMENT_SIZE is needed"
        topics, groups, levels, timers = await self._tables(self.master)

        async def has_tables() -> bool:
            mine = await self._tables(self.slave)
            return (
                topics <= mine[0]
                and groups <= mine[1]
                and all(mine[2].get(level, -1) >= offset for level, offset in levels.items())
                and all(own >= theirs for own, theirs in zip(mine[3], timers, strict=True))
            )

        await until(lambda: self.is_followed_to(end), f"the slave in {self.slave.home} follows")
        await until(has_tables, f"the slave in {self.slave.home} has its master's tables")

    async def _tables(self, node: Node) -> tuple[set[str], set[str], Mapping[int, int], tuple[int, ...]]:
        topics = decode_topic_table((await self.ask(node, GetAllTopicConfig())).body).topics.keys()
        groups = decode_group_table((await self.ask(node, GetAllSubscriptionGroups())).body).groups.keys()
        levels, _ = parse_delay_offsets((await self.ask(node, GetAllDelayOffsets())).body)
        timers = parse_timer_checkpoint((await self.ask(node, GetTimerCheckpoint())).body)
        return set(topics), set(groups), levels, (timers.read_ms, max(timers.queue_offset, timers.master_queue_offset))

    async def promote(self) -> Node:
        """Make the slave the master, as an operator does; return the old one, whose broker has ended."""
        await self.slave.stop()
        old, self.master = self.master, self.slave
        await self.master.start("SYNC_MASTER")
        return old

    async def read(self, topic: str, queue_id: int, offset: int = 0) -> list[Record]:
        """Return the master's messages of a queue from an offset on. Raises Lost: the offsets have gaps."""
        return await read(self.pool, self.master.address, topic, queue_id, offset)

    async def end(self, topic: str, queue_id: int) -> int:
        """Return the offset that the next message of a queue of the master's gets."""
        answer = await self.ask(self.master, GetMaxOffset(topic=topic, queue_id=queue_id))
        return decode_header(OffsetResponse, answer.ext_fields).offset


async def read(pool: ConnectionPool, address: str, topic: str, queue_id: int, offset: int) -> list[Record]:
    """Return a broker's messages of a queue from an offset on. Raises Lost: the offsets have gaps."""
    found: list[Record] = []
    while True:
        at = offset + len(found)
        header = PullMessage(
            consumer_group=AUDITORS, topic=topic, queue_id=queue_id, queue_offset=at, count_max=1000,
            sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0, subscription="*", sub_version=0,
        )  # fmt: skip
        answer = await pool.request(address, header, timeout_ms=10_000)
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            raise Lost(f"{topic} {queue_id} has no message at {at} for now")
        if answer.code != ResponseCode.SUCCESS:
            return found
        records = list(iter_records(answer.body))
        if [record.queue_offset for record in records] != list(range(at, at + len(records))):
            raise Lost(f"{topic} {queue_id}: the offsets from {at} on have gaps")
        found += records


@asynccontextmanager
async def background(*jobs: Any) -> AsyncIterator[None]:
    """Run coroutines while the block runs; what one of them raises ends the block."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
