from __future__ import annotations

from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.progress import group_progress
from orbitmq.model.route import MessageQueue
from orbitmq.store import Draft
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.topics import Progress

from ..parts import memory_store


def test_a_group_stands_in_every_queue_also_where_it_has_no_offset() -> None:
    clock = FakeClock()
    store = memory_store(clock=clock)
    for _ in range(3):
        clock.advance(1)
        store.append(Draft("t", 0, b"x"))
    offsets = GroupOffsets()
    offsets.commit("g", "t", 0, 2, offset_max=3)
    stored_at_ms = store.message_at("t", 0, 1).stored_at_ms
    assert group_progress(store, offsets, "a", "g", "t", 2) == {
        MessageQueue("t", "a", 0): Progress(3, 2, 2, stored_at_ms),
        MessageQueue("t", "a", 1): Progress(0, 0, 0, 0),
    }
