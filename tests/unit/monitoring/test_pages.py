"""Claims about the pages that every server has, `/metrics` for one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq.errors import InvalidArgument
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.metrics_page import metrics_page
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


def test_a_family_in_parts_is_explained_once_and_parses() -> None:
    make = Families("p")

    def source():
        yield from make.counters("got", "what came", ("n",), [(("a",), 1), None, (("b",), 2), None])
        yield make.gauge("size", "how much", 3)

    answer = finish(metrics_page(source))
    text = answer.body.decode()
    assert answer.content_type.startswith("text/plain; version=0.0.4")
    assert text.startswith('# HELP p_got_total what came\n# TYPE p_got_total counter\np_got_total{n="a"} 1.0\n')
    assert (text.count("# HELP p_got_total"), text.count("# TYPE p_got_total")) == (1, 1)
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["p_got"].samples] == [1, 2]
    assert [sample.value for sample in families["p_size"].samples] == [3]
    assert families["process_resident_memory_bytes"].samples[0].value > 0


def test_each_family_and_each_part_is_a_slice() -> None:
    make, made = Families("p"), []

    def source():
        for number in range(10):
            made.append(number)
            yield make.gauge("size", "how much", number)

    page = metrics_page(source)
    for number in range(10):
        next(page)
        assert made == list(range(number + 1))
