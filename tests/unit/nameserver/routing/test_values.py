"""Claims about the values of registrations."""

from __future__ import annotations

from orbitmq.model.topic import DataVersion
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses, Registration


def test_a_registration_without_more_is_one_of_a_broker_before_5_0_with_javas_lease():
    plain = Registration(cluster="c", broker_name="a", broker_id=0, address="a:1")
    assert plain.key == BrokerKey("c", "a", "a:1")
    assert (plain.lease_ms, plain.acting_master, plain.zone_name, plain.ha_address) == (120_000, None, None, "")
    assert (plain.data_version, plain.queues, plain.filter_servers) == (DataVersion(), {}, None)
    assert plain.queue_mappings == {}


def test_without_a_master_nothing_is_told():
    assert MasterAddresses() == (None, None)
