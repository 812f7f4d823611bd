"""Figures of one thing, as a Java broker tells them."""

from __future__ import annotations

import orjson
import pytest

from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.wire.bodies.monitoring.stats import StatsFigures, WindowFigures, decode_stats, encode_stats


def test_figures_travel() -> None:
    figures = StatsFigures(WindowFigures(6, 0.1, 1.5), WindowFigures(600, 1.0, 2.0), WindowFigures())
    assert decode_stats(encode_stats(figures)) == figures


def test_they_have_the_form_of_javas() -> None:
    body = golden("315-view-broker-stats-data-answer").body
    figures = decode_stats(body)
    assert orjson.loads(encode_stats(figures)) == orjson.loads(body)


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"statsMinute":{},"statsHour":{},"statsDay":{}}'])
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(HeaderError):
        decode_stats(body)
