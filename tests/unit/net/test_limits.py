"""Claims about limits: their defaults are promises to operators (docs/reference)."""

from __future__ import annotations

from dataclasses import asdict

from orbitmq.net.limits import DEFAULT_LIMITS


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
