from __future__ import annotations

import xml.etree.ElementTree as ET

from orbitmq.spark.jobs.latencies import Latency
from orbitmq.spark.jobs.latency_plot import draw_latencies


def drawn(*latencies):
    return ET.fromstring(draw_latencies(latencies))


def places(picture):
    return [float(circle.get("cx")) for circle in picture.findall("{*}circle")][3:]


def test_a_decade_is_as_wide_as_the_next():
    one, ten, hundred = places(drawn(Latency("t", "g", 9, 1, 10, 100, 1000)))
    assert abs((ten - one) - (hundred - ten)) < 0.2


def test_names_are_shown_as_they_are():
    texts = [text.text for text in drawn(Latency("<t>", "a&b", 1, 1, 1, 1, 1)).findall("{*}text")]
    assert "<t> → a&b" in texts


def test_what_is_not_later_than_its_sending_stands_at_the_left_end():
    assert len(set(places(drawn(Latency("t", "g", 1, -5, 0, 1, 1))))) == 1


def test_nothing_is_a_picture_without_lines():
    assert places(drawn()) == []
