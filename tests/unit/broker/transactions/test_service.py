from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.broker.monitoring.half_counts import parse_counts
from orbitmq.broker.transactions import service
from orbitmq.broker.transactions.service import TransactionChecks, TransactionService
from orbitmq.errors import StoreUnavailable
from orbitmq.model.group import Heartbeat
from orbitmq.model.topic import HALF_TOPIC, OP_TOPIC
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.headers import CheckTransactionState
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.messages.record import Record, parse_record

from ..parts import HOST, FakePeer
from .world import World


class Listener(FakePeer):
    """A producer that keeps the bodies, too."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def send_oneway(self, header: object, body: bytes = b"", *, code: int | None = None) -> None:
        super().send_oneway(header, body, code=code)
        self.bodies.append(body)


def asked_with(*peers: Peer, group: str = "p", times: int = 1) -> tuple[World, TransactionChecks]:
    members: GroupMembers[Peer] = GroupMembers()
    for number, peer in enumerate(peers):
        members.heartbeat(Heartbeat(client_id=f"c{number}", producer_groups=(group,)), HeartbeatSource(peer), 0)
    checks = TransactionChecks(members, host=HOST, broker_name="a")
    world = World()
    for number in range(times):
        world.prepare(b"%d" % number, UNIQ_KEY=f"K{number}")
    world.clock.advance(6_000)
    for renewed in world.check():
        checks.ask(renewed)
    return world, checks


def test_a_producer_gets_its_message_under_its_own_topic_and_where_the_half_is_now() -> None:
    peer = Listener()
    world, checks = asked_with(peer)
    (renewed,) = world.asked
    (header,) = peer.heard
    assert isinstance(header, CheckTransactionState)
    assert header.offset_message_id is not None
    assert parse_offset_message_id(header.offset_message_id) == (HOST, renewed.result.physical_offset)
    assert header == CheckTransactionState(
        topic="RMQ_SYS_TRANS_HALF_TOPIC",
        tran_state_table_offset=1,
        commit_log_offset=renewed.result.physical_offset,
        message_id="K0",
        transaction_id="K0",
        offset_message_id=header.offset_message_id,
        broker_name="a",
    )
    record = parse_record(peer.bodies[0])
    assert isinstance(record, Record)
    assert (record.topic, record.queue_id, bytes(record.body), record.flag) == ("t", 2, b"0", 7)
    assert (record.queue_offset, record.physical_offset) == (1, renewed.result.physical_offset)
    assert parse_properties(record.properties)["TRANSACTION_CHECK_TIMES"] == "1"
    assert (checks.sent_count, checks.unsent_count) == (1, 0)


def test_the_producers_of_a_group_are_asked_in_turn() -> None:
    peers = [FakePeer(), FakePeer(), FakePeer()]
    asked_with(*peers, times=7)
    assert sorted(len(peer.heard) for peer in peers) == [2, 2, 3]


def test_one_that_does_not_read_is_passed_over() -> None:
    full, fine = FakePeer(), FakePeer()
    full.room = 10
    asked_with(full, fine, times=4)
    assert (len(full.heard), len(fine.heard)) == (0, 4)


def test_a_group_without_producers_is_not_asked_and_that_is_counted() -> None:
    peer, full = FakePeer(), FakePeer()
    full.room = 0
    _, checks = asked_with(peer, group="another", times=3)
    assert (checks.sent_count, checks.unsent_count) == (0, 3)
    _, checks = asked_with(full)
    assert (checks.sent_count, checks.unsent_count) == (0, 1)


def make(world: World, path: Path, *, check_ms: int = 30_000, op_ms: int = 3_000) -> TransactionService:
    return TransactionService(
        world.transactions,
        TransactionChecks(GroupMembers(), host=HOST, broker_name="a"),
        path / "transactionMetrics",
        check_interval_ms=check_ms,
        op_interval_ms=op_ms,
        clock=world.clock,
        monotonic=world.clock,
    )


async def test_op_messages_are_written_and_producers_asked_when_their_intervals_are_over(tmp_path: Path) -> None:
    world = World()
    running = make(world, tmp_path)
    world.end(world.prepare())
    world.prepare(b"open")
    await running._do_due()
    assert world.bodies(OP_TOPIC, 0) == []
    world.clock.advance(3_000)
    await running._do_due()
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert len(world.records(HALF_TOPIC, 0)) == 2
    world.clock.advance(27_000)
    await running._do_due()
    assert len(world.records(HALF_TOPIC, 0)) == 3
    assert world.transactions.half_done == 2


async def test_counts_are_kept_from_time_to_time_and_at_the_end(tmp_path: Path, world: World) -> None:
    running, path = make(world, tmp_path), tmp_path / "transactionMetrics"
    world.transactions.counts.prepared("t", 5)
    await running._do_due()
    assert not path.exists()
    world.clock.advance(3_000)
    await running._do_due()
    assert parse_counts(path.read_bytes())[0] == {"t": 1}
    world.transactions.counts.prepared("t", 6)
    world.clock.advance(3_000)
    running.stop()
    world.store.close()
    running.save()
    assert parse_counts(path.read_bytes())[0] == {"t": 2}
    written = path.stat().st_mtime_ns
    running.save()
    assert path.stat().st_mtime_ns == written


def test_what_an_orderly_stop_has_said_needs_no_second_look(tmp_path: Path, world: World) -> None:
    running = make(world, tmp_path)
    world.end(world.prepare())
    running.stop()
    world.store.close()
    running.save()
    assert world.offsets.query("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 1
    world.open()
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert not world.transactions.are_ops_waiting


async def test_a_store_that_takes_nothing_is_tried_again_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service, "_TICK_MS_MIN", 0)

    world = World()
    running = make(world, tmp_path, op_ms=0)
    world.end(world.prepare())
    append, tries = world.store.append, 0
    done = asyncio.Event()

    def refuse(draft: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries > 3:
            done.set()
            return append(draft)
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(world.store, "append", refuse)
    task = asyncio.create_task(running.run())
    await done.wait()
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert world.bodies(OP_TOPIC, 0) == [b"0,"]
    assert [record.message for record in caplog.records] == ["transactions cannot go on, it is tried again"]


def test_a_stop_that_cannot_write_op_messages_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    running = make(world, tmp_path)
    world.end(world.prepare())
    world.store.close()
    running.stop()
    world.open()
    assert world.open_bodies() == []
