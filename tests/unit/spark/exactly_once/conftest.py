"""A broker that asks about transactions soon, the topics of an exactly-once write, and a reader that drops nothing."""

from __future__ import annotations

from itertools import count

import pytest

from orbitmq.spark.exactly_once.marker_topic import MarkerTopic
from orbitmq.spark.options import WriteOptions
from orbitmq.testing import LocalCluster
from unit.spark.exactly_once.topics import create

_numbers = count()


@pytest.fixture(scope="module")
def asking_cluster():
    settings = {"transaction_time_out": 500, "transaction_check_interval": 200, "transaction_check_max": 1000}
    with LocalCluster.running(settings=settings) as cluster:
        yield cluster


@pytest.fixture
def once(asking_cluster):
    """Options of a write into a topic of its own with four queues."""
    number = next(_numbers)
    create(asking_cluster.name_servers, f"once-{number}", 4)
    create(asking_cluster.name_servers, f"once-markers-{number}", 1)
    return WriteOptions(
        name_servers=(asking_cluster.name_servers,),
        topic=f"once-{number}",
        group=f"once-group-{number}",
        exactly_once=True,
        row_ids=False,
        marker_topic=f"once-markers-{number}",
        commit_timeout_ms=20_000,
    )


@pytest.fixture
def marker_topic(once):
    return MarkerTopic(once)
