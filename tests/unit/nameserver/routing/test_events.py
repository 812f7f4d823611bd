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


def test_a_change_without_more_is_one_of_no_topics():
    trigger = Trigger(Cause.REGISTRATION, 1)
    change = RouteChange(kind=ChangeKind.BROKER_LEFT, trigger=trigger, cluster="c", broker_name="a")
    assert (change.topics, change.queues, trigger.remote) == ((), QueueChanges(), "")


def test_a_registration_without_more_is_one_of_a_broker_before_5_0_with_javas_lease():
    plain = Registration(key=BrokerKey("c", "a", "a:1"), broker_id=0)
    assert (plain.lease_ms, plain.acting_master, plain.zone_name, plain.ha_address) == (120_000, None, None, "")
    assert (plain.data_version, plain.queues, plain.filter_servers) == (DataVersion(), {}, None)
    assert plain.queue_mappings == {}


def test_without_a_master_nothing_is_told():
    assert MasterAddresses() == (None, None)
