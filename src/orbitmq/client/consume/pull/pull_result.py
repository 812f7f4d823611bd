"""The meaning of a pull's answer: which of four outcomes it tells, and where to go on. Pure.

Source: Java MQClientAPIImpl.processPullResponse, PullStatus.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PullResponse


class PullStatus(Enum):
    """The outcomes of a pull that a broker has carried out (Java: PullStatus)."""

    FOUND = ResponseCode.SUCCESS
    NO_NEW_MESSAGE = ResponseCode.PULL_NOT_FOUND
    NO_MATCHED_MESSAGE = ResponseCode.PULL_RETRY_IMMEDIATELY
    """There are messages, none of those looked at passed the filter: go on behind them."""
    OFFSET_ILLEGAL = ResponseCode.PULL_OFFSET_MOVED
    """The offset lies before the queue's first message or behind its end."""


class PullResult(NamedTuple):
    """What a pull brought: `records` holds whole records back to back, empty unless the status is FOUND."""

    status: PullStatus
    header: PullResponse
    records: bytes


_BY_CODE: Final = {status.value.value: status for status in PullStatus}


def parse_pull_answer(answer: Command) -> PullResult | None:
    """Return the result that an answer tells; None when the broker refused, its code and remark say why.

    Raises:
        HeaderError: the answer does not say where to go on.
    """
    status = _BY_CODE.get(answer.code)
    if status is None:
        return None
    header = decode_header(PullResponse, answer.ext_fields)
    return PullResult(status, header, answer.body if status is PullStatus.FOUND else b"")
