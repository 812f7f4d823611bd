"""Claims about counters, and about limits: their defaults are promises to operators (docs/reference)."""

from __future__ import annotations

import logging
from dataclasses import asdict, fields

from orbitmq.net.counters import SERVICE_BOUNDS_S, Counters, is_worth_a_line
from orbitmq.net.limits import CONNECTIONS_MAX, DEFAULT_LIMITS, tell_of_few_descriptors


def test_the_defaults_are_these():
    assert asdict(DEFAULT_LIMITS) == {
        "frame_size_max": 16 * 1024 * 1024,
        "frame_ms": 30_000,
        "idle_ms": 120_000,
        "write_pause_size": 1024 * 1024,
        "write_buffer_max": 64 * 1024 * 1024,
        "write_stall_ms": 60_000,
        "connections_max": 0,
        "connections_per_address_max": 0,
        "partial_frames_max": 0,
        "waiting_answers_max": 0,
        "requests_per_second_max": 0,
        "backlog": 1024,
    }


def test_fewer_connections_are_a_warning_where_the_number_was_set(caplog):
    caplog.set_level(logging.INFO, "orbitmq.net")
    sentence = "takes 50 connections, not connectionsMax=60: 100 file descriptors"
    assert tell_of_few_descriptors(60, 60, 0) == []
    assert tell_of_few_descriptors(60, 50, 100) == [sentence]
    assert tell_of_few_descriptors(CONNECTIONS_MAX, 50, 100) == []
    assert [(line.levelname, line.getMessage().endswith("100 file descriptors")) for line in caplog.records] == [
        ("WARNING", True),
        ("INFO", True),
    ]


def test_the_first_ten_events_and_then_powers_of_two_are_worth_a_line():
    assert [count for count in range(1, 100) if is_worth_a_line(count)] == [*range(1, 11), 16, 32, 64]


def test_everything_is_counted_from_nothing():
    counters = Counters()
    counted = {field.name: getattr(counters, field.name) for field in fields(Counters) if field.type == "int"}
    assert len(counted) == 12
    assert set(counted.values()) == {0}
    assert (counters.requests[105], counters.refusals[105, 1], counters.closed_by_us["idle"]) == (0, 0, 0)


def test_times_of_service_are_told_apart_up_to_a_second():
    assert list(SERVICE_BOUNDS_S) == sorted(set(SERVICE_BOUNDS_S))
    assert SERVICE_BOUNDS_S[-1] == 1
