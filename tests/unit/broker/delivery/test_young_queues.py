"""Young queues: those whose first message is near the log's end."""

from __future__ import annotations

import pytest

from orbitmq.broker.delivery import young_queues
from orbitmq.broker.delivery.young_queues import is_young
from orbitmq.store import Draft

from ..parts import memory_store


def test_a_queue_is_young_while_its_first_message_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    store = memory_store()
    assert is_young(store, "t", 0)
    result = store.append(Draft("t", 0, b"x"))
    monkeypatch.setattr(young_queues, "YOUNG_SIZE", result.size)
    assert is_young(store, "t", 0)
    store.append(Draft("u", 0, b"x"))
    assert not is_young(store, "t", 0)
