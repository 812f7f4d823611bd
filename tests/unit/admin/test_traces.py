"""Claims about a message's way, as it is put together from what clients told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cases import each_case
from orbitmq.admin import traces
from orbitmq.admin.messages import FoundMessages
from orbitmq.admin.traces import TraceStep, find_way, in_order, way_of
from orbitmq.errors import InvalidArgument, RequestTimeout
from orbitmq.model.message import Host, StoredMessage
from orbitmq.net.loop import run
from orbitmq.wire.messages.traces import (
    ConsumeReturnType,
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Recalled,
    Trace,
    TransactionEnded,
    encode_trace,
)

SENT = Published(1_000, "r", "makers", "orders", "ID", "t", "k1 k2", "b:1", 5, 3, MessageKind.NORMAL, "OFF", True)
BEGUN = ConsumptionBegun(2_000, "r", "readers", "R", "ID", 0, "k1 k2")
ENDED = ConsumptionEnded("R", "ID", 9, True, "k1 k2", ConsumeReturnType.SUCCESS, 2_009, "readers")


def stored(body: bytes = b"", *, stored_at_ms: int = 0) -> StoredMessage:
    return StoredMessage(
        topic="t", body=body, properties={}, queue_id=2, queue_offset=7, physical_offset=0, store_size=1,
        stored_at_ms=stored_at_ms, born_host=Host("10.0.0.7", 1), broker_name="broker-a",
    )  # fmt: skip


class FakeAdmin:
    """Has trace messages, and one stored message, or none."""

    silent: Mapping[str, str] = {}
    is_cut = False

    def __init__(self, *told: Trace, message: StoredMessage | None = None) -> None:
        self._told = told
        self._message = message

    async def messages_by_key(self, topic: str, key: str, *, count_max: int) -> FoundMessages:
        found = [stored("".join(map(encode_trace, self._told)).encode())]
        return FoundMessages(found, self.silent, self.is_cut)

    async def message_by_id(self, topic: str, message_id: str) -> StoredMessage | None:
        assert (topic, message_id) == ("orders", "OFF")
        return self._message


def way(admin: Any, key: str = "ID") -> list[tuple[str, int, int | None, str]]:
    return [(step.name, step.at_ms, step.cost_ms, step.status) for step in run(find_way(admin, "traces", key)).steps]


def test_a_way_has_its_steps_in_order_each_once() -> None:
    admin = FakeAdmin(ENDED, SENT, BEGUN, SENT, message=stored(stored_at_ms=1_001))
    assert way(admin) == [
        ("sent", 1_000, 3, "success"),
        ("stored", 1_001, None, "broker-a queue 2 offset 7"),
        ("consumed", 2_000, 9, "success"),
    ]
    assert way(admin, "k2") == way(admin)
    assert way(admin, "k") == []


def test_a_message_was_sent_before_it_was_stored_whatever_the_clocks_say() -> None:
    """A client tells when it began by subtracting what the send took, in whole ms."""
    admin = FakeAdmin(ENDED, SENT, BEGUN, message=stored(stored_at_ms=999))
    assert [(name, at_ms) for name, at_ms, *_ in way(admin)] == [("sent", 1_000), ("stored", 999), ("consumed", 2_000)]


def test_a_second_message_of_a_key_keeps_its_own_order() -> None:
    def step(name: str, at_ms: int, message_id: str) -> TraceStep:
        return TraceStep(name, at_ms, None, None, "", "", message_id)

    steps = [
        step("sent, for later", 20, "A"),
        step("sent", 30, "B"),
        step("stored", 25, "B"),
        step("consumed", 28, "A"),
        step("stored", 20, "A"),
        step("consumed", 29, "B"),
    ]
    assert [(found.name, found.message_id) for found in in_order(reversed(steps))] == [
        ("sent, for later", "A"),
        ("stored", "A"),
        ("consumed", "A"),
        ("sent", "B"),
        ("stored", "B"),
        ("consumed", "B"),
    ]


@pytest.mark.parametrize("fails", [False, True])
def test_a_message_that_is_gone_is_not_said_to_be_stored(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any) -> None:
        raise InvalidArgument("message_id", "", "an id")

    if fails:
        monkeypatch.setattr(FakeAdmin, "message_by_id", refuse)
    assert way(FakeAdmin(SENT)) == [("sent", 1_000, 3, "success")]


def test_the_sending_is_found_behind_the_traces_of_many_consumers() -> None:
    class Admin(FakeAdmin):
        async def messages_by_key(self, topic: str, key: str, *, count_max: int) -> FoundMessages:
            traces: list[Trace] = [SENT, *(BEGUN._replace(request_id=str(number)) for number in range(160))]
            found = [stored(encode_trace(trace).encode()) for trace in traces]
            return FoundMessages(found[-count_max:], {}, len(found) > count_max)

    found = run(find_way(Admin(message=stored(stored_at_ms=1_001)), "traces", "ID"))  # type: ignore[arg-type]
    assert [step.name for step in found.steps[:3]] == ["sent", "stored", "consumed"]
    assert (len(found.steps), found.notices) == (162, [])


def test_what_is_missing_of_a_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    admin: Any = FakeAdmin(SENT)
    admin.silent, admin.is_cut = {"broker-b": "no answer"}, True

    async def time_out(*_: Any) -> None:
        raise RequestTimeout("no answer either")

    monkeypatch.setattr(FakeAdmin, "message_by_id", time_out)
    found = run(find_way(admin, "traces", "ID"))
    assert [step.name for step in found.steps] == ["sent"]
    assert found.is_partial
    assert found.notices == [
        "without broker-b: no answer",
        "without the broker at b:1: no answer either",
        "these are the newest 1 traces: earlier steps may be missing",
    ]


CASES: list[tuple[Trace, tuple[str, str]]] = [
    (SENT._replace(kind=MessageKind.HALF, is_success=False), ("sent, half of a transaction", "failed")),
    (SENT._replace(kind=MessageKind.DELAYED), ("sent, for later", "success")),
    (SENT._replace(kind=MessageKind.ORDERED), ("sent", "success")),
    (BEGUN, ("consumed", "begun")),
    (BEGUN._replace(retries=2), ("consumed again (2)", "begun")),
    (ENDED, ("consumed", "success")),
    (ENDED._replace(is_success=False, outcome=ConsumeReturnType.FAILED), ("consumed", "failed")),
    (
        ENDED._replace(is_success=False, outcome=ConsumeReturnType.NOTHING_RETURNED),
        ("consumed", "failed: nothing returned"),
    ),
    (ENDED._replace(is_success=False, outcome=77), ("consumed", "failed: 77")),
    (
        TransactionEnded(1, "r", "g", "t", "ID", None, None, "b", MessageKind.COMMIT, "ID", "UNKNOW", False),
        ("decided", "UNKNOW"),
    ),
    (
        TransactionEnded(1, "r", "g", "t", "ID", None, None, "b", MessageKind.COMMIT, "ID", "UNKNOW", True),
        ("decided, when asked", "UNKNOW"),
    ),
    (Recalled(1, "r", "g", "t", "ID", True), ("taken back", "success")),
    (Recalled(1, "r", "g", "t", "ID", False), ("taken back", "failed")),
]


@each_case(*CASES)
def test_each_kind_of_trace_is_a_step(trace: Trace, expected: tuple[str, str]) -> None:
    (step,) = way_of([traces._Told(trace, "10.0.0.7")])
    assert (step.name, step.status) == expected
    assert (step.place, step.message_id) == ("10.0.0.7", "ID")


def test_each_attempt_of_a_consumption_is_a_step_of_its_own() -> None:
    again = BEGUN._replace(request_id="SECOND", retries=1, at_ms=9_000)
    failed = ENDED._replace(is_success=False, outcome=ConsumeReturnType.EXCEPTION)
    done = ENDED._replace(request_id="SECOND", at_ms=9_009)
    told = [traces._Told(trace, "c") for trace in (BEGUN, again, failed, done)]
    assert [(step.name, step.at_ms, step.status) for step in way_of(told)] == [
        ("consumed", 2_000, "failed: exception"),
        ("consumed again (1)", 9_000, "success"),
    ]
