"""Changes of mappings: what is taken over, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.errors import Rejected
from orbitmq.model.static_topic import MappingItem, QueueMapping

OWN = MappingItem(0, 0, "a", 0)
MOVED = (OWN, MappingItem(1, 0, "b", 10_000))


def mapping(**changes: Any) -> QueueMapping:
    settings: dict[str, Any] = {"topic": "t", "broker_name": "a", "queue_count": 2, "epoch": 5}
    return QueueMapping(**settings | {"queues": {0: (OWN,), 1: (OWN._replace(queue_id=1),)}} | changes)


def test_a_later_mapping_changes_what_it_names_and_leaves_the_other_queues() -> None:
    table = StaticTopicTable()
    table.update(mapping(), 1)
    table.update(mapping(epoch=6, queues={0: MOVED}), 2)
    found = table.get("t")
    assert found is not None
    assert (found.epoch, found.queues) == (6, {0: MOVED, 1: (OWN._replace(queue_id=1),)})
    assert table.version.counter == 2


@each_case(
    ({"epoch": 4}, "small epoch 4 < 5"),
    ({"epoch": 6, "scope": "other"}, "unmatched scope other"),
    ({"queues": {0: (OWN,)}}, "equal epoch with null data"),
    ({"epoch": 6, "queues": {0: (OWN._replace(queue_id=9),)}}, "generation 0"),
    ({"queues": {0: MOVED, 1: (OWN._replace(queue_id=1),)}}, "leader of this epoch"),
    ({"epoch": 6, "queue_count": 16_385}, "totalQueues"),
    ({"epoch": 6, "queue_count": -1}, "totalQueues"),
    ({"epoch": 6, "queues": {-1: (OWN,)}}, "hostedQueues"),
    ({"epoch": 6, "queues": {16_384: (OWN,)}}, "hostedQueues"),
    ({"epoch": 6, "queues": {0: (OWN._replace(generation=-1),)}}, "gen"),
)
def test_a_mapping_that_is_older_contradicts_or_makes_no_queue_is_refused(changes: dict[str, Any], why: str) -> None:
    table = StaticTopicTable([mapping()])
    with pytest.raises(Rejected, match=why) as refused:
        table.update(mapping(**changes), 1)
    assert refused.value.code == 1
    assert table.get("t") == mapping()


def test_by_force_a_mapping_goes_back_but_not_to_one_that_makes_no_queue() -> None:
    table = StaticTopicTable([mapping()])
    table.update(mapping(epoch=1, queues={0: (OWN._replace(queue_id=9),)}), 1, is_forced=True)
    found = table.get("t")
    assert found is not None
    assert (found.epoch, found.queues[0][0].queue_id, found.queues[1][0].queue_id) == (1, 9, 1)
    with pytest.raises(Rejected, match="startOffset"):
        table.update(mapping(queues={0: (OWN._replace(start_offset=-1),)}), 1, is_forced=True)


def test_one_static_topic_too_many_is_refused() -> None:
    table = StaticTopicTable()
    table.count_max = 1
    table.update(mapping(), 1)
    with pytest.raises(Rejected, match="1 static topics"):
        table.update(mapping(topic="other"), 1)
