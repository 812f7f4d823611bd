"""Claims about changes as values."""

from __future__ import annotations

from orbitmq.nameserver.routing.events import Cause, Change, ChangeKind, QueueChange, QueueChanges, Trigger

from ..support import queue


def test_columns_give_back_what_was_put_in():
    changes = [QueueChange("t", None, queue("a")), QueueChange("u", queue("a"), None)]
    columns = QueueChanges.of(changes)
    assert (list(columns), len(columns), columns.topics) == (changes, 2, ("t", "u"))
    assert QueueChanges.of([]) == QueueChanges()
    assert len(QueueChanges()) == 0


def test_a_change_of_queues_affects_these_and_any_other_the_topics_of_the_broker():
    trigger = Trigger(Cause.REGISTRATION, 1)
    queues = QueueChanges.of([QueueChange("t", None, queue("a"))])
    fields = {"trigger": trigger, "cluster": "c", "broker_name": "a"}
    assert Change(kind=ChangeKind.TOPICS_CHANGED, queues=queues, **fields).affected_topics == ("t",)
    assert Change(kind=ChangeKind.BROKER_LEFT, topics=("u", "v"), **fields).affected_topics == ("u", "v")
    assert trigger.remote == ""
