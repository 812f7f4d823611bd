"""Fixtures of the Spark room's tests."""

from __future__ import annotations

import socket
from contextlib import contextmanager

import pytest

from orbitmq.spark.reading import fan_out, metadata_client, offset_poller
from unit.spark.fake_broker import FakeBroker


@pytest.fixture(autouse=True)
def patient_rounds(monkeypatch):
    """Let a busy machine take its time to answer; `over_for` ends the time of servers that hang."""
    monkeypatch.setattr(metadata_client, "ROUND_S", 30.0)
    monkeypatch.setattr(offset_poller, "ROUND_S", 30.0)


@contextmanager
def over_for(address):
    """Let the time limit of rounds be over for one server, and for no other."""
    outcome = fan_out._Query.outcome

    def hurried(query, timeout_s):
        return outcome(query, 0 if timeout_s is not None and query.address == address else timeout_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fan_out._Query, "outcome", hurried)
        yield


@pytest.fixture
def hung():
    """Return the address of a server that answers nothing, however long a round waits for the others."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with over_for(address):
            yield address


@pytest.fixture
def fake():
    with FakeBroker() as broker:
        yield broker
