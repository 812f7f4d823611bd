"""A stamp comes back from the property that it was written to, and from nothing else."""

from __future__ import annotations

import pytest

from orbitmq.spark.once.rules.stamp import PROPERTY, Stamp, format_stamp, parse_stamp


def test_a_stamp_makes_the_round_trip():
    stamp = Stamp("query", 7, "attempt", 12)

    assert format_stamp(stamp) == "query/7/attempt/12"
    assert parse_stamp({PROPERTY: "query/7/attempt/12"}) == stamp


@pytest.mark.parametrize(
    "text",
    [
        "",
        "query/7/attempt",
        "query/7/attempt/12/1",
        "query/x/attempt/12",
        "query/7/attempt/-1",
        "/7/attempt/1",
        "q/²/a/1",
        "q/1/a/" + "9" * 19,
    ],
)
def test_what_this_sink_has_not_written_is_no_stamp(text):
    assert parse_stamp({PROPERTY: text}) is None


def test_a_message_without_the_property_has_no_stamp():
    assert parse_stamp({"KEYS": "1"}) is None
