"""Results of messages that were consumed directly, in Java's form."""

from __future__ import annotations

import pytest

from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.wire.bodies.consumers.direct_result import (
    DirectResult,
    Outcome,
    decode_direct_result,
    encode_direct_result,
)
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder


def test_javas_own_answer_is_read_and_written_again() -> None:
    (frame,) = FrameDecoder().feed(golden("309-consume-message-directly-answer").data)
    body = decode_command(frame).body
    assert encode_direct_result(decode_direct_result(body)) == body


def test_a_failure_comes_with_what_the_handler_raised() -> None:
    result = DirectResult(outcome=Outcome.THROW_EXCEPTION, is_ordered=True, remark="ValueError: no", spent_ms=3)
    assert decode_direct_result(encode_direct_result(result)) == result


def test_an_outcome_that_is_none_is_refused() -> None:
    with pytest.raises(HeaderError, match="CR_MAYBE"):
        decode_direct_result(b'{"consumeResult":"CR_MAYBE"}')
