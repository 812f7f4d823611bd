"""The fixtures that projects get, with options of their own."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def rocketmq_options():
    return {"brokers": 2, "settings": {"metricsPort": 0}}


def test_a_module_says_what_its_cluster_is_like(rocketmq):
    assert sorted(rocketmq.metrics) == ["broker-a", "broker-b"]
