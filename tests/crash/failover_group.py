"""Three brokers of one name whose controllers decide who leads, and what is asked of them from outside."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from children import freeze
from crash.failover_hosts import HostCluster
from crash.replicas import AUDITORS, Lost, until
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.controller import (
    BrokerEpochs,
    SyncState,
    decode_epochs,
    decode_sync_states,
    encode_broker_names,
)
from orbitmq.wire.bodies.groups import GroupConfig, decode_group_table, encode_group_config
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    CreateTopic,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetBrokerEpochs,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetMaxOffset,
    GetSyncStates,
    OffsetResponse,
    UpdateSubscriptionGroup,
)

NAME = "broker-a"
MEMBERS = ("broker-a-1", "broker-a-2", "broker-a-3")
SETTINGS: Mapping[str, Any] = {
    "mapped_file_size_commit_log": 256 * 1024 * 1024,
    "mapped_file_size_consume_queue": 4_000 * 20,
    "max_hash_slot_num": 512,
    "max_index_num": 4_000,
    "flush_consumer_offset_interval": 500,
}


class FailoverGroup:
    """The group: `async with FailoverGroup(...)`.

    Args:
        topics, groups: made at the start, the topics with two queues each.
        has_hosts: each member runs on a host of its own.
    """

    def __init__(
        self, home: Path, topics: tuple[str, ...], groups: tuple[str, ...], *, has_hosts: bool = False, **settings: Any
    ) -> None:
        self.pool = ConnectionPool()
        settings = {**SETTINGS, **settings}
        self.cluster: LocalCluster | HostCluster = (
            HostCluster(home, settings)
            if has_hosts
            else LocalCluster(replicas=3, processes=True, data_dir=home, settings=settings)
        )
        self._topics = topics
        self._groups = groups
        self._frozen: set[int] = set()

    async def __aenter__(self) -> FailoverGroup:
        await self.cluster.start()
        try:
            self.controllers = (
                self.cluster.controllers
                if isinstance(self.cluster, HostCluster)
                else {name: f"127.0.0.1:{kept.getsockname()[1]}" for name, kept in self.cluster._controllers.items()}
            )
            await until(self.is_whole, "the group is whole")
            address = self.cluster.brokers[await self.master()]
            for topic in self._topics:
                header = CreateTopic(
                    topic=topic, default_topic="TBW102", read_queue_nums=2, write_queue_nums=2, perm=6,
                    topic_filter_type="SINGLE_TAG",
                )  # fmt: skip
                assert (await self.pool.request(address, header, timeout_ms=5_000)).code == 0
            for group in (*self._groups, AUDITORS):
                body = encode_group_config(GroupConfig(group=group))
                assert (await self.pool.request(address, UpdateSubscriptionGroup(), body, timeout_ms=5_000)).code == 0
            await until(self._have_tables, "the members have the topics and groups")
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for pid in self._frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        try:
            for member in MEMBERS:
                await self.cluster.kill_broker(member)
        finally:
            await self.cluster.stop()
            await self.pool.close()

    async def _have_tables(self) -> bool:
        for member in MEMBERS:
            topics = decode_topic_table((await self.ask(member, GetAllTopicConfig())).body).topics.keys()
            groups = decode_group_table((await self.ask(member, GetAllSubscriptionGroups())).body).groups.keys()
            if not (topics >= {*self._topics} and groups >= {*self._groups, AUDITORS}):
                return False
        return True

    def pid(self, member: str) -> int:
        """The number of a member's process."""
        if isinstance(self.cluster, HostCluster):
            return self.cluster.pid(member)
        service: Any = self.cluster._brokers[member]._service
        return int(service._process.pid)

    def freeze(self, member: str) -> None:
        """Let a member's process stand still."""
        self._frozen.add(self.pid(member))
        freeze(self.pid(member))

    def thaw(self, member: str) -> None:
        """Let it go on."""
        os.kill(self.pid(member), signal.SIGCONT)
        self._frozen.discard(self.pid(member))

    async def state(self) -> SyncState:
        """Return what the controllers say of the group (1006). Raises ClientError: none of them can."""
        last: Exception | None = None
        for address in self.controllers.values():
            try:
                body = encode_broker_names([NAME])
                answer = await self.pool.request(address, GetSyncStates(), body, timeout_ms=1_000)
                if answer.code == 0 and (state := decode_sync_states(bytes(answer.body)).get(NAME)) is not None:
                    return state
            except ClientError as error:
                last = error
        raise last or ClientError("no controller leads")

    async def master(self) -> str:
        """Return the member that leads. Raises ClientError: none does."""
        address = (await self.state()).master_address
        for member, theirs in self.cluster.brokers.items():
            if theirs == address:
                return member
        raise ClientError("no broker leads")

    async def leading_controller(self) -> str:
        """Return the member whose controller leads. Raises ClientError: none does."""
        for member, address in self.controllers.items():
            with suppress(ClientError):
                answer = await self.pool.request(address, GetControllerMetadata(), timeout_ms=1_000)
                if decode_header(GetControllerMetadataResponse, answer.ext_fields).is_leader:
                    return member
        raise ClientError("no controller leads")

    async def is_whole(self) -> bool:
        """Return True if one member leads and all are in its sync set, as each of them knows."""
        state = await self.state()
        if state.master is None or len(state.in_sync) < len(MEMBERS):
            return False
        epochs = [(await self.epochs(member)).epochs for member in MEMBERS]
        return all(mine and mine[-1].epoch == state.master_epoch for mine in epochs)

    async def ask(self, member: str, header: Any, body: bytes = b"", timeout_ms: int = 2_000) -> Command:
        """Return a member's answer, whatever its code."""
        return await self.pool.request(self.cluster.brokers[member], header, body, timeout_ms=timeout_ms)

    async def epochs(self, member: str) -> BrokerEpochs:
        """Return the epochs of a member's log (1007). Raises ClientError: it has none now."""
        answer = await self.ask(member, GetBrokerEpochs())
        if answer.code != 0:
            raise ClientError(f"{member} has no role")
        return decode_epochs(bytes(answer.body))

    async def end(self, member: str, topic: str, queue_id: int) -> int:
        """Return a member's end of a queue."""
        answer = await self.ask(member, GetMaxOffset(topic=topic, queue_id=queue_id))
        return decode_header(OffsetResponse, answer.ext_fields).offset

    def log(self, member: str) -> bytes:
        """Return the bytes of a member's CommitLog, without the zeros at its end."""
        found = bytearray()
        for path in sorted((self.cluster.data_dir / member / "commitlog").iterdir()):
            with path.open("rb") as file:
                while (part := file.read(1024 * 1024)).strip(b"\0"):
                    found += part
        return bytes(found).rstrip(b"\0")

    async def check_copies(self) -> int:
        """Check that the idle members' logs, epochs and ends of queues are the same; return the log's size. Raises Lost."""

        async def are_equal() -> bool:
            epochs = [await self.epochs(member) for member in MEMBERS]
            return len({(found.epochs, found.max_offset) for found in epochs}) == 1

        try:
            await until(are_equal, "the epochs and the ends of the logs are the same")
        except Lost as lost:
            raise Lost(f"{lost}: {[await self.epochs(member) for member in MEMBERS]}") from None
        first, *others = (self.log(member) for member in MEMBERS)
        for member, log in zip(MEMBERS[1:], others, strict=True):
            if log != first:
                at = next((at for at, (a, b) in enumerate(zip(first, log, strict=False)) if a != b), None)
                raise Lost(f"the logs of {MEMBERS[0]} ({len(first)}) and {member} ({len(log)}) differ at {at}")
        for topic in self._topics:
            for queue_id in range(2):
                ends = [await self.end(member, topic, queue_id) for member in MEMBERS]
                if len(set(ends)) > 1:
                    raise Lost(f"{topic} {queue_id} ends at {ends} in the members")
        return len(first)
