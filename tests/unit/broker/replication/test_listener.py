"""The listener of a master, and readers of old messages, who are sent to a slave."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import orjson
import pytest

from orbitmq.broker.delivery import in_memory_check
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.replication import listener
from orbitmq.broker.replication.listener import FollowRules, SlaveListener
from orbitmq.broker.replication.role import ControlledRole
from orbitmq.broker.replication.slow_readers import SlowReaders
from orbitmq.errors import ConnectionFailed
from orbitmq.ha.replica_acks import ReplicaAckResult
from orbitmq.ha.slave import HEADER, REPORT
from orbitmq.store import Draft
from orbitmq.wire.bodies.controller import SyncSet as ToldSyncSet
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.stats import SlaveStatus
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import ConsumerSendBack, GetReplicationStatus, SendResponse, ViewMessage
from waiting import until

from ..handlers.support import ack_header, pop
from ..handlers.test_transactions import HALF, end_header
from ..parts import Serve, memory_store


class Closing:
    """Closes a connection where the harness closes its pools."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


async def connect(harness: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the port where slaves follow."""
    host, port = harness.broker.service.address.replication.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    harness.pools.append(Closing(writer))
    return reader, writer


async def follow(harness: Any, offset: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as a slave does whose log ends at `offset`."""
    reader, writer = await connect(harness)
    writer.write(REPORT.pack(offset))
    return reader, writer


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Read until the master closes; a reset is as good where it had not read everything."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


async def receive(reader: asyncio.StreamReader, end: int) -> tuple[int, bytes]:
    """Return where the master begins, and the bytes up to `end` of its log."""
    start, received = -1, b""
    while start < 0 or start + len(received) < end:
        offset, size = HEADER.unpack(await reader.readexactly(HEADER.size))
        start = offset if start < 0 else start
        assert offset == start + len(received)
        received += await reader.readexactly(size)
    return start, received


def log_of(harness: Any) -> bytes:
    store = harness.broker.service.store
    at, content = 0, b""
    while at < store.max_physical_offset:
        content += store.read_raw(at, 2**31)
        at = len(content)
    return content


async def status(harness: Any) -> Any:
    return orjson.loads((await harness.ask(GetReplicationStatus())).body)


async def test_a_slave_is_sent_the_log_as_it_is_and_as_it_grows(serve: Serve) -> None:
    async with serve(ha_listen_port=0) as harness:
        await harness.send(body=b"before")
        reader, _writer = await follow(harness, 0)
        store = harness.broker.service.store
        start, first = await receive(reader, store.max_physical_offset)
        assert (start, first) == (0, log_of(harness))
        await harness.send(body=b"after")
        start, rest = await receive(reader, store.max_physical_offset)
        assert start == len(first)
        assert first + rest == log_of(harness)


async def test_a_slave_goes_on_over_the_end_of_a_file(serve: Serve) -> None:
    async with serve(ha_listen_port=0, mapped_file_size_commit_log=65_536, ha_transfer_batch_size=2_000) as harness:
        for _ in range(5):
            await harness.send(body=b"x" * 30_000)
        store = harness.broker.service.store
        reader, _writer = await follow(harness, 17)
        _, received = await receive(reader, store.max_physical_offset)
        assert received == log_of(harness)[17:]
        assert len(received) > 2 * 65_536


async def test_half_messages_reach_a_slave_although_no_consumer_sees_them(serve: Serve) -> None:
    async with serve(ha_listen_port=0) as harness:
        reader, _writer = await follow(harness, 0)
        properties = "TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01k\x02"
        assert (await harness.send(properties=properties, sys_flag=4)).code == 0
        _, received = await receive(reader, harness.broker.service.store.max_physical_offset)
        assert received == log_of(harness)


async def test_an_idle_slave_hears_a_heartbeat_with_the_next_offset(serve: Serve) -> None:
    async with serve(ha_listen_port=0, ha_send_heartbeat_interval=100) as harness:
        await harness.send()
        end = harness.broker.service.store.max_physical_offset
        reader, _writer = await follow(harness, end)
        assert HEADER.unpack(await reader.readexactly(HEADER.size)) == (end, 0)


async def test_administrators_see_how_far_each_slave_is(serve: Serve) -> None:
    async with serve(ha_listen_port=0) as harness:
        await harness.send()
        end = harness.broker.service.store.max_physical_offset
        reader, writer = await follow(harness, 0)
        await receive(reader, end)
        writer.write(REPORT.pack(end - 5))
        while not (seen := (await status(harness))["haConnectionInfo"]) or seen[0]["slaveAckOffset"] == 0:
            await asyncio.sleep(0)
        assert seen[0]["slaveAckOffset"] == end - 5
        assert (seen[0]["diff"], seen[0]["transferFromWhere"], seen[0]["inSync"]) == (5, end, True)
        assert (await status(harness))["inSyncSlaveNums"] == 1
        writer.close()
        while (await status(harness))["haConnectionInfo"]:
            await asyncio.sleep(0)
        assert not harness.broker.service.slave_listener.slaves


async def test_a_slave_with_another_log_is_sent_away_and_the_log_says_why(serve: Serve, caplog: Any) -> None:
    async with serve(ha_listen_port=0) as harness:
        await harness.send()
        end = harness.broker.service.store.max_physical_offset
        reader, _ = await follow(harness, end + 1)
        assert await rest_of(reader) == b""
        assert "its log is another one" in caplog.text
        assert (await harness.send()).code == 0


async def test_who_reports_nothing_is_sent_away(serve: Serve, caplog: Any) -> None:
    async with serve(ha_listen_port=0, ha_housekeeping_interval=1_000) as harness:
        reader, writer = await connect(harness)
        writer.write(b"GET / H")
        assert await rest_of(reader) == b""
        assert "reported nothing for 1000 ms" in caplog.text


async def test_there_are_only_so_many_slaves(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(listener, "SLAVES_MAX", 1)

    async with serve(ha_listen_port=0) as harness:
        await harness.send()
        first, _writer = await follow(harness, 0)
        await receive(first, harness.broker.service.store.max_physical_offset)
        second, _ = await follow(harness, 0)
        assert await rest_of(second) == b""


async def test_silent_connections_take_no_slave_its_place(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(listener, "SLAVES_MAX", 2)
    monkeypatch.setattr(listener, "FIRST_REPORT_MS", 1_000)

    async with serve(ha_listen_port=0) as harness:
        await harness.send()
        silent = [await connect(harness) for _ in range(2)]
        slave, _writer = await follow(harness, 0)
        await receive(slave, harness.broker.service.store.max_physical_offset)
        assert await rest_of(silent[0][0]) == b""
        assert await rest_of(silent[1][0]) == b""  # in its time, although slaves may be silent for 20 s


async def test_without_slaves_no_send_reports_them(serve: Serve) -> None:
    async with serve(ha_listen_port=0) as harness:
        listening = list(harness.broker.service.store.on_arrived)
        reader, writer = await follow(harness, 0)
        await harness.send()
        await receive(reader, harness.broker.service.store.max_physical_offset)
        assert len(harness.broker.service.store.on_arrived) == len(listening) + 1
        writer.close()
        while harness.broker.service.store.on_arrived != listening:
            await asyncio.sleep(0)


async def join(harness: Any, offset: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Follow, and return when the master knows."""
    reader, writer = await follow(harness, offset)
    await until(lambda: harness.broker.service.slave_listener.slaves)
    return reader, writer


async def test_a_synchronous_master_answers_when_the_slave_has_the_message(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=60_000) as harness:
        reader, writer = await join(harness)
        sending = asyncio.ensure_future(harness.send())
        first = HEADER.unpack(await reader.readexactly(HEADER.size))
        await reader.readexactly(first[1])
        writer.write(REPORT.pack(first[1] - 1))
        while harness.broker.service.slave_listener.slaves[0].acknowledged != first[1] - 1:
            await asyncio.sleep(0)
        assert not sending.done()
        writer.write(REPORT.pack(first[1]))
        answer = await sending
        assert (answer.code, answer.remark) == (0, None)


async def test_a_send_whose_slave_says_nothing_is_answered_in_time_and_is_stored(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=50) as harness:
        await join(harness)
        answer = await harness.send()
        assert (answer.code, answer.ext_fields["queueOffset"]) == (12, "0")
        assert "slaveTimeout" in answer.remark
        assert (await harness.pull())[1]


async def test_a_slave_that_leaves_delays_no_send(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=500) as harness:
        reader, writer = await join(harness)
        sending = asyncio.ensure_future(harness.send())
        await reader.readexactly(HEADER.size)
        writer.close()
        assert (await sending).code == 12


async def test_a_synchronous_master_without_slaves_says_so_with_each_answer(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER") as harness:
        answer = await harness.send()
        assert (answer.code, answer.ext_fields["queueOffset"]) == (11, "0")
        assert "on the master alone" in answer.remark


async def test_send_backs_acks_and_ends_wait_for_slaves_as_sends_do(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER") as harness:
        half = decode_header(SendResponse, (await harness.send(properties=HALF, sys_flag=4)).ext_fields)
        await harness.send(body=b"popped")
        (message,) = await pop(harness)
        back = ConsumerSendBack(physical_offset=message.physical_offset, group="g", delay_level=1)
        for header in (back, ack_header(message), end_header(half)):
            answer = await harness.ask(header)
            assert (answer.code, "on the master alone" in answer.remark) == (14, True), header


async def test_as_many_slaves_as_in_sync_replicas_asks_for_must_have_it(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", in_sync_replicas=3) as harness:
        await join(harness)
        assert (await harness.send()).code == 11


async def test_with_both_waits_the_slave_is_sent_the_message_while_the_disk_syncs_it(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", flush_disk_type="SYNC_FLUSH") as harness:
        reader, writer = await join(harness)
        sending = asyncio.ensure_future(harness.send())
        _, size = HEADER.unpack(await reader.readexactly(HEADER.size))
        writer.write(REPORT.pack(size))
        assert (await sending).code == 0
        assert harness.broker.service.store.durable_offset == size


async def test_who_waits_when_the_broker_stops_is_answered(serve: Serve) -> None:
    told: list[Any] = []

    async with serve(broker_role="SYNC_MASTER", slave_timeout=60_000) as harness:
        await join(harness)
        store = harness.broker.service.store
        store.append(Draft("t", 0, b"x"))
        assert harness.broker.service.slave_listener.wait_replicated(store.max_physical_offset, told.append) is None
    assert told == [ReplicaAckResult.LATE]


async def test_a_proposal_that_was_settled_meanwhile_is_not_made_again() -> None:
    proposed: list[ToldSyncSet] = []

    async def propose(wanted: ToldSyncSet) -> ToldSyncSet:
        proposed.append(wanted)
        followed.tell_sync_set(ToldSyncSet(wanted.ids, wanted.epoch + 1))
        raise ConnectionFailed("controllers", "no answer")

    role = ControlledRole(
        broker_id=1,
        epoch=1,
        master_id=1,
        master_address="m:1",
        sync_set=ToldSyncSet(frozenset({1}), 7),
        propose=propose,
        changed=lambda: None,
    )
    followed = SlaveListener(memory_store(), FollowRules(4_096, are_waited_for=True), lambda: 0, role)
    sync_set = followed.sync_set
    assert sync_set is not None
    proposal = sync_set.decide({2: 0}, 0, 0, 0)
    assert proposal is not None
    await asyncio.wait_for(followed._propose(proposal, sync_set), 5)
    assert proposed == [ToldSyncSet(frozenset({1, 2}), 7)]
    assert sync_set.ids == {1, 2}
    assert sync_set.proposed is None


class Harness:
    """Two messages in a queue, a group, and slaves that have so much of the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *slaves: int, **group: Any) -> None:
        self.store = memory_store()
        self.size = self.store.append(Draft("t", 0, b"x")).size
        self.store.append(Draft("t", 0, b"x"))
        monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", self.size)
        groups = GroupConfigs(auto_create_enable=True, count_max=100)
        groups.update(GroupConfig(group="g", **group), 0)
        follow = [SlaveStatus("h:1", acknowledged, 0, True, 0, acknowledged) for acknowledged in slaves]
        self.readers = SlowReaders(self.store, groups, lambda: follow)

    def suggest(self, next_offset: int, group: str = "g") -> int:
        return self.readers.suggest("t", group, 0, next_offset)


def test_who_reads_what_is_old_is_sent_to_a_slave_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, 1_000)
    assert harness.suggest(1) == 1
    assert harness.suggest(2) == 0


def test_a_slave_that_has_not_got_there_yet_serves_no_client(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Harness(monkeypatch, 0).suggest(1) == 0
    assert Harness(monkeypatch, 0, 1).suggest(1) == 1


def test_without_slaves_all_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Harness(monkeypatch).suggest(1) == 0


def test_a_group_says_who_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(monkeypatch, 1_000, broker_id=3, which_broker_when_consume_slowly=2)
    assert (harness.suggest(1), harness.suggest(2), harness.suggest(9)) == (2, 3, 3)


def test_a_group_without_settings_stays_with_the_master(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Harness(monkeypatch, 1_000).suggest(1, group="other") == 0


async def test_a_pull_says_whom_to_ask_next_if_that_is_enabled(serve: Serve, monkeypatch: Any) -> None:
    monkeypatch.setattr(in_memory_check, "IN_MEMORY_SIZE", 0)
    for settings, suggested in ({"slave_read_enable": True}, "1"), ({}, "0"):
        async with serve(ha_listen_port=0, **settings) as harness:
            await harness.send()
            await harness.send()
            end = harness.broker.service.store.max_physical_offset
            _, writer = await asyncio.open_connection(*harness.broker.service.address.replication.split(":"))
            writer.write(REPORT.pack(end))
            await until(lambda: harness.broker.service.slave_listener.slaves)
            assert (await harness.pull(count_max=1))[0].ext_fields["suggestWhichBrokerId"] == suggested
            writer.close()


async def send_unconfirmed(harness: Any) -> tuple[asyncio.Future[Any], asyncio.StreamWriter, int]:
    """Follow, and return a send that waits for the slave's report of so many bytes."""
    reader, writer = await join(harness)
    sending = asyncio.ensure_future(harness.send(body=b"unconfirmed"))
    _, size = HEADER.unpack(await reader.readexactly(HEADER.size))
    return sending, writer, size


async def test_consumers_of_a_synchronous_master_read_what_its_slave_has(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=60_000) as harness:
        sending, writer, size = await send_unconfirmed(harness)
        assert (await harness.pull())[1] == []
        assert harness.broker.service.store.max_offset("t", 0) == 0
        writer.write(REPORT.pack(size))
        assert (await sending).code == 0
        assert [message.body for message in (await harness.pull())[1]] == [b"unconfirmed"]


async def test_consumers_read_what_no_slave_has_confirmed_in_time(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=300) as harness:
        sending, _writer, _ = await send_unconfirmed(harness)
        assert (await harness.pull())[1] == []
        assert (await sending).code == 12
        assert (await harness.pull())[1]


async def test_a_message_that_no_client_waits_for_is_read_when_the_slave_has_it(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=60_000) as harness:
        reader, writer = await join(harness)
        store = harness.broker.service.store
        end = store.append(Draft("t", 0, b"x")).end
        await receive(reader, end)
        assert store.max_offset("t", 0) == 0
        writer.write(REPORT.pack(end))
        while store.max_offset("t", 0) == 0:
            await asyncio.sleep(0)


async def test_a_slave_compares_what_consumers_may_not_read(serve: Serve) -> None:
    async with serve(broker_role="SYNC_MASTER", slave_timeout=60_000) as harness:
        sending, _writer, _ = await send_unconfirmed(harness)
        assert (await harness.ask(ViewMessage(physical_offset=0))).code == 1
        assert (await harness.ask(ViewMessage(physical_offset=0, for_slave=True))).code == 0
        sending.cancel()
