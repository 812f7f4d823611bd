"""A logical queue as its leader knows it."""

from __future__ import annotations

from orbitmq.broker.static_topics.steps import LogicalQueue
from orbitmq.model.static_topic import MappingItem


def test_the_last_item_takes_what_is_sent() -> None:
    items = (MappingItem(0, 1, "a", 0), MappingItem(1, 5, "b", -1))
    assert LogicalQueue("t", 7, items).leader == items[1]
