"""The route history, lost brokers and topics that have no route."""

from __future__ import annotations

from typing import Any

import orjson

from cases import each_case
from orbitmq.model.route import QueueData
from orbitmq.nameserver.monitoring import route_history
from orbitmq.nameserver.monitoring.route_history import (
    BROKERS_MAX,
    LostBroker,
    LostBrokers,
    RouteHistory,
    describe,
)
from orbitmq.nameserver.monitoring.unknown_topics import ILLEGAL, TOPICS_MAX, UnknownTopics
from orbitmq.nameserver.routing.events import Cause, ChangeKind, QueueChange, QueueChanges, RouteChange, Trigger
from orbitmq.wire.slices import finish


def queue(perm: int = 6) -> QueueData:
    return QueueData(broker_name="a", read_queue_count=4, write_queue_count=4, perm=perm)


def topics_changed(at_ms: int, *queues: QueueChange, cause: Cause = Cause.REGISTRATION) -> RouteChange:
    trigger = Trigger(cause, at_ms, "10.0.0.1:5000")
    changed = QueueChanges.of(queues)
    return RouteChange(
        kind=ChangeKind.TOPICS_CHANGED,
        trigger=trigger,
        cluster="c",
        broker_name="a",
        queues=changed,
        topics=changed.topics,
    )


def broker(
    kind: ChangeKind, at_ms: int, address: str = "a:1", previous: str | None = None, topics: tuple[str, ...] = ()
) -> RouteChange:
    return RouteChange(
        kind=kind, trigger=Trigger(Cause.CONNECTION_CLOSED, at_ms), cluster="c", broker_name="a", broker_id=0,
        address=address, previous_address=previous, topics=topics,
    )  # fmt: skip


def history_of(*changes: RouteChange, weight_max: int = 1000) -> RouteHistory:
    history = RouteHistory(weight_max)
    for change in changes:
        history.add(change)
    return history


def test_the_journal_answers_who_removed_a_topics_route_when_and_why():
    history = history_of(
        topics_changed(1, QueueChange("orders", None, queue()), QueueChange("other", None, queue())),
        topics_changed(2, QueueChange("orders", queue(), None), cause=Cause.TOPIC_DELETION),
        broker(ChangeKind.BROKER_LEFT, 3, topics=("other",)),
    )
    (removed, added) = history.events(topic="orders")
    assert (removed["cause"], removed["remote"], removed["at"]) == ("topic deletion", "10.0.0.1:5000", 2)
    assert removed["topics"] == [{"topic": "orders", "before": added["topics"][0]["after"], "after": None}]
    assert [event["kind"] for event in history.events(topic="other")] == ["broker left", "topics changed"]
    assert len(history.events(broker_name="a")) == 3
    assert history.events(broker_name="b") == []
    assert [event["number"] for event in history.events(since_ms=2)] == [3, 2]
    assert [event["number"] for event in history.events(count_max=1)] == [3]


def test_the_oldest_changes_are_forgotten_and_the_journal_says_so():
    history = history_of(*(topics_changed(at, QueueChange("t", None, queue())) for at in range(1, 6)), weight_max=4)
    assert [event["at"] for event in history.events()] == [5, 4]
    assert history.reaches_back_to(4)
    assert not history.reaches_back_to(3)
    assert difference_of(history, 3)["complete"] is False


def test_one_change_larger_than_the_journal_leaves_it_empty():
    history = history_of(topics_changed(1, *(QueueChange(str(n), None, queue()) for n in range(9))), weight_max=4)
    assert history.events() == []
    assert not history.reaches_back_to(1)


def difference_of(history: RouteHistory, at_ms: int) -> Any:
    return orjson.loads(finish(history.difference(at_ms)))


def test_the_difference_is_net():
    history = history_of(
        broker(ChangeKind.BROKER_JOINED, 1),
        topics_changed(1, QueueChange("kept", None, queue())),
        topics_changed(5, QueueChange("wiped", queue(6), queue(4)), QueueChange("back", queue(6), queue(4))),
        topics_changed(6, QueueChange("back", queue(4), queue(6))),
        broker(ChangeKind.BROKER_LEFT, 7),
        broker(ChangeKind.BROKER_JOINED, 8, address="a:2"),
    )
    difference = difference_of(history, 5)
    assert difference["complete"] is True
    assert [topic["topic"] for topic in difference["topics"]] == ["wiped"]
    assert [(change["before"], change["after"]) for change in difference["brokers"]] == [("a:1", "a:2")]
    assert difference_of(history, 9) == {"at": 9, "complete": True, "brokers": [], "topics": []}


