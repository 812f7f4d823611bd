"""Traces as rows of a DataFrame. Pure."""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.wire.messages.traces import (
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Trace,
    decode_traces,
)

PUBLISHED, BEGUN, ENDED = "published", "begun", "ended"


class TraceRow(NamedTuple):
    """One trace. A consumption has a request id and no topic, a sending the other way round."""

    kind: str
    atMs: int | None  # noqa: N815
    group: str | None
    topic: str | None
    messageId: str  # noqa: N815
    requestId: str | None  # noqa: N815
    costMs: int | None  # noqa: N815
    isSuccess: bool | None  # noqa: N815
    isDelayed: bool | None  # noqa: N815


SCHEMA = (
    "array<struct<kind:string,atMs:bigint,group:string,topic:string,messageId:string,requestId:string,"
    "costMs:bigint,isSuccess:boolean,isDelayed:boolean>>"
)
_LONG_MAX = 2**63 - 1


def trace_rows(body: bytes | bytearray | None) -> list[TraceRow]:
    """Return the sendings and consumptions of a trace message; what is none is left out."""
    rows = (_row(trace) for trace in decode_traces(bytes(body or b"")))
    return [
        row for row in rows if row is not None and all(abs(number or 0) <= _LONG_MAX for number in (row[1], row[6]))
    ]


def _row(trace: Trace) -> TraceRow | None:
    if isinstance(trace, Published):
        is_delayed = trace.kind is MessageKind.DELAYED
        return TraceRow(
            PUBLISHED, trace.at_ms, trace.group, trace.topic, trace.message_id, None, trace.cost_ms, trace.is_success, is_delayed
        )  # fmt: skip
    if isinstance(trace, ConsumptionBegun):
        return TraceRow(BEGUN, trace.at_ms, trace.group, None, trace.message_id, trace.request_id, None, None, None)
    if isinstance(trace, ConsumptionEnded):
        at_ms, group = trace.at_ms or None, trace.group or None  # old clients tell neither
        return TraceRow(
            ENDED, at_ms, group, None, trace.message_id, trace.request_id, trace.cost_ms, trace.is_success, None
        )
    return None
