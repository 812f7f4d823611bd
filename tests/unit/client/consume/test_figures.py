"""Sums of a consumer's work, and the means and rates made of them."""

from __future__ import annotations

from orbitmq.client.consume.figures import Figures, TopicFigures
from orbitmq.wire.bodies.consumers.running_info import ConsumeFigures


def test_means_and_rates_are_made_of_sums() -> None:
    figures = Figures(began_s=100.0)
    figures.topics["t"] = TopicFigures(pulls=4, pull_s=0.2, pulled=40, batches=10, consume_s=1.0, done=30, failed=10)
    assert figures.show("t", 110.0) == ConsumeFigures(
        pull_ms=50.0, pull_rate=4.0, consume_ms=100.0, done_rate=3.0, failed_rate=1.0, failed_count=10
    )


def test_a_topic_without_work_has_zeros_and_is_not_noted() -> None:
    figures = Figures(began_s=100.0)
    assert figures.show("t", 100.0) == ConsumeFigures()
    assert not figures.topics
