"""The plot is a picture, also where a carrier has no flights at an hour."""

from __future__ import annotations

import pytest

from examples.quickstart.plot import plot_delays

pytestmark = pytest.mark.real


def test_gaps_leave_gaps(tmp_path):
    rows = [
        {"carrier": "UA", "hour": 5, "mean_delay": 3.0, "p95_delay": 3.9},
        {"carrier": "EV", "hour": 16, "mean_delay": None, "p95_delay": None},
    ]

    plot_delays(rows, tmp_path / "delays.png")

    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
