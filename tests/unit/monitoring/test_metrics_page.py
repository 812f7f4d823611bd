"""Claims about the page `/metrics`."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from orbitmq.monitoring.families import Families
from orbitmq.monitoring.metrics_page import metrics_page
from orbitmq.wire.slices import finish


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
