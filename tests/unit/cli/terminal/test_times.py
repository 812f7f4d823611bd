import pytest
import typer

from orbitmq.cli.terminal.times import parse_time


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10s", 990_000),
        ("5m", 700_000),
        ("9d", 0),
        ("1970-01-01T00:10", 600_000),
        ("1970-01-01T01:10+01:00", 600_000),
        ("1970-01-01T00:10Z", 600_000),
        ("1700000000123", 1_700_000_000_123),
    ],
)
def test_times_are_ago_iso_or_milliseconds(text, expected):
    assert parse_time(text, "--at", now_ms=1_000_000) == expected


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-5m", "1e3", "9" * 16, "9" * 7 + "d", "0001-01-01", "1969-12-31T23:59", "٣m"]
)
def test_what_is_no_time_is_refused_by_its_option(text):
    with pytest.raises(typer.BadParameter) as refused:
        parse_time(text, "--at")
    assert refused.value.param_hint == "--at"
    assert repr(text) in refused.value.message
