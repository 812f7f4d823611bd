"""The figures of one thing that a broker counts: of its last minute, hour and day.

Source: Java BrokerStatsData, BrokerStatsItem.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from orbitmq.wire.bodies.document import number, parse_body


class WindowFigures(NamedTuple):
    """What happened in one window of time."""

    sum: int = 0
    rate: float = 0.0
    """Per second."""
    mean: float = 0.0
    """Of the sum, per time that something was counted: a batch counts once."""


class StatsFigures(NamedTuple):
    """What happened in the last minute, hour and day."""

    minute: WindowFigures
    hour: WindowFigures
    day: WindowFigures


def encode_stats(figures: StatsFigures) -> bytes:
    """Encode the answer to VIEW_BROKER_STATS_DATA."""
    return orjson.dumps(
        {
            "statsDay": _document(figures.day),
            "statsHour": _document(figures.hour),
            "statsMinute": _document(figures.minute),
        }
    )


def decode_stats(body: bytes) -> StatsFigures:
    """Decode the answer to VIEW_BROKER_STATS_DATA.

    Raises:
        HeaderError: the body is none.
    """
    return parse_body(
        "stats",
        body,
        lambda document: StatsFigures(*(_parse(document[key]) for key in ("statsMinute", "statsHour", "statsDay"))),
    )


def _document(window: WindowFigures) -> dict[str, Any]:
    return {"avgpt": window.mean, "sum": window.sum, "tps": window.rate}


def _parse(document: dict[str, Any]) -> WindowFigures:
    return WindowFigures(number(document["sum"]), float(document["tps"]), float(document["avgpt"]))
