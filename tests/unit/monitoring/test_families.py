"""Claims about families of metrics."""

from __future__ import annotations

from orbitmq.monitoring.families import SERIES_PER_PART, Families
from orbitmq.process.histogram import Histogram


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
