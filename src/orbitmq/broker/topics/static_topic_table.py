"""The mappings of a broker's static topics, and the rules of their changes. Pure.

Source: Java TopicQueueMappingManager.updateTopicQueueMapping.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from orbitmq.broker.versioned_table import VersionedTable
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.model.static_topic import QueueMapping, check_items, check_successors
from orbitmq.model.topic import DataVersion

LOGICAL_QUEUES_MAX = 16_384
"""Ours: as many as a plain topic may have on one broker."""
STATIC_TOPICS_MAX = 10_000
"""Ours: as many mappings as a NameServer takes of one broker."""


class StaticTopicTable(VersionedTable[QueueMapping]):
    """The mapping of every static topic of this broker."""

    def __init__(
        self,
        mappings: Iterable[QueueMapping] = (),
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__({mapping.topic: mapping for mapping in mappings}, version, count_max=STATIC_TOPICS_MAX)

    def update(self, mapping: QueueMapping, now_ms: int, *, is_forced: bool = False) -> None:
        """Take over a mapping; logical queues that it does not name stay as they were.

        Raises:
            Rejected: 1, it makes no queues, is older than what is known, or contradicts it. Forced, only the first counts.
        """
        try:
            _check_alone(mapping)
            self._put(mapping.topic, self._merged(mapping, is_forced=is_forced), now_ms)
        except InvalidArgument as error:
            raise _refused(str(error)) from None

    def _merged(self, mapping: QueueMapping, *, is_forced: bool) -> QueueMapping:
        old = self.get(mapping.topic)
        if old is None:
            if not self.has_room(mapping.topic):
                raise _refused(f"there are {self.count_max} static topics")
            return mapping
        if not is_forced:
            _check_change(old, mapping)
        return dataclasses.replace(mapping, queues={**old.queues, **mapping.queues})


def _check_alone(mapping: QueueMapping) -> None:
    if not 0 <= mapping.queue_count <= LOGICAL_QUEUES_MAX:
        raise InvalidArgument("totalQueues", mapping.queue_count, f"0 to {LOGICAL_QUEUES_MAX}")
    for queue_id, items in mapping.queues.items():
        if not 0 <= queue_id < LOGICAL_QUEUES_MAX:
            raise InvalidArgument("hostedQueues", queue_id, f"queues from 0 to {LOGICAL_QUEUES_MAX - 1}")
        check_items(items)


def _check_change(old: QueueMapping, new: QueueMapping) -> None:
    if new.epoch < old.epoch:
        raise _refused(f"Can't accept data with small epoch {new.epoch} < {old.epoch}")
    if new.scope != old.scope:
        raise _refused(f"Can't accept data with unmatched scope {new.scope:.80} != {old.scope}")
    is_same_epoch = new.epoch == old.epoch
    for queue_id, items in old.queues.items():
        if queue_id in new.queues:
            check_successors(items, new.queues[queue_id], is_same_epoch=is_same_epoch)
        elif is_same_epoch:
            raise _refused("Cannot accept equal epoch with null data")


def _refused(why: str) -> Rejected:
    return Rejected(ResponseCode.SYSTEM_ERROR, why)
