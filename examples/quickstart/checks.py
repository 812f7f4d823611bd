"""The checks after the quickstart: Spark's findings against plain Python's, and against known answers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from examples.quickstart.flights import Truth

KNOWN_FLIGHTS = 336_776
KNOWN_CANCELLED = 8_255
KNOWN_MEAN_ARRIVAL_DELAY = 6.8954
KNOWN_ORIGINS = {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}
KNOWN_CARRIERS = {"UA": (58_665, 12_592, 686), "B6": (54_635, 14_111, 466), "EV": (54_173, 16_028, 2_817)}
"""The whole year: flights, more than 15 minutes late, cancelled."""

Verdict = tuple[bool, str]


@dataclass(frozen=True)
class Seen:
    """What came out at the far end."""

    sent: int
    queues: Sequence[Mapping[str, Any]]
    origins: Mapping[str, int]
    mean_arrival_delay: float
    cancelled: int
    hourly: Mapping[tuple[str, int], Mapping[str, Any]]
    summaries: Mapping[str, Mapping[str, Any]]
    summary_count: int

    @property
    def rows(self) -> int:
        """Rows that the stream has kept."""
        return sum(queue["count"] for queue in self.queues)


def check_all(truth: Truth, seen: Seen, *, is_whole_year: bool) -> list[Verdict]:
    """Return every claim and whether it holds."""
    verdicts = [
        (
            truth.flights == seen.sent == seen.rows,
            f"rows in the file = sent = read: {truth.flights:,} = {seen.sent:,} = {seen.rows:,}",
        ),
        (
            all(_is_contiguous(queue) for queue in seen.queues),
            f"offsets are contiguous from 0 in each of {len(seen.queues)} queues, none twice",
        ),
        (
            _carriers_agree(truth, seen),
            f"flights, late and cancelled of {len(truth.carriers)} carriers equal plain Python's",
        ),
        (
            _hours_agree(truth, seen),
            f"departures, mean and 95th percentile of {len(truth.departure_delays)} carrier-hours equal plain Python's",
        ),
        (
            seen.summary_count == len(seen.summaries) == len(truth.carriers),
            f"summaries sent by Spark = received by the PushConsumer: {seen.summary_count} = {len(seen.summaries)}",
        ),
    ]
    return verdicts + (_check_known(truth, seen) if is_whole_year else [])


def _check_known(truth: Truth, seen: Seen) -> list[Verdict]:
    found = {
        carrier: tuple(seen.summaries.get(carrier, {}).get(name) for name in ("flights", "late", "cancelled"))
        for carrier in KNOWN_CARRIERS
    }
    mean = round(seen.mean_arrival_delay, 4)
    return [
        (seen.rows == KNOWN_FLIGHTS, f"the year has {KNOWN_FLIGHTS:,} flights: {seen.rows:,}"),
        (seen.cancelled == KNOWN_CANCELLED, f"{KNOWN_CANCELLED:,} were cancelled: {seen.cancelled:,}"),
        (mean == KNOWN_MEAN_ARRIVAL_DELAY, f"arrivals are {KNOWN_MEAN_ARRIVAL_DELAY} minutes late on average: {mean}"),
        (seen.origins == KNOWN_ORIGINS, f"departures by airport: {_listed(seen.origins)}"),
        (found == KNOWN_CARRIERS, f"flights, late and cancelled of the three largest carriers: {_listed(found)}"),
    ]


def _is_contiguous(queue: Mapping[str, Any]) -> bool:
    return bool(queue["first"] == 0 and queue["last"] + 1 == queue["count"] == queue["distinct"])


def _carriers_agree(truth: Truth, seen: Seen) -> bool:
    found = {
        carrier: (summary["flights"], summary["cancelled"], summary["late"])
        for carrier, summary in seen.summaries.items()
    }
    return found == {
        carrier: (totals.flights, totals.cancelled, totals.late) for carrier, totals in truth.carriers.items()
    }


def _hours_agree(truth: Truth, seen: Seen) -> bool:
    expected = truth.hourly()
    if expected.keys() != seen.hourly.keys():
        return False
    return all(
        row["departures"] == expected[group][0]
        and _close(row["mean_delay"], expected[group][1])
        and _close(row["p95_delay"], expected[group][2])
        for group, row in seen.hourly.items()
    )


def _close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
