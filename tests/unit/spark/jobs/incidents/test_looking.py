from __future__ import annotations

from orbitmq.spark.jobs.frame.cluster import Cluster
from orbitmq.spark.jobs.incidents.looking import look_at


def test_every_nameserver_and_every_broker_is_asked_and_who_is_silent_is_not_there(rocketmq_session):
    found = look_at(Cluster(f"{rocketmq_session.name_servers};127.0.0.1:1"))
    assert rocketmq_session.name_servers in found.answers
    assert len(found.answers) >= 2  # and its broker
    assert "127.0.0.1:1" not in found.answers
    assert found.name_servers == {rocketmq_session.name_servers, "127.0.0.1:1"}
