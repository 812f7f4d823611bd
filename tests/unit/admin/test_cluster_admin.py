import pytest

from orbitmq.admin.cluster_admin import masters_in
from orbitmq.errors import InvalidArgument, RouteNotFound
from orbitmq.model.route import BrokerData, ClusterInfo


def info():
    def broker(cluster, name, *ids):
        addresses = {broker_id: f"{name}:{broker_id}" for broker_id in ids}
        return BrokerData(cluster=cluster, broker_name=name, addresses=addresses)

    brokers = {"b": broker("one", "b", 0, 1), "a": broker("one", "a", 1), "c": broker("two", "c", 0)}
    return ClusterInfo(brokers=brokers, clusters={"one": ("a", "b", "gone"), "two": ("c",)})


def test_masters_are_found_in_all_clusters_in_one_or_by_a_name():
    assert masters_in(info()) == {"b": "b:0", "c": "c:0"}
    assert masters_in(info(), "one") == masters_in(info(), broker="b") == {"b": "b:0"}


def test_an_unknown_cluster_and_a_broker_without_a_master_are_named():
    with pytest.raises(InvalidArgument, match="one of one, two"):
        masters_in(info(), "three")
    with pytest.raises(RouteNotFound):
        masters_in(info(), broker="a")