def test_of_the_time_before_its_start_a_name_server_knows_nothing():
    history = RouteHistory(100, began_at_ms=5)
    assert (history.reaches_back_to(4), history.reaches_back_to(5)) == (False, True)


def test_a_change_is_one_line_with_its_cause():
    changes = [QueueChange("t", None, queue()), QueueChange("u", queue(), None), QueueChange("v", queue(), queue(4))]
    line = describe(topics_changed(1, *changes, QueueChange("w", queue(), queue(4))))
    assert line == (
        "topics changed: c/a, 1 topics added, 1 removed, 2 changed (t, u, v …); registration by 10.0.0.1:5000"
    )
    line = describe(broker(ChangeKind.BROKER_UPDATED, 1, "a:2", "a:1"))
    assert line == "broker updated: c/a:0 at a:2 instead of a:1; connection closed"


def test_two_hundred_events_are_listed_unless_another_number_is_asked_for():
    history = history_of(*(topics_changed(at, QueueChange("t", None, queue())) for at in range(300)))
    assert [len(history.events(**asked)) for asked in ({}, {"count_max": 250})] == [200, 250]


def test_of_many_changes_a_difference_shows_the_last_ones_in_slices_and_says_so(monkeypatch):
    monkeypatch.setattr(route_history, "DIFFERENCE_MAX", 10)
    monkeypatch.setattr(route_history, "SLICE_CHANGES", 3)
    history = RouteHistory(1_000)
    for number in range(20):
        history.add(topics_changed(number, QueueChange(f"t{number:02}", None, queue())))
    assert sum(1 for _ in history.difference(0)) > 2
    found = difference_of(history, 0)
    assert found["complete"] is False
    assert [topic["topic"] for topic in found["topics"]] == [f"t{number:02}" for number in range(14, 20)]
    assert difference_of(history, 18)["complete"] is True


def test_a_difference_of_as_many_changes_as_are_looked_at_is_complete(monkeypatch):
    monkeypatch.setattr(route_history, "DIFFERENCE_MAX", 10)
    history = history_of(*(topics_changed(at, QueueChange(f"t{at}", None, queue())) for at in range(20)))
    assert [difference_of(history, at)["complete"] for at in (15, 14)] == [True, False]


def test_a_difference_looks_at_no_more_in_a_slice_than_it_may(monkeypatch):
    monkeypatch.setattr(route_history, "SLICE_CHANGES", 4)
    history = history_of(*(topics_changed(at, QueueChange(f"t{at}", None, queue())) for at in range(12)))
    # Three changes of two each go beyond four, and four topics are a part of the document.
    assert sum(1 for _ in history.difference(0)) == 12 // 3 + 12 // 4 + 2


def test_a_difference_looks_at_one_large_change_in_slices(monkeypatch):
    monkeypatch.setattr(route_history, "SLICE_CHANGES", 4)
    changes = [QueueChange(f"t{number:02}", None, queue()) for number in range(20)]
    assert sum(1 for _ in history_of(topics_changed(1, *changes)).difference(0)) == 20 // 5 + 20 // 4 + 2


def test_a_change_of_a_whole_group_is_no_difference_of_a_broker():
    mappings = RouteChange(
        kind=ChangeKind.BROKER_UPDATED, trigger=Trigger(Cause.UNREGISTRATION, 2), cluster="c", broker_name="a"
    )
    history = history_of(broker(ChangeKind.BROKER_JOINED, 1), mappings)
    assert [found["brokerId"] for found in difference_of(history, 0)["brokers"]] == [0]


def test_a_journal_begins_immediately_and_lists_what_happened_then():
    history = history_of(topics_changed(0, QueueChange("t", None, queue())))
    assert history.reaches_back_to(0)
    assert [event["number"] for event in history.events()] == [1]


