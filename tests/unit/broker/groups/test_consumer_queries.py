"""Questions to clients: to one, to all, and within a limit."""

from __future__ import annotations

from typing import Any, cast

import pytest

from cases import each_case
from orbitmq.broker.groups import consumer_queries
from orbitmq.broker.groups.consumer_queries import ConsumerQueries
from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.codes import Version
from orbitmq.errors import ConnectionFailed, Rejected, RequestTimeout
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.net.dispatch.reply import Reply, encode_reply_parts
from orbitmq.wire.command import Command, SerializeType
from unit.broker.parts import FakePeer

ASKED = Command(307)


def group_of(*clients: str, version: int = Version.V5_3_3) -> tuple[ConsumerQueries, list[FakePeer]]:
    members: GroupMembers[Any] = GroupMembers()
    peers = [FakePeer() for _ in clients]
    for client, peer in zip(clients, peers, strict=True):
        beat = Heartbeat(client_id=client, consumers=(ConsumerInfo(group="g"),))
        members.heartbeat(beat, HeartbeatSource(peer, "JAVA", version), 0)
    return ConsumerQueries(members), peers


def test_one_clients_answer_comes_back_as_it_is() -> None:
    asked, (peer, other) = group_of("c1", "c2")
    replies: list[Reply] = []
    asked.ask("g", "c1", ASKED, replies.append)
    assert other.asked == []
    ((command, waiter),) = peer.asked
    assert command is ASKED
    assert asked.count == 1
    waiter(Command(1, remark="no", body=b"x"))
    assert replies == [Reply(1, "no", body=b"x")]
    assert asked.count == 0


@each_case(Command(2**15), Command(-1), Command(1, remark=cast(str, 5)))
def test_an_answer_that_an_administrator_could_not_be_given_is_an_error(answer: Command) -> None:
    asked, (peer,) = group_of("c1")
    replies: list[Reply] = []
    asked.ask("g", "c1", ASKED, replies.append)
    peer.asked[0][1](answer)
    binary = Command(307, serialize_type=SerializeType.ROCKETMQ)
    assert [reply.code for reply in replies] == [1]
    assert encode_reply_parts(binary, replies[0])


@each_case((RequestTimeout("late"), 207), (ConnectionFailed("gone"), 1))
def test_a_client_that_gives_no_answer_is_named(error: Any, code: int) -> None:
    asked, (peer,) = group_of("c1")
    replies: list[Reply] = []
    asked.ask("g", "c1", ASKED, replies.append)
    peer.asked[0][1](error)
    ((reply),) = replies
    assert reply.code == code
    assert "<g> <c1>" in (reply.remark or "")


@each_case("c2", None)
def test_a_client_that_is_not_there_is_said_to_be_offline(client: str | None) -> None:
    asked, _ = group_of("c1")
    with pytest.raises(Rejected, match=f"<g> <{client or 'null'}> not online"):
        asked.ask("g", client, ASKED, print)
    with pytest.raises(Rejected, match="not online"):
        asked.ask("nobody", "c1", ASKED, print)


def test_an_old_client_is_not_asked() -> None:
    asked, (peer,) = group_of("c1", version=5)
    with pytest.raises(Rejected, match="too old"):
        asked.ask("g", "c1", ASKED, print)
    with pytest.raises(Rejected, match="does not support"):
        asked.ask_all("g", None, ASKED, print)
    with pytest.raises(Rejected, match="does not support"):
        asked.ask_all("g", "c1", ASKED, print)
    asked.ask_all("g", "c2", ASKED, lambda _: None)
    assert (peer.asked, asked.count) == ([], 0)


def test_all_are_asked_and_the_answer_waits_for_the_last_one() -> None:
    asked, peers = group_of("c1", "c2", "c3", "c4")
    found: list[Any] = []
    asked.ask_all("g", "", ASKED, found.append)
    peers[2].asked[0][1](Command(0, body=b"3"))
    peers[0].asked[0][1](RequestTimeout("late"))
    peers[3].asked[0][1](Command(1, remark="I will not say"))
    assert found == []
    peers[1].asked[0][1](Command(0, body=b"2"))
    assert [{client: answer.body for client, answer in answers.items()} for answers in found] == [
        {"c3": b"3", "c2": b"2"}
    ]
    assert asked.count == 0


def test_one_of_all_may_be_meant_and_none_is_an_answer_too() -> None:
    asked, peers = group_of("c1", "c2")
    found: list[Any] = []
    asked.ask_all("g", "c2", ASKED, found.append)
    assert [len(peer.asked) for peer in peers] == [0, 1]
    asked.ask_all("g", "c9", ASKED, found.append)
    assert found == [{}]
    asked.ask_all("g", " ", ASKED, found.append)
    assert [len(peer.asked) for peer in peers] == [1, 2]
    with pytest.raises(Rejected, match="No Any Consumer online"):
        asked.ask_all("nobody", None, ASKED, print)


def test_questions_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_queries, "COUNT_MAX", 2)
    asked, (peer, _) = group_of("c1", "c2")
    asked.ask_all("g", None, ASKED, lambda _: None)
    with pytest.raises(Rejected, match="2 questions wait"):
        asked.ask("g", "c1", ASKED, print)
    peer.asked[0][1](Command(0))
    asked.ask("g", "c1", ASKED, lambda _: None)
