from __future__ import annotations

from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.broker.transactions.checks import TransactionChecks
from orbitmq.model.group import Heartbeat
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
