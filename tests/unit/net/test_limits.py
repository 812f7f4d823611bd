"""Claims about limits: their defaults are promises to operators (docs/reference)."""

from __future__ import annotations

import logging
from dataclasses import asdict

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


def test_fewer_connections_are_a_warning_where_somebody_has_set_the_number(caplog):
    caplog.set_level(logging.INFO, "orbitmq.net")
    sentence = "takes 50 connections, not connectionsMax=60: 100 file descriptors"
    assert tell_of_few_descriptors(60, 60, 0) == []
    assert tell_of_few_descriptors(60, 50, 100) == [sentence]
    assert tell_of_few_descriptors(CONNECTIONS_MAX, 50, 100) == []
    assert [(line.levelname, line.getMessage().endswith("100 file descriptors")) for line in caplog.records] == [
        ("WARNING", True),
        ("INFO", True),
    ]
