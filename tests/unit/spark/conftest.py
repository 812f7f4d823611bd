"""Fixtures of the Spark room's tests."""

from __future__ import annotations

import pytest

from orbitmq.spark.reading import metadata_client, offset_poller
from unit.spark.fake_broker import FakeBroker


@pytest.fixture(autouse=True)
def patient_rounds(monkeypatch):
    """Let a busy machine take its time to answer; tests of servers that hang set how long they are waited for."""
    monkeypatch.setattr(metadata_client, "ROUND_S", 30.0)
    monkeypatch.setattr(offset_poller, "ROUND_S", 30.0)


@pytest.fixture
def fake():
    with FakeBroker() as broker:
        yield broker