def test_an_address_that_was_another_one_is_told_and_no_other():
    joined = broker(ChangeKind.BROKER_JOINED, 1, "a:1")
    same = broker(ChangeKind.BROKER_UPDATED, 1, "a:1", "a:1")
    assert describe(joined) == "broker joined: c/a:0 at a:1; connection closed"
    assert describe(same) == "broker updated: c/a:0 at a:1; connection closed"


def change(kind: ChangeKind, cause: Cause, at_ms: int = 0, name: str = "a", broker_id: int = 0) -> RouteChange:
    trigger = Trigger(cause, at_ms)
    return RouteChange(kind=kind, trigger=trigger, cluster="c", broker_name=name, broker_id=broker_id, address="h:1")


def noted(*changes: RouteChange) -> LostBrokers:
    brokers = LostBrokers()
    for each in changes:
        brokers.note(each)
    return brokers


@each_case(*Cause)
def test_who_breaks_off_or_falls_silent_has_vanished_and_who_says_good_bye_has_not(cause):
    found = noted(change(ChangeKind.BROKER_LEFT, cause)).since(0)
    is_planned = cause not in (Cause.CONNECTION_CLOSED, Cause.LEASE_EXPIRED)
    assert found == ([] if is_planned else [LostBroker("c/a:0", f"c/a:0 at h:1 ({cause}, 1970-01-01T00:00:00Z)", 0)])


@each_case(ChangeKind.BROKER_JOINED, ChangeKind.BROKER_UPDATED)
def test_a_broker_that_is_back_is_missed_no_more(kind):
    left = change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED)
    back = change(kind, Cause.REGISTRATION)
    assert noted(left, back).since(0) == []
    assert len(noted(left, back, left).since(0)) == 1


def test_each_member_of_a_group_is_missed_by_itself():
    left = [change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, broker_id=broker_id) for broker_id in (0, 1)]
    back = change(ChangeKind.BROKER_JOINED, Cause.REGISTRATION, broker_id=1)
    assert [broker.text for broker in noted(*left, back).since(0)] == [
        "c/a:0 at h:1 (lease expired, 1970-01-01T00:00:00Z)"
    ]


def test_a_change_of_topics_says_nothing_of_who_is_there():
    left = change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED)
    topics = change(ChangeKind.TOPICS_CHANGED, Cause.TOPIC_DELETION)
    assert len(noted(left, topics).since(0)) == 1


@each_case((6, 0), (5, 1), (0, 1))
def test_what_was_long_ago_is_not_told(since_ms, count):
    assert len(noted(change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, at_ms=5)).since(since_ms)) == count


def test_a_thousand_are_remembered_the_last_ones():
    left = [change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, name=f"b{number}") for number in range(BROKERS_MAX + 1)]
    found = noted(*left).since(0)
    assert len(found) == BROKERS_MAX
    assert found[0].name == "c/b1:0"


def test_the_most_wanted_come_first_with_who_asked_last():
    missing = UnknownTopics()
    for number, topic in enumerate(["a", "b", "a"]):
        missing.note(topic, number, f"h:{number}")
    assert missing.most_wanted(0, 10) == [("a", 2, 2, "h:2"), ("b", 1, 1, "h:1")]
    assert missing.most_wanted(2, 10) == [("a", 2, 2, "h:2")]
    assert missing.most_wanted(0, 1) == [("a", 2, 2, "h:2")]


def test_a_hundred_are_remembered_and_the_one_asked_for_longest_ago_goes():
    missing = UnknownTopics()
    for number in range(TOPICS_MAX):
        missing.note(f"t{number}", number, "h:1")
    missing.note("t0", TOPICS_MAX, "h:1")
    missing.note("one-more", TOPICS_MAX, "h:1")
    found = {topic for topic, *_ in missing.most_wanted(0, 1_000)}
    assert len(found) == TOPICS_MAX
    assert "t0" in found
    assert "t1" not in found


def test_names_that_no_topic_may_have_are_one():
    missing = UnknownTopics()
    for topic in ("\x1b[31m", "a b", "", "x" * 300, "../etc"):
        missing.note(topic, 0, "h:1")
    assert missing.most_wanted(0, 10) == [(ILLEGAL, 5, 0, "h:1")]
