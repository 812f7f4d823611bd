"""The cluster of the tests of jobs."""

import pytest

from orbitmq.spark.jobs.cluster import Cluster


@pytest.fixture
def cluster(rocketmq_session):
    return Cluster(rocketmq_session.name_servers)
