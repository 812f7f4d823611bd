"""Claims about the pages that every server has."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.pages import server_pages
from orbitmq.net.http.page import JSON, Answer
from orbitmq.wire.slices import finish


def answers(document: dict[str, Any]) -> dict[str, Answer]:
    pages = server_pages(lambda: [Families("p").gauge("size", "", 1)], lambda: document, "not yet")
    found = {path: page({}) for path, page in pages.items()}
    return {path: answer if isinstance(answer, Answer) else finish(answer) for path, answer in found.items()}


def test_a_server_that_is_not_healthy_answers_all_the_same() -> None:
    document = {"healthy": False, "ready": True, "alerts": ["a"]}
    health = answers(document)["/healthz"]
    assert (health.status, health.content_type) == (200, JSON)
    assert orjson.loads(health.body) == document


def test_readiness_is_a_status_and_the_reasons() -> None:
    assert answers({"ready": True})["/readyz"] == Answer(b"ready\n", 200)
    assert answers({"ready": False})["/readyz"] == Answer(b"not yet\n", 503)
    assert answers({"ready": False, "notReady": ["a", "b"]})["/readyz"] == Answer(b"a\nb\n", 503)


def test_metrics_come_from_their_source() -> None:
    assert b"\np_size 1.0\n" in answers({"ready": True})["/metrics"].body


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_no_page_takes_a_parameter_that_it_would_leave_alone(path: str) -> None:
    pages = server_pages(lambda: (), lambda: {"ready": True}, "not yet")
    with pytest.raises(InvalidArgument, match="query: 'verbose' is not allowed"):
        pages[path]({"verbose": "1"})
