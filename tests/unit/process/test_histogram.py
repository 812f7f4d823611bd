from __future__ import annotations

from orbitmq.process.histogram import Histogram, Histograms


def test_a_histogram_counts_up_to_each_bound() -> None:
    histogram = Histogram((0.1, 1.0))
    for value in (0.1, 0.2, 5.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("0.1", 1.0), ("1.0", 2.0), ("+Inf", 3.0)]
    assert histogram.count == 3
    assert histogram.total == 5.3


def test_each_key_has_a_histogram_and_keys_are_bounded() -> None:
    found: Histograms[str] = Histograms((1.0,), count_max=2)
    for key, value in (("a", 0.5), ("b", 2.0), ("a", 3.0), ("c", 1.0)):
        found.observe(key, value)
    assert {key: histogram.cumulative() for key, histogram in found.items()} == {
        "a": [("1.0", 1.0), ("+Inf", 2.0)],
        "b": [("1.0", 0.0), ("+Inf", 1.0)],
    }
    found.forget("a")
    found.forget("never there")
    assert len(found) == 1
