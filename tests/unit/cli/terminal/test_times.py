from datetime import UTC, datetime

import pytest
import typer

from cases import each_case
from orbitmq.cli.terminal.times import parse_delay, parse_moment, parse_time


@each_case(
    ("10s", 990_000),
    ("5m", 700_000),
    ("9d", 0),
    ("1970-01-01T00:10", 600_000),
    ("1970-01-01T01:10+01:00", 600_000),
    ("1970-01-01T00:10Z", 600_000),
    ("1700000000123", 1_700_000_000_123),
)
def test_times_are_ago_iso_or_milliseconds(text, expected):
    assert parse_time(text, "--at", now_ms=1_000_000) == expected


NO_TIMES = ("", "yesterday", "-5m", "1e3", "9" * 16, "9" * 7 + "d", "0001-01-01", "1969-12-31T23:59", "٣m")
NO_DELAYS = ("", "90", "-5m", "1.5s", "9" * 7 + "d", "5 m", "1h30m", "2026-11-21")
NO_MOMENTS = ("", "10m", "tomorrow", "-1", "9" * 15, "1969-12-31T23:59", "0001-01-01")


@each_case(
    *((parse_time, "--at", text) for text in NO_TIMES),
    *((parse_delay, "--delay", text) for text in NO_DELAYS),
    *((parse_moment, "--deliver-at", text) for text in NO_MOMENTS),
)
def test_what_is_no_time_delay_or_moment_is_refused_by_its_option(parse, option, text):
    with pytest.raises(typer.BadParameter) as refused:
        parse(text, option)
    assert refused.value.param_hint == option
    assert repr(text) in refused.value.message


def test_delays_have_a_unit():
    assert [parse_delay(text, "--delay") for text in ("0s", "90s", "10m", "2h", "3d")] == [
        0, 90_000, 600_000, 7_200_000, 259_200_000
    ]  # fmt: skip


@each_case("1970-01-01T00:10", "1970-01-01T01:10+01:00", "600000")
def test_a_moment_is_an_iso_time_or_milliseconds(text):
    assert parse_moment(text, "--deliver-at") == datetime(1970, 1, 1, 0, 10, tzinfo=UTC)
