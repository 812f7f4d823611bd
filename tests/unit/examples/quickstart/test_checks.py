"""A wrong number anywhere fails the quickstart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from examples.quickstart.checks import KNOWN_CARRIERS, Seen, check_all


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
