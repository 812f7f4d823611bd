from __future__ import annotations

from dataclasses import replace

import pytest

from cases import each_case
from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.broker.sending.reply_pushes import ReplyPushes
from orbitmq.errors import ConnectionFailed, Rejected
from orbitmq.model.group import Heartbeat
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PushReply

from ..parts import FakePeer

HEADER = PushReply(
    producer_group="p", topic="c_REPLY_TOPIC", default_topic="TBW102", default_topic_queue_nums=4, queue_id=0, sys_flag=0,
    born_at_ms=1, flag=0, properties="", born_host="127.0.0.1:1", store_host="127.0.0.1:2", stored_at_ms=1,
)  # fmt: skip


class Harness:
    """Pushes to clients that confirm nothing by themselves."""

    def __init__(self, *client_ids: str, count_max: int = 100, size_max: int = 1_000) -> None:
        self.members: GroupMembers[Peer] = GroupMembers()
        self.peers = {client_id: FakePeer() for client_id in client_ids}
        for client_id, peer in self.peers.items():
            self.members.heartbeat(Heartbeat(client_id=client_id, producer_groups=("p",)), HeartbeatSource(peer), 0)
        self.pushes = ReplyPushes(self.members, count_max=count_max, size_max=size_max)
        self.told: list[str | None] = []

    def push(self, client_id: str, body: bytes = b"", header: PushReply = HEADER) -> None:
        self.pushes.push(client_id, header, body, self.told.append)


def test_a_reply_is_done_when_its_client_has_confirmed_it() -> None:
    harness = Harness("c")
    harness.push("c", b"yes")
    ((command, answer),) = harness.peers["c"].asked
    assert (command.code, command.body, harness.told, harness.pushes.count) == (326, b"yes", [], 1)
    answer(Command(0))
    assert (harness.told, harness.pushes.count, harness.pushes.size) == ([None], 0, 0)
    assert (harness.pushes.confirmed_count, harness.pushes.failed_count) == (1, 0)


@each_case(Command(1, remark="process reply message fail"), ConnectionFailed("it left: fail"))
def test_a_client_that_refuses_or_leaves_makes_the_reply_fail_and_frees_its_place(
    answer: Command | ConnectionFailed,
) -> None:
    harness = Harness("c")
    harness.push("c", b"yes")
    harness.peers["c"].asked[0][1](answer)
    (remark,) = harness.told
    assert remark is not None
    assert remark.startswith("push reply message to c fail: ")
    assert remark.removesuffix(")").endswith("fail")
    assert (harness.pushes.count, harness.pushes.size, harness.pushes.failed_count) == (0, 0, 1)


def test_a_client_that_is_not_there_is_told_immediately_and_counted() -> None:
    harness = Harness()
    harness.push("gone")
    assert harness.told == ["push reply message fail, channel of <gone> not found."]
    assert (harness.pushes.count, harness.pushes.failed_count) == (0, 1)


def test_one_client_may_hold_a_quarter_of_the_replies_and_the_others_go_on() -> None:
    harness = Harness("slow", "other", count_max=8)
    harness.push("slow")
    harness.push("slow")
    with pytest.raises(Rejected, match="2 replies of 0 bytes wait") as refused:
        harness.push("slow")
    assert refused.value.code == 2
    harness.push("other")
    harness.peers["slow"].asked[0][1](Command(0))
    harness.push("slow")
    assert (harness.pushes.count, len(harness.peers["slow"].asked)) == (3, 3)
    with pytest.raises(Rejected):
        harness.push("slow")


def test_all_clients_together_stay_within_the_count() -> None:
    names = [f"c{number}" for number in range(5)]
    harness = Harness(*names, count_max=4)
    for name in names[:4]:
        harness.push(name)
    with pytest.raises(Rejected, match="replyPushesMax"):
        harness.push(names[4])
    assert harness.peers[names[4]].asked == []
    assert (harness.pushes.over_count, harness.pushes.over_size) == (1, 0)


def test_bytes_of_bodies_and_properties_are_bounded_but_one_reply_is_always_let_through() -> None:
    harness = Harness("c", "d", size_max=400)
    harness.push("c", bytes(2_000))
    with pytest.raises(Rejected):
        harness.push("d", b"x")
    harness.peers["c"].asked[0][1](Command(0))
    harness.push("c", bytes(60), replace(HEADER, properties="A\x01" + "b" * 37 + "\x02"))
    assert harness.pushes.size == 100
    with pytest.raises(Rejected):
        harness.push("c", b"x")
    harness.push("d", bytes(100))
    assert (harness.pushes.count, harness.pushes.size) == (2, 200)
    assert (harness.pushes.over_count, harness.pushes.over_size) == (0, 2)
