"""Fixtures for pytest: a RocketMQ cluster inside your tests.

pytest imports this in every project where orbitmq is installed, so nothing heavy is imported before a fixture is used.

    def test_orders(rocketmq):
        service = OrderService(name_servers=rocketmq.name_servers)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.blocking_cluster import BlockingCluster


@pytest.fixture
def rocketmq() -> Iterator[BlockingCluster]:
    """Run one NameServer and one broker for this test alone, and remove their files afterwards."""
    from orbitmq.testing.cluster import LocalCluster

    with LocalCluster.running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_session() -> Iterator[BlockingCluster]:
    """Run one NameServer and one broker that all tests share: give each test topics of its own."""
    from orbitmq.testing.cluster import LocalCluster

    with LocalCluster.running() as cluster:
        yield cluster
