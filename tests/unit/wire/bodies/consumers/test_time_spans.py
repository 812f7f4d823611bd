"""Times of queues and groups, in Java's form."""

from __future__ import annotations

from golden import golden
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.consumers.time_spans import QueueTimeSpan, decode_time_spans, encode_time_spans
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import FrameDecoder


def test_javas_own_answer_is_read_and_written_again() -> None:
    (frame,) = FrameDecoder().feed(golden("303-query-consume-time-span-answer").data)
    body = decode_command(frame).body
    assert encode_time_spans(decode_time_spans(body)) == body


def test_an_empty_queue_has_no_times() -> None:
    span = QueueTimeSpan(MessageQueue("t", "b", 0), -1, -1, -1, 0)
    assert decode_time_spans(encode_time_spans([span])) == [span]
    assert b'"minTimeStampStr":"1969-12-31#23:59:59:999"' in encode_time_spans([span])
