"""The facts for lists of topics and groups, from two looks."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.admin.groups import GroupStatus
from orbitmq.dashboard.list_facts import list_facts
from orbitmq.doctor import Snapshot
from orbitmq.doctor.snapshot import GroupFacts
from orbitmq.model.route import MessageQueue, QueueData, TopicRoute
from orbitmq.wire.bodies.topics import QueueStats

QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0)
STATUS = GroupStatus(group="billing", settings={}, subscriptions={})
ROUTE = TopicRoute(
    queues=tuple(QueueData(broker_name=name, read_queue_count=1, write_queue_count=1, perm=6) for name in "ab"),
    brokers=(),
)


def look(taken_at_ms: int, end: int, committed: int, delays: dict[MessageQueue, int] | None = None) -> Snapshot:
    return Snapshot(
        taken_at_ms=taken_at_ms,
        routes={"orders": ROUTE},
        queues={QUEUE: QueueStats(0, end, 5), OTHER: QueueStats(0, 0, 0)},
        groups={"billing": GroupFacts(status=STATUS, delays=delays or {})},
        committed={"billing": {QUEUE: committed}},
    )


FIRST = look(10_000, 100, 20)
SECOND = look(20_000, 150, 40, {QUEUE: 7_000})


def test_rates_are_what_grew_between_two_looks() -> None:
    found = list_facts(SECOND, FIRST)
    topic, group = found.topics["orders"], found.groups["billing"]
    assert (topic.in_per_s, topic.out_per_s, topic.groups, topic.oldest_unread_ms) == (5.0, 2.0, 1, 7_000)
    assert (group.lag, group.out_per_s, group.oldest_unread_ms, group.members) == (110, 2.0, 7_000, 0)


def test_a_first_look_knows_no_rates_and_no_age_that_was_not_told() -> None:
    found = list_facts(FIRST, None)
    topic, group = found.topics["orders"], found.groups["billing"]
    assert (topic.messages, topic.in_per_s, topic.out_per_s, topic.oldest_unread_ms) == (100, None, None, None)
    assert (group.lag, group.out_per_s, group.oldest_unread_ms) == (80, None, None)


def test_nothing_is_known_of_a_topic_while_a_broker_that_had_a_part_of_it_is_lost() -> None:
    alone = TopicRoute(queues=ROUTE.queues[:1], brokers=())
    bills = {MessageQueue("bills", "a", 0): QueueStats(0, 7, 5)}
    whole = replace(FIRST, routes={"orders": ROUTE, "bills": alone, "gone": ROUTE}, queues={**FIRST.queues, **bills})
    lost = replace(
        SECOND, routes={"orders": alone, "bills": alone}, queues={QUEUE: SECOND.queues[QUEUE], **bills}, silent=["b"]
    )
    seen = list_facts(lost, whole, list_facts(whole, None))
    later = list_facts(replace(lost, taken_at_ms=30_000), lost, seen)
    forgotten = list_facts(replace(lost, taken_at_ms=40_000, silent=[]), lost, later)
    for found in (seen, later):
        assert (set(found.topics["orders"]), set(found.topics["gone"])) == ({None}, {None})
        assert found.topics["bills"].in_per_s == 0
    assert (forgotten.topics["orders"].in_per_s, "gone" in forgotten.topics) == (0, False)


def test_of_no_topic_anything_is_known_while_a_lost_broker_may_have_had_a_part_of_each() -> None:
    """The dashboard was started after the loss."""
    alone = TopicRoute(queues=ROUTE.queues[:1], brokers=())
    lost = replace(SECOND, routes={"orders": alone}, queues={QUEUE: SECOND.queues[QUEUE]}, silent=["b"])
    assert set(list_facts(lost, replace(lost, taken_at_ms=10_000)).topics["orders"]) == {None}


def test_nothing_is_known_of_a_topic_on_a_silent_broker() -> None:
    found = list_facts(replace(SECOND, silent=["b"]), FIRST)
    assert set(found.topics["orders"]) == {None}
    assert found.groups["billing"].lag is None
