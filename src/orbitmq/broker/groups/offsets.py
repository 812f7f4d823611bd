"""Committed offsets: up to where each group has consumed each queue. Pure.

State: topic@group -> queue id -> queue offset. In: commits, with the end of the queue they speak of. Out: offsets.
A committed offset never lies beyond its queue's end (apache/rocketmq#4771): the caller says where that is.

Source: Java ConsumerOffsetManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from orbitmq.model.topic import LMQ_PREFIX, DataVersion

SEPARATOR = "@"
UNKNOWN = -1
"""The answer for a queue that a group never committed."""
OffsetTable = Mapping[str, Mapping[int, int]]
"""Offsets by `topic@group` and queue id."""


class GroupOffsets:
    """Committed offsets of all groups."""

    def __init__(
        self,
        offsets: Mapping[str, Mapping[int, int]] | None = None,
        version: DataVersion = DataVersion(),  # noqa: B008 - frozen
    ) -> None:
        self._offsets = {key: dict(queues) for key, queues in (offsets or {}).items()}
        self.version = version
        """Its time says up to when pops are in the offsets."""
        self.is_copied = False
        """These are a master's, and so is the version: a slave's clock says nothing of its master's pops."""
        self.change_count = 0
        """Grows with every change: tells whether the file is out of date."""
        self.resets: dict[tuple[str, str, int], int] = {}
        """Offsets that administrators have set and that no reader of the group was told yet, by group, topic and
        queue id. As in Java they are not kept over a restart: the offsets themselves are."""
        self.log_end = 0
        """Up to where the log has to be on the disk before these offsets may be kept: those of popped messages say that
        their checkpoints are in it."""

    @property
    def all(self) -> OffsetTable:
        """A read-only view of the whole table, by `topic@group`."""
        return MappingProxyType(self._offsets)

    def copy(self) -> OffsetTable:
        """Return the whole table as it is now, for a thread to encode."""
        return {key: queues.copy() for key, queues in self._offsets.items()}

    def query(self, group: str, topic: str, queue_id: int) -> int:
        """Return the committed offset, UNKNOWN without one."""
        queues = self._offsets.get(f"{topic}{SEPARATOR}{group}")
        return UNKNOWN if queues is None else queues.get(queue_id, UNKNOWN)

    def commit(self, group: str, topic: str, queue_id: int, queue_offset: int, *, offset_max: int) -> int:
        """Set a group's offset and return what was set: never negative, never above `offset_max`.

        Of an LMQ that has never had a message nothing is kept: there is no end of such names.
        """
        if not offset_max and topic.startswith(LMQ_PREFIX):
            return 0
        offset = max(0, min(queue_offset, offset_max))
        queues = self._offsets.setdefault(f"{topic}{SEPARATOR}{group}", {})
        if queues.get(queue_id) != offset:
            queues[queue_id] = offset
            self.change_count += 1
        return offset

    def reset(self, group: str, topic: str, queue_id: int, queue_offset: int, *, offset_max: int) -> int:
        """Set a group's offset for its readers, too: commits do not count until one of them was told."""
        offset = self.commit(group, topic, queue_id, queue_offset, offset_max=offset_max)
        self.resets[group, topic, queue_id] = offset
        return offset

    def note_copied(self, version: DataVersion) -> None:
        """Take note that these offsets are a master's, which has saved them with a version last."""
        self.version, self.is_copied = version, True

    def is_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return True if the group's readers have to be told another offset first."""
        return (group, topic, queue_id) in self.resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset that a reader of the group goes on at, once; None: where it is."""
        return self.resets.pop((group, topic, queue_id), None)

    def queues_of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return a group's offsets in a topic, by queue id."""
        return MappingProxyType(self._offsets.get(f"{topic}{SEPARATOR}{group}", {}))

    def topics_of(self, group: str) -> list[str]:
        """Return the topics that `group` has committed offsets for."""
        return [topic for topic, owner in map(_split, self._offsets) if owner == group]

    def topics_by_group(self) -> dict[str, list[str]]:
        """Return the topics that each group has committed offsets for."""
        found: dict[str, list[str]] = {}
        for topic, group in map(_split, self._offsets):
            found.setdefault(group, []).append(topic)
        return found

    def clone(self, group: str, twin: str, topic: str) -> bool:
        """Give `twin` the offsets that `group` has in a topic, in place of its own; False: there are none."""
        queues = self._offsets.get(f"{topic}{SEPARATOR}{group}")
        if queues is None:
            return False
        self._offsets[f"{topic}{SEPARATOR}{twin}"] = dict(queues)
        self.change_count += 1
        return True

    @property
    def groups(self) -> frozenset[str]:
        """All groups that have an offset."""
        return frozenset(_split(key)[1] for key in self._offsets)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets for `topic`."""
        return [group for name, group in map(_split, self._offsets) if name == topic]

    def forget_topic(self, topic: str) -> None:
        """Drop what all groups committed for a topic that is deleted."""
        self.resets = {place: offset for place, offset in self.resets.items() if place[1] != topic}
        self._forget(key for key in self._offsets if _split(key)[0] == topic)

    def forget_group(self, group: str) -> None:
        """Drop what a group that is deleted committed for all topics."""
        self.resets = {place: offset for place, offset in self.resets.items() if place[0] != group}
        self._forget(key for key in self._offsets if _split(key)[1] == group)

    def cut_to(self, offset_max: Callable[[str, int], int]) -> list[str]:
        """Pull back every offset beyond its queue's end, after a crash has cut the log; say which."""
        cut = []
        for key, queues in self._offsets.items():
            topic = _split(key)[0]
            for queue_id, offset in queues.items():
                end = offset_max(topic, queue_id)
                if offset > end:
                    queues[queue_id] = end
                    self.change_count += 1
                    cut.append(f"{key} queue {queue_id}: {offset} -> {end}")
        return cut

    def _forget(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            del self._offsets[key]
            self.change_count += 1


def _split(key: str) -> tuple[str, str]:
    topic, _, group = key.partition(SEPARATOR)
    return topic, group
