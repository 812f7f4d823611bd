"""The measurement of delayed deliveries in a short form: what it compares; its rate is a row of `crash.figures`."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.delay_rate import deliver
from crash.ledger import Loss
from orbitmq.broker.delivery.delay import DelayQueues
from orbitmq.store import AppendResult, Draft, Store


def test_many_messages_that_are_due_together_come_once_and_in_order(tmp_path: Path) -> None:
    assert deliver(tmp_path, 300) > 0


def test_a_delivery_that_loses_one_has_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = Store.append

    def lose(store: Store, draft: Draft) -> AppendResult:
        if draft.topic == "later" and bytes(draft.body).endswith(b"77"):
            draft = draft._replace(topic="elsewhere")
        return append(store, draft)

    monkeypatch.setattr(Store, "append", lose)
    with pytest.raises(Loss, match="behind 0 of 300"):
        deliver(tmp_path, 300)


def test_a_delivery_before_its_time_has_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = DelayQueues.deliver_due
    monkeypatch.setattr(DelayQueues, "deliver_due", lambda queues, now_ms: due(queues, now_ms + 10_000))
    with pytest.raises(Loss, match="before its time"):
        deliver(tmp_path, 300)
