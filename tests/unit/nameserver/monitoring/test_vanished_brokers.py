"""Claims about what is missed: brokers that left without a good-bye, topics that have no route."""

from __future__ import annotations

import pytest

from orbitmq.nameserver.monitoring.unknown_topics import ILLEGAL, TOPICS_MAX, UnknownTopics
from orbitmq.nameserver.monitoring.vanished_brokers import BROKERS_MAX, VanishedBrokers
from orbitmq.nameserver.routing.events import Cause, Change, ChangeKind, Trigger


def change(kind: ChangeKind, cause: Cause, at_ms: int = 0, name: str = "a", broker_id: int = 0) -> Change:
    trigger = Trigger(cause, at_ms)
    return Change(kind=kind, trigger=trigger, cluster="c", broker_name=name, broker_id=broker_id, address="h:1")


def noted(*changes: Change) -> VanishedBrokers:
    brokers = VanishedBrokers()
    for each in changes:
        brokers.note(each)
    return brokers


@pytest.mark.parametrize("cause", Cause)
def test_who_breaks_off_or_falls_silent_has_vanished_and_who_says_good_bye_has_not(cause):
    found = noted(change(ChangeKind.BROKER_LEFT, cause)).since(0)
    is_planned = cause not in (Cause.CONNECTION_CLOSED, Cause.LEASE_EXPIRED)
    assert found == ([] if is_planned else [f"c/a:0 at h:1 ({cause})"])


@pytest.mark.parametrize("kind", [ChangeKind.BROKER_JOINED, ChangeKind.BROKER_UPDATED])
def test_a_broker_that_is_back_is_missed_no_more(kind):
    left = change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED)
    back = change(kind, Cause.REGISTRATION)
    assert noted(left, back).since(0) == []
    assert len(noted(left, back, left).since(0)) == 1


def test_each_member_of_a_group_is_missed_by_itself():
    left = [change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, broker_id=broker_id) for broker_id in (0, 1)]
    back = change(ChangeKind.BROKER_JOINED, Cause.REGISTRATION, broker_id=1)
    assert noted(*left, back).since(0) == ["c/a:0 at h:1 (lease expired)"]


def test_a_change_of_topics_says_nothing_of_who_is_there():
    left = change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED)
    topics = change(ChangeKind.TOPICS_CHANGED, Cause.TOPIC_DELETION)
    assert len(noted(left, topics).since(0)) == 1


@pytest.mark.parametrize(("since_ms", "count"), [(6, 0), (5, 1), (0, 1)])
def test_what_was_long_ago_is_not_told(since_ms, count):
    assert len(noted(change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, at_ms=5)).since(since_ms)) == count


def test_a_thousand_are_remembered_the_last_ones():
    left = [change(ChangeKind.BROKER_LEFT, Cause.LEASE_EXPIRED, name=f"b{number}") for number in range(BROKERS_MAX + 1)]
    found = noted(*left).since(0)
    assert len(found) == BROKERS_MAX
    assert found[0].startswith("c/b1:0 ")


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
