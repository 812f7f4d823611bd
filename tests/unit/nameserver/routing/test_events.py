"""Claims about registrations and changes as values."""

from __future__ import annotations

from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing.events import Cause, ChangeKind, QueueChange, QueueChanges, RouteChange, Trigger
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses, Registration

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
    assert RouteChange(kind=ChangeKind.TOPICS_CHANGED, queues=queues, **fields).affected_topics == ("t",)
    assert RouteChange(kind=ChangeKind.BROKER_LEFT, topics=("u", "v"), **fields).affected_topics == ("u", "v")
    assert trigger.remote == ""


def test_a_registration_without_more_is_one_of_a_broker_before_5_0_with_javas_lease():
    plain = Registration(key=BrokerKey("c", "a", "a:1"), broker_id=0)
    assert (plain.lease_ms, plain.acting_master, plain.zone_name, plain.ha_address) == (120_000, None, None, "")
    assert (plain.data_version, plain.queues, plain.filter_servers) == (DataVersion(), {}, None)
    assert plain.queue_mappings == {}


def test_without_a_master_nothing_is_told():
    assert MasterAddresses() == (None, None)
