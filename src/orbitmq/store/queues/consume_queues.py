"""All consume queues of a store, by topic and queue id: `consumequeue/<topic>/<queue id>/<files>`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from orbitmq.errors import DamagedLog, InvalidArgument
from orbitmq.model.delay_levels import DELAY_LEVELS, DelayLevels
from orbitmq.model.topic import LMQ_PREFIX
from orbitmq.store.disk import BulkSync, Disk
from orbitmq.store.dispatch import is_queued
from orbitmq.store.log.open_files import OpenFiles
from orbitmq.store.queues.consume_queue import Chunk, ConsumeQueue
from orbitmq.store.values import Dispatched
from orbitmq.wire.messages.record import format_topic

log = logging.getLogger(__name__)

NAME_SIZE_MAX = 255
_SEEN_SIZE_MAX = 64 * 1024 * 1024

QueueKey = tuple[str, int]
"""(topic, queue id)."""


class ConsumeQueues:
    """The table of consume queues; a queue is made when its first message comes.

    Args:
        delay_levels: how long delayed messages wait, for entries that are written from the log.
    """

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        unit_count: int,
        *,
        open_files: OpenFiles | None = None,
        delay_levels: DelayLevels = DELAY_LEVELS,
    ) -> None:
        self.delay_levels = delay_levels
        self.table: dict[QueueKey, ConsumeQueue] = {}
        self.lmq_count = 0
        """LMQs among them."""
        self._of_topics: dict[str, list[ConsumeQueue]] = {}
        self._unsynced: list[ConsumeQueue] = []
        self._read_ahead: dict[ConsumeQueue, Chunk] = {}
        self._disk = disk
        self._open_files = open_files
        self._directory = directory
        self._latest: tuple[str | None, str, tuple[int, bytes]] = None, "", (0, b"")
        self._unit_count = unit_count

    def __iter__(self) -> Iterator[ConsumeQueue]:
        """Yield every queue."""
        return iter(self.table.values())

    def load(self) -> set[QueueKey]:
        """Find the queues that are there; return those whose files are missing or cut short.

        Raises:
            StoreError: files of another size than configured.
        """
        damaged = set()
        seen_size = 0
        for topic in self._disk.names(self._directory):
            for name in self._disk.names(self._directory / topic):
                if name.isascii() and name.isdecimal():
                    queue = self.make(topic, int(name))
                    try:
                        queue.load()
                    except DamagedLog as error:
                        log.warning("a consume queue is damaged: %s", error)
                        damaged.add((topic, queue.queue_id))
                    seen_size += queue.seen_size
                    if seen_size > _SEEN_SIZE_MAX:
                        queue.forget_seen()
        return damaged

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return a queue, None when no message ever came to it."""
        return self.table.get((topic, queue_id))

    def make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return a queue that is new if need be. Its files come with its first message.

        Raises:
            InvalidArgument: the topic cannot name a directory (CVE-2019-17572), or the queue id is negative.
        """
        queue = self.table.get((topic, queue_id))
        if queue is None:
            directory, form = self._directory_of(topic)
            if queue_id < 0:
                raise InvalidArgument("queue_id", queue_id, "a number of at least 0")
            queue = ConsumeQueue(
                self._disk,
                f"{directory}/{queue_id}",
                self._unit_count,
                topic,
                queue_id,
                form=form,
                note_unsynced=self._unsynced.append,
                open_files=self._open_files,
                read_ahead=self._read_ahead,
            )
            self.table[(topic, queue_id)] = queue
            self._of_topics.setdefault(topic, []).append(queue)
            self.lmq_count += topic.startswith(LMQ_PREFIX)
        return queue

    def topics(self) -> list[str]:
        """Return the topics of all queues, sorted."""
        return sorted(self._of_topics)

    def of_topic(self, topic: str) -> list[ConsumeQueue]:
        """Return a topic's queues."""
        return list(self._of_topics.get(topic, ()))

    def _directory_of(self, topic: str) -> tuple[str, tuple[int, bytes]]:
        """Return a topic's directory and its form, made once for all of its queues when the store is loaded."""
        known, directory, form = self._latest
        if topic != known:
            directory = f"{self._directory}/{check_directory_name(topic)}"
            form = format_topic(topic)
            self._latest = topic, directory, form
        return directory, form

    def put(self, message: Dispatched) -> None:
        """Write the entry of a message that has just become readable."""
        if is_queued(message.sys_flag):
            self.table[(message.topic, message.queue_id)].put(
                message.queue_offset, message.physical_offset, message.size, message.tag_code
            )

    def replay(self, message: Dispatched, *, with_gaps: bool = False) -> bool:
        """Write the entry of a message that recovery found, if it has one.

        Args:
            with_gaps: also where the messages before it are missing (see `ConsumeQueue.replay`).

        Returns:
            False: the queue does not go on with this message; nothing was written.

        Raises:
            InvalidArgument: as `make`.
        """
        if not is_queued(message.sys_flag):
            return True
        queue = self.table.get((message.topic, message.queue_id)) or self.make(message.topic, message.queue_id)
        queue_offset = message.queue_offset
        if not with_gaps and not queue.goes_on_at(queue_offset):
            return False
        return queue.replay(queue_offset, message.physical_offset, message.size, message.tag_code)

    def remove_topic(self, topic: str) -> None:
        """Forget a topic's queues and delete their files."""
        queues = self._of_topics.pop(topic, [])
        for queue in queues:
            del self.table[(topic, queue.queue_id)]
            queue.forget()
            self.lmq_count -= topic.startswith(LMQ_PREFIX)
        if queues:
            self._disk.remove(self._directory / topic)

    def bulk_sync(self) -> BulkSync | None:
        """Begin to write to many queues (see Disk.bulk_sync)."""
        return self._disk.bulk_sync(self._directory)

    def take_unsynced(self) -> list[ConsumeQueue]:
        """Return the queues that got entries since the last call, each of them once."""
        unsynced = list(dict.fromkeys(self._unsynced))
        self._unsynced.clear()
        return unsynced

    def unsynced_size(self, under_way: Iterable[ConsumeQueue]) -> int:
        """Return how many bytes of memory hold entries that are not known to be on the disk.

        Args:
            under_way: queues that were taken with `take_unsynced` and are not done.
        """
        return sum(queue.unsynced_size for queue in {*self._unsynced, *under_way})

    def close(self) -> None:
        """Close every file."""
        for queue in self:
            queue.log.close()


def check_directory_name(topic: str) -> str:
    """Return `topic` when it can safely name a directory.

    The broker's doors check names against RocketMQ's alphabet; here it is about the file tree, and about records that
    a damaged disk or another program wrote.
    """
    if not is_directory_name(topic):
        raise InvalidArgument("topic", topic, "a name of at most 255 bytes without a slash")
    return topic


def is_directory_name(topic: str) -> bool:
    """Return True if `topic` can safely name a directory."""
    is_step = topic in ("", ".", "..")
    return not (is_step or "/" in topic or "\0" in topic or len(topic.encode(errors="replace")) > NAME_SIZE_MAX)
