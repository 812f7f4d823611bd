"""Families of metrics, and the pages that every server has."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.monitoring.families import SERIES_PER_PART, Families
from orbitmq.monitoring.pages import metrics_page, server_pages
from orbitmq.net.http import JSON, HttpResponse
from orbitmq.process.histogram import Histogram
from orbitmq.wire.slices import finish


def samples(family) -> list[tuple[str, dict[str, str], float]]:
    return [(sample.name, dict(sample.labels), sample.value) for sample in family.samples]


def test_every_value_has_the_prefix_and_the_labels_of_its_server() -> None:
    make = Families("p", {"node": "a"})
    assert samples(make.gauge("size", "text", 3)) == [("p_size", {"node": "a"}, 3)]
    assert samples(make.counter("sent", "text", 4)) == [("p_sent_total", {"node": "a"}, 4)]
    (family,) = make.gauges("lag", "text", ("topic",), [(("t",), 5), (("u",), 6)])
    assert samples(family) == [("p_lag", {"node": "a", "topic": "t"}, 5), ("p_lag", {"node": "a", "topic": "u"}, 6)]
    (family,) = make.counters("got", "text", ("topic",), [(("t",), 7)])
    assert samples(family) == [("p_got_total", {"node": "a", "topic": "t"}, 7)]


def test_a_histogram_has_counts_up_to_each_bound() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.5, 9.0):
        histogram.observe(value)
    found = {
        (name, labels.get("le")): value for name, labels, value in samples(Families("p").histogram("s", "", histogram))
    }
    assert found == {
        ("p_s_bucket", "1.0"): 1,
        ("p_s_bucket", "2.0"): 2,
        ("p_s_bucket", "+Inf"): 3,
        ("p_s_count", None): 3,
        ("p_s_sum", None): 11,
    }


def test_a_family_without_a_value_is_there() -> None:
    (family,) = Families("p").gauges("lag", "text", ("topic",), [])
    assert (family.name, family.samples) == ("p_lag", [])


def test_many_values_come_in_parts() -> None:
    series = [((str(number),), float(number)) for number in range(2 * SERIES_PER_PART + 1)]
    parts = list(Families("p").gauges("lag", "text", ("n",), series))
    assert [len(part.samples) for part in parts] == [SERIES_PER_PART, SERIES_PER_PART, 1]
    assert [sample.value for part in parts for sample in part.samples] == [value for _, value in series]


def test_a_long_search_ends_a_part() -> None:
    parts = list(Families("p").gauges("lag", "text", ("n",), [None, (("a",), 1), None, None]))
    assert [len(part.samples) for part in parts] == [0, 1, 0, 0]


def test_histograms_that_differ_in_their_labels_come_in_parts() -> None:
    histogram = Histogram((1.0,))
    histogram.observe(3.0)
    series = [((str(number),), histogram) for number in range(SERIES_PER_PART)]
    parts = list(Families("p", {"node": "a"}).histograms("s", "text", ("n",), series))
    assert sum(len(part.samples) for part in parts) == 4 * SERIES_PER_PART
    assert max(len(part.samples) for part in parts) < SERIES_PER_PART + 4
    assert samples(parts[0])[:2] == [
        ("p_s_bucket", {"node": "a", "n": "0", "le": "1.0"}, 0),
        ("p_s_bucket", {"node": "a", "n": "0", "le": "+Inf"}, 1),
    ]


def test_a_histogram_may_have_been_counted_elsewhere() -> None:
    family = Families("p").counts("s", "text", [("1.0", 2), ("2.0", 3)], 5, 40)
    assert [value for _, _, value in samples(family)] == [2, 3, 5, 5, 40]


def answers(document: dict[str, Any]) -> dict[str, HttpResponse]:
    pages = server_pages(lambda: [Families("p").gauge("size", "", 1)], lambda: document, "not yet")
    found = {path: page({}) for path, page in pages.items()}
    return {path: answer if isinstance(answer, HttpResponse) else finish(answer) for path, answer in found.items()}


def test_a_server_that_is_not_healthy_answers_all_the_same() -> None:
    document = {"healthy": False, "ready": True, "alerts": ["a"]}
    health = answers(document)["/healthz"]
    assert (health.status, health.content_type) == (200, JSON)
    assert orjson.loads(health.body) == document


def test_readiness_is_a_status_and_the_reasons() -> None:
    assert answers({"ready": True})["/readyz"] == HttpResponse(b"ready\n", 200)
    assert answers({"ready": False})["/readyz"] == HttpResponse(b"not yet\n", 503)
    assert answers({"ready": False, "notReady": ["a", "b"]})["/readyz"] == HttpResponse(b"a\nb\n", 503)


def test_metrics_come_from_their_source() -> None:
    assert b"\np_size 1.0\n" in answers({"ready": True})["/metrics"].body


@each_case("/metrics", "/healthz", "/readyz")
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
