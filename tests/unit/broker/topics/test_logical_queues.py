"""The leaders of logical queues: who they are, and how they ask the brokers that have a part of a queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.topics import logical_queues
from orbitmq.broker.topics.logical_offsets import ItemRequest, LogicalQueue, Steps
from orbitmq.broker.topics.logical_queues import StaticTopics, ask_no_broker
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.errors import ConnectionFailed, Rejected
from orbitmq.model.static_topic import MappingItem, QueueMapping
from orbitmq.net.dispatch.handlers import LATER, Call, Reply
from orbitmq.net.loop import run
from orbitmq.wire.command import Command
from orbitmq.wire.headers import GetMaxOffset, OffsetResponse
from unit.broker.parts import FakePeer, call

OWN, OTHER = MappingItem(1, 3, "a", 10_000), MappingItem(0, 0, "b", 0)
MAPPING = QueueMapping(
    topic="t", broker_name="a", queue_count=3, epoch=1,
    queues={0: (OTHER._replace(generation=2),), 1: (OTHER, OWN), 2: (OWN, OTHER._replace(generation=2, logic_offset=20_000))},
)  # fmt: skip


def asked(queue_id: int, topic: str = "t") -> Call[Any]:
    return call(GetMaxOffset(topic=topic, queue_id=queue_id))


def static(**parts: Any) -> StaticTopics:
    return StaticTopics(StaticTopicTable([MAPPING]), broker_name="a", **parts)


def test_a_request_is_about_the_queue_that_its_broker_leads() -> None:
    assert static().queue_of(asked(1)) == LogicalQueue("t", 1, (OTHER, OWN))
    assert static().queue_of(asked(1, "plain")) is None


@each_case(0, 2, 3, -1)
def test_a_queue_that_another_broker_leads_is_refused(queue_id: int) -> None:
    with pytest.raises(Rejected, match=f"t-{queue_id} does not exit in request process of current broker a") as refused:
        static().queue_of(asked(queue_id))
    assert refused.value.code == 501


def test_any_queue_is_one_that_is_led_here() -> None:
    queue = static().queue_of(asked(-1), picks_one=True)
    assert queue is not None
    assert queue.queue_id == 1
    with pytest.raises(Rejected, match="t-0"):
        static().queue_of(asked(0), picks_one=True)
    nothing = StaticTopics(StaticTopicTable([QueueMapping(topic="t", broker_name="a", queue_count=1, epoch=1)]))
    with pytest.raises(Rejected, match="t--1"):
        nothing.queue_of(asked(-1), picks_one=True)


@each_case(("false", False), ("true", True), ("x", False))
def test_a_request_that_was_sent_on_is_about_a_queue_of_the_broker_itself(lo: str, is_logical: bool) -> None:
    request = Call(asked(1).header, Command(30, ext_fields={"lo": lo}), FakePeer(), 0)
    assert (static().queue_of(request) is not None) is is_logical


def test_a_request_is_rewritten_once() -> None:
    request = asked(1)
    request.rewrite = lambda reply: reply
    assert static().queue_of(request) is None


def steps(*brokers: str) -> Steps:
    """Ask one broker after the other for an offset, and add them up."""
    total = 0
    for name in brokers:
        item = OWN._replace(broker_name=name)
        reply = yield ItemRequest(item, 30, GetMaxOffset(topic="t", queue_id=3), OffsetResponse)
        if reply.header is None:
            return reply
        total += reply.header.offset  # type: ignore[attr-defined]
    return Reply(header=OffsetResponse(offset=total))


def local(header: Any) -> Reply:
    assert header.queue_id == 3
    return Reply(header=OffsetResponse(offset=1))


def refusing(header: Any) -> Reply:
    raise Rejected(17, "no topic")


def served(found: StaticTopics, work: Steps, own: Any = local) -> Reply:
    """Serve a request, and return its answer, whenever it comes."""

    async def harness() -> Reply:
        peer = FakePeer()
        request = call(GetMaxOffset(topic="t", queue_id=1), peer=peer)
        reply = found.serve(request, work, own)
        while reply is LATER and not peer.replies:
            await asyncio.sleep(0)
        await found.close()
        return peer.replies[0] if reply is LATER else reply

    return run(harness())


def test_queues_of_this_broker_are_asked_directly() -> None:
    assert served(static(), steps("a", "a")) == Reply(header=OffsetResponse(offset=2))
    assert served(static(), steps("a", "b"), refusing) == Reply(17, "no topic")


def test_queues_of_other_brokers_are_asked_over_the_network() -> None:
    heard: list[tuple[str, str, int]] = []

    async def ask(topic: str, broker_name: str, header: object, code: int) -> Command:
        heard.append((topic, broker_name, code))
        return Command(0, ext_fields={"offset": "40"})

    assert served(static(ask=ask), steps("a", "b", "a", "c")) == Reply(header=OffsetResponse(offset=82))
    assert heard == [("t", "b", 30), ("t", "c", 30)]


def test_a_refusal_of_another_broker_is_passed_on() -> None:
    async def ask(topic: str, broker_name: str, header: object, code: int) -> Command:
        return Command(22, remark="not found")

    assert served(static(ask=ask), steps("b")) == Reply(22, "not found")


def test_a_broker_that_cannot_be_asked_is_an_error() -> None:
    async def fail(topic: str, broker_name: str, header: object, code: int) -> Command:
        raise ConnectionFailed("b is gone")

    async def empty(topic: str, broker_name: str, header: object, code: int) -> Command:
        return Command(0)

    assert served(static(ask=fail), steps("b")) == Reply(1, "b is gone")
    assert served(static(ask=ask_no_broker), steps("b")).code == 1
    assert "offset" in str(served(static(ask=empty), steps("b")).remark)


def test_requests_that_wait_for_other_brokers_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logical_queues, "FORWARDS_MAX", 0)
    with pytest.raises(Rejected, match="wait for other brokers") as refused:
        static().serve(asked(1), steps("b"), local)
    assert refused.value.code == 2


def test_a_mapping_that_the_disk_does_not_take_is_not_there() -> None:
    def save(table: StaticTopicTable) -> None:
        raise OSError(28, "No space left on device")

    found = StaticTopics(StaticTopicTable(), save, broker_name="a")
    with pytest.raises(Rejected, match="No space left") as refused:
        found.update(MAPPING, 1, is_forced=False)
    assert refused.value.code == 14
    assert not found.mappings


def test_a_deleted_mapping_is_saved_once() -> None:
    saved: list[int] = []
    found = StaticTopics(StaticTopicTable([MAPPING]), lambda table: saved.append(len(table.all)), broker_name="a")
    found.delete("other", 1)
    found.delete("t", 1)
    assert saved == [0]
