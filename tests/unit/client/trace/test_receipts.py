"""Claims about the traces of messages that are received and acknowledged one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from orbitmq.client.trace import settlers
from orbitmq.client.trace.settlers import TracedReceipts
from orbitmq.model.message import StoredMessage
from orbitmq.wire.messages.traces import ConsumeReturnType
from unit.client.messages import stored


class FakeTracer:
    """Notes the ends that it is told; gives each receipt a request id of its own."""

    def __init__(self) -> None:
        self.ends: list[tuple[str, str, ConsumeReturnType]] = []
        self.begun_count = 0

    def begun(self, messages: Sequence[StoredMessage]) -> str | None:
        self.begun_count += 1
        return None if messages[0].topic == "untraced" else f"request-{self.begun_count}"

    def ended(
        self, messages: Sequence[StoredMessage], request_id: str, outcome: ConsumeReturnType, cost_ms: int
    ) -> None:
        assert cost_ms >= 0
        self.ends += [(message.message_id, request_id, outcome) for message in messages]


def received(name: str, times: int = 0, topic: str = "t") -> StoredMessage:
    return replace(stored(0), topic=topic, properties={"UNIQ_KEY": name}, reconsume_times=times)


def traced() -> tuple[TracedReceipts, FakeTracer]:
    tracer = FakeTracer()
    return TracedReceipts(cast(Any, tracer)), tracer


def test_an_end_belongs_to_its_beginning_and_is_told_once() -> None:
    found, tracer = traced()
    found.received([received("A"), received("B")])
    found.received([received("A", times=1)])
    found.settled([received("A", times=1), received("B")], ConsumeReturnType.SUCCESS)
    found.settled([received("A"), received("B")], ConsumeReturnType.FAILED)
    assert tracer.ends == [
        ("A", "request-2", ConsumeReturnType.SUCCESS),
        ("B", "request-1", ConsumeReturnType.SUCCESS),
        ("A", "request-1", ConsumeReturnType.FAILED),
    ]


def test_of_what_others_received_or_is_not_traced_no_end_is_told() -> None:
    found, tracer = traced()
    found.received([received("A", topic="untraced")])
    found.settled([received("A", topic="untraced"), received("B")], ConsumeReturnType.SUCCESS)
    assert tracer.ends == []


def test_the_oldest_beginnings_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlers, "COUNT_MAX", 2)
    found, tracer = traced()
    for name in "ABAC":
        found.received([received(name)])
    found.settled([received("A"), received("B"), received("C")], ConsumeReturnType.SUCCESS)
    assert [name for name, *_ in tracer.ends] == ["A", "C"]
