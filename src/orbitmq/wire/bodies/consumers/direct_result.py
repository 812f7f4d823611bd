"""The result of a message that one client was told to consume.

Source: Java ConsumeMessageDirectlyResult, CMResult.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from orbitmq.wire.bodies.document import number, parse_body


class Outcome(StrEnum):
    """How a handler ended (Java: CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectResult:
    """What a client has done with one message.

    Args:
        is_ordered: the client consumes in order.
        remark: the exception that the handler raised.
        spent_ms: how long the handler took.
    """

    outcome: Outcome
    is_ordered: bool = False
    auto_commit: bool = True
    remark: str | None = None
    spent_ms: int = 0


def encode_direct_result(result: DirectResult) -> bytes:
    """Encode the answer to CONSUME_MESSAGE_DIRECTLY."""
    document: dict[str, Any] = {
        "autoCommit": result.auto_commit,
        "consumeResult": result.outcome,
        "order": result.is_ordered,
    }
    if result.remark is not None:
        document["remark"] = result.remark
    return orjson.dumps({**document, "spentTimeMills": result.spent_ms})


def decode_direct_result(body: bytes) -> DirectResult:
    """Decode the answer to CONSUME_MESSAGE_DIRECTLY.

    Raises:
        HeaderError: the body is no such answer.
    """
    return parse_body(
        "consume result",
        body,
        lambda document: DirectResult(
            outcome=Outcome(document["consumeResult"]),
            is_ordered=bool(document.get("order")),
            auto_commit=bool(document.get("autoCommit", True)),
            remark=document.get("remark"),
            spent_ms=number(document.get("spentTimeMills") or 0),
        ),
    )
