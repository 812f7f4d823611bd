"""Latencies of invented traces; tests/spark/jobs/test_trace.py has real ones."""

from __future__ import annotations

import xml.etree.ElementTree as ET

# On a new machine its import starts a process that lists the fonts: here, and not in a test.
import matplotlib.font_manager  # noqa: F401

from orbitmq.spark.jobs.latencies import Latency, draw_latencies, plot_latencies, trace_rows
from orbitmq.wire.messages.traces import (
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Recalled,
    encode_trace,
)


def test_a_latency_is_a_row_of_the_report():
    assert Latency("t", "g", 1, 1.0, 2.0, 3.0, 4)._asdict()["p99_ms"] == 3.0


def rows(*traces):
    return trace_rows("".join(map(encode_trace, traces)).encode())


def published(at_ms=10, kind=MessageKind.NORMAL):
    return Published(at_ms, "r", "p", "t", "M", None, None, "b:1", 5, 3, kind, "O", True)


def test_a_sending_has_a_topic_and_a_consumption_a_request():
    sent, begun, ended = rows(
        published(),
        ConsumptionBegun(11, "r", "g", "R", "M", 0, None),
        ConsumptionEnded("R", "M", 4, False, None, 4, 15, "g"),
    )
    assert sent == ("published", 10, "p", "t", "M", None, 3, True, False)
    assert begun == ("begun", 11, "g", None, "M", "R", None, None, None)
    assert ended == ("ended", 15, "g", None, "M", "R", 4, False, None)


def test_a_message_for_later_is_known_as_such():
    assert [row.isDelayed for row in rows(published(kind=MessageKind.DELAYED))] == [True]


def test_what_old_clients_do_not_tell_is_unknown_and_not_zero():
    (row,) = trace_rows(b"SubAfter\x01R\x01M\x014\x01true\x01k\x02")
    assert (row.atMs, row.group) == (None, None)


def test_what_has_no_part_in_latencies_is_left_out():
    assert rows(Recalled(1, "r", "p", "t", "M", True)) == []
    assert rows(published(at_ms=2**63)) == []  # a column has no room for it


def test_a_body_without_any_trace_is_told_from_one_that_has_no_part_in_latencies():
    assert trace_rows(b"\xffhello\x02Pub\x01x\x02") is trace_rows(b"") is trace_rows(None) is None


def texts(picture):
    return [text.text for text in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def marks(figure):
    return [[float(x) for x, _y in marks.get_offsets()] for marks in figure.axes[0].collections]


def test_latencies_stand_where_they_were_measured_and_never_left_of_a_millisecond():
    figure = plot_latencies([Latency("t", "g", 9, 1, 10, 100, 1000), Latency("u", "g", 1, -5, 0, 1, 1)])
    assert marks(figure) == [[1, 1], [10, 1], [100, 1]]
    assert [list(line.get_xdata()) for line in figure.axes[0].lines] == [[1, 1000], [1, 1]]


def test_each_line_of_latencies_has_the_names_of_its_topic_and_group():
    assert "$t$ → a_b" in texts(draw_latencies([Latency("$t$", "a_b", 1, 1, 1, 1, 1)]))


def test_without_latencies_there_is_a_picture():
    assert texts(draw_latencies([]))
