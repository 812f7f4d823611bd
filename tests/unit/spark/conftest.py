"""Fixtures of the Spark room's tests."""

from __future__ import annotations

import pytest

from unit.spark.fake_broker import FakeBroker


@pytest.fixture
def fake():
    with FakeBroker() as broker:
        yield broker
