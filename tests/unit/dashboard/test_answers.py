"""Answers of the dashboard: pages of errors."""

from __future__ import annotations

from orbitmq.dashboard.answers import error_page
from orbitmq.errors import RouteNotFound


def test_the_page_of_an_error_has_its_notes() -> None:
    error = RouteNotFound("topic orders has no route")
    error.add_note("broker-b: it is gone")
    assert error_page(error).values == {"error": "topic orders has no route. broker-b: it is gone"}
