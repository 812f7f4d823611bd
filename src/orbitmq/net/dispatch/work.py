"""The work of a request that takes longer than a turn of the loop: done step by step, while others are served in between."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from typing import Any

from orbitmq.codes import ResponseCode
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.handlers import LATER, Call, Later
from orbitmq.net.dispatch.reply import Reply

log = logging.getLogger(__name__)

Work = Generator[None, None, Reply | Later]
"""Yields between two steps; returns the answer, or LATER when it is given elsewhere."""


SMALL_BODY_SIZE = 16 * 1024
"""Bytes of a body that is decoded and worked on in one step; a larger one waits for its connection's turn first."""


def in_turns(call: Call[Any], work: Work) -> Reply | Later:
    """Do the work of a request: its first step immediately, each other one when it is its connection's turn.

    Most have one step, and are answered as if there were no others.
    """
    try:
        next(work)
    except StopIteration as end:
        reply: Reply | Later = end.value
        return reply
    call.connection.work_on(_answering(call, work))
    return LATER


def joined(parts: Iterator[bytes]) -> Work:
    """Answer with a large body, of which each step makes a part."""
    found: list[bytes] = []
    for part in parts:
        if len(found) > 1:
            yield
        found.append(part)
    return Reply(body=b"".join(found))


def _answering(call: Call[Any], work: Work) -> Iterator[None]:
    """Answer when all is done; whatever goes wrong is an answer, too, as it is where a handler answers immediately."""
    try:
        reply = yield from work
    except Rejected as refusal:
        reply = Reply(refusal.code, refusal.remark)
    except OrbitError as error:
        reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
    except Exception as error:
        counters = call.connection.counters
        counters.failed_requests += 1
        if is_worth_a_line(counters.failed_requests):
            log.exception("request %d from %s failed", call.command.code, call.connection.remote)
        reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
    if reply is not LATER:
        call.answer(reply)
