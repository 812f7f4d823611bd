"""Fixtures for pytest: a RocketMQ cluster inside your tests.

pytest imports this in every project where orbitmq is installed, so nothing heavy is imported before a fixture is used.

    def test_orders(rocketmq):
        service = OrderService(name_servers=rocketmq.name_servers)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from orbitmq.testing.blocking_cluster import BlockingCluster


@pytest.fixture(scope="session")
def rocketmq_options() -> dict[str, Any]:
    """Return the arguments of `LocalCluster` for both clusters below; a test module or a conftest.py has one of its own.

    @pytest.fixture(scope="session")
    def rocketmq_options():
        return {"brokers": 2, "settings": {"flushDiskType": "SYNC_FLUSH"}}
    """
    return {}


@pytest.fixture
def rocketmq(rocketmq_options: dict[str, Any]) -> Iterator[BlockingCluster]:
    """Run a NameServer and a broker, or what `rocketmq_options` says, for this test alone, and remove their files afterwards."""
    from orbitmq.testing.cluster import LocalCluster

    with LocalCluster.running(**rocketmq_options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def rocketmq_session(rocketmq_options: dict[str, Any]) -> Iterator[BlockingCluster]:
    """Run a NameServer and a broker, or what `rocketmq_options` says, that all tests share: give each test topics of its own."""
    from orbitmq.testing.cluster import LocalCluster

    with LocalCluster.running(**rocketmq_options) as cluster:
        yield cluster
