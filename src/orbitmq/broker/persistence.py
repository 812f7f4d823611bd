"""The broker's tables as files: topics.json, consumerOffset.json, subscriptionGroup.json ..., in Java's formats.

Source: docs/formats/config_files.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from orbitmq.broker.groups.configs import GROUPS_MAX, GroupConfigs
from orbitmq.broker.groups.offsets import SEPARATOR, GroupOffsets, OffsetTable
from orbitmq.broker.groups.table_file import TableFile, Ticket
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.broker.topics.table import TOPICS_MAX, TopicTable
from orbitmq.clock import Clock
from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import has_generation, read_table, replace_file, way_out, write_aside
from orbitmq.model.topic import DataVersion
from orbitmq.store.disk import write_whole
from orbitmq.store.lmq import LMQ_QUEUE_ID, is_lmq
from orbitmq.store.local_disk import LocalDisk
from orbitmq.wire import fastjson
from orbitmq.wire.bodies import static_topics as mapping_bodies
from orbitmq.wire.bodies import topics as topic_bodies
from orbitmq.wire.bodies.groups import decode_group_table, group_table_parts
from orbitmq.wire.bodies.offsets import parse_committed
from orbitmq.wire.bodies.registration import data_version_document, parse_data_version

log = logging.getLogger(__name__)


REPEATING = {"consumerOrderInfo.json": "batches that were out in order come again"}
"""Tables whose loss repeats messages and is told."""
NEEDED = {
    "topics.json": "the broker would know none of its topics",
    "subscriptionGroup.json": "groups would lose their settings",
    "consumerOffset.json": "groups would start over: they read messages again, or miss some",
    "lmqConsumerOffset.json": "groups would start over: they read messages again, or miss some",
    "delayOffset.json": "delayed messages that were delivered would come again",
    "messageRequestMode.json": "groups that pop would pull",
    "auth.json": "no user could sign, and rules that deny would be gone",
    "topicQueueMapping.json": "queues of static topics would be taken for plain ones, under other offsets",
}
"""Tables that no start goes on without, and what would come of it."""
NEWEST_ALONE = ("auth.json",)
"""Those of them whose `.bak` is not read: it may have users and rules that were taken away."""


class ConfigFiles:
    """The files that keep the tables between two runs.

    Args:
        directory: `store/config`.
        has_lmq: offsets are kept in the file that Java's broker keeps them in then.
    """

    def __init__(self, directory: Path, *, has_lmq: bool = False) -> None:
        self._has_lmq = has_lmq
        self.topics_path = directory / "topics.json"
        self.plain_offsets_path = directory / "consumerOffset.json"
        self.offsets_path = directory / "lmqConsumerOffset.json" if has_lmq else self.plain_offsets_path
        self.delays_path = directory / "delayOffset.json"
        self.delivered_path = directory.parent / "delivered"
        self.delivered_since_path = directory / "deliveredSince"
        self.transactions_path = directory / "transactionMetrics"
        self.timer_metrics_path = directory / "timermetrics"
        self.groups_path = directory / "subscriptionGroup.json"
        self.ordered_path = directory / "consumerOrderInfo.json"
        self.request_modes_path = directory / "messageRequestMode.json"
        self.access_path = directory / "auth.json"
        self.mappings_path = directory / "topicQueueMapping.json"
        self._topics_file = TableFile(self.topics_path)
        self._groups_file = TableFile(self.groups_path)
        self._mappings_file = TableFile(self.mappings_path)

    def load_topics(self, *, auto_create_enable: bool, count_max: int = TOPICS_MAX) -> TopicTable:
        """Return the stored topic table, an empty one at the first start."""
        found = read_table(self.topics_path, topic_bodies.decode_topic_table)
        if found is None:
            return TopicTable(auto_create_enable=auto_create_enable, count_max=count_max)
        return TopicTable(
            found.topics.values(), found.data_version, auto_create_enable=auto_create_enable, count_max=count_max
        )

    def save_topics(self, topics: TopicTable) -> None:
        """Store the topic table."""
        self.topic_ticket(topics).write()

    def topic_ticket(self, topics: TopicTable) -> Ticket:
        """Return the topic table on its way to its file; the table must not change until it is written."""
        table = topic_bodies.TopicTable(topics.version, topics.all)
        return self._topics_file.ticket(partial(topic_bodies.topic_table_parts, table, pretty=True))

    def load_mappings(self) -> StaticTopicTable:
        """Return the mappings of static topics, none at most brokers."""
        found = read_table(self.mappings_path, mapping_bodies.decode_mapping_table)
        return StaticTopicTable() if found is None else StaticTopicTable(found.mappings.values(), found.data_version)

    def save_mappings(self, mappings: StaticTopicTable) -> None:
        """Store the mappings of static topics."""
        table = mapping_bodies.MappingTable(mappings.version, mappings.all)
        self._mappings_file.ticket(partial(mapping_bodies.encode_mapping_table, table)).write()

    def load_offsets(self) -> GroupOffsets:
        """Return the committed offsets, none at the first start; at the first with LMQs those from before."""
        found = read_table(self.offsets_path, parse_offsets)
        return found or read_table(self.plain_offsets_path, parse_offsets) or GroupOffsets()

    def save_offsets(self, offsets: GroupOffsets) -> None:
        """Store the committed offsets."""
        encode = format_lmq_offsets if self._has_lmq else format_offsets
        replace_file(self.offsets_path, encode(offsets.version, offsets.all))

    def load_groups(self, *, auto_create_enable: bool, count_max: int = GROUPS_MAX) -> GroupConfigs:
        """Return the groups' settings, only the system's at the first start."""
        found = read_table(self.groups_path, decode_group_table)
        if found is None:
            return GroupConfigs(auto_create_enable=auto_create_enable, count_max=count_max, has_lmq=self._has_lmq)
        return GroupConfigs(
            found.groups.values(),
            found.data_version,
            forbidden=found.forbidden,
            auto_create_enable=auto_create_enable,
            count_max=count_max,
            has_lmq=self._has_lmq,
        )

    def save_groups(self, groups: GroupConfigs) -> None:
        """Store the groups' settings."""
        self.group_ticket(groups).write()

    def group_ticket(self, groups: GroupConfigs) -> Ticket:
        """Return the groups' settings on their way to their file; they must not change until they are written."""
        return self._groups_file.ticket(partial(group_table_parts, groups.table, pretty=True))


class KnownTables:
    """The file `tables`: names the tables that this store has had, so that a removed one is detected.

    An empty table has no file, so a missing file alone is no sign.

    Args:
        directory: `store/config`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory.parent / "tables"
        self._known: list[str] = []
        """The content of the file: a name per line. A damaged file is written again."""

    def check(self) -> None:
        """Check that no known table is missing.

        Raises:
            StoreError: a table is gone, and so is its `.bak`.
        """
        try:
            self._known = known_table_names(self._directory)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error
        for name in self._known:
            path = self._directory / name
            if name in REPEATING and not has_generation(path):
                log.warning("%s is missing, and so is its .bak: %s", path, REPEATING[name])
            elif name in NEEDED and not has_generation(path):
                raise StoreError(f"{path} is missing, and so is its .bak: {NEEDED[name]}. {way_out(path)}")

    async def save(self) -> None:
        """Add the tables that are new. A thread syncs the file."""
        names = self._names()
        if names != self._known:
            await write_aside(self._write, names)

    def save_now(self) -> None:
        """Do the same on the caller's thread; an error of the disk is logged."""
        names = self._names()
        if names != self._known:
            try:
                self._write(names)
            except OSError as error:
                log.warning("%s cannot be written: a table that is removed would not be missed: %s", self._path, error)

    def _names(self) -> list[str]:
        return [name for name in (*NEEDED, *REPEATING) if name in self._known or has_generation(self._directory / name)]

    def _write(self, names: list[str]) -> None:
        write_whole(LocalDisk(), self._path, "".join(f"{name}\n" for name in names).encode())
        self._known = names


def known_table_names(directory: Path) -> list[str]:
    """Return the lines of the file `tables`, none without one. Raises OSError."""
    try:
        return (directory.parent / "tables").read_bytes().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


class OffsetFile:
    """The file of the committed offsets, written from time to time: losing the last seconds repeats messages.

    Args:
        is_lmq: write the form of lmqConsumerOffset.json.
        durable_offset: up to where the log is on the disk. Offsets of popped messages are kept when their checkpoints
            are there: a crash would lose the messages otherwise.
    """

    def __init__(
        self,
        path: Path,
        offsets: GroupOffsets,
        clock: Clock,
        durable_offset: Callable[[], int] = lambda: _ANYWHERE,
        *,
        is_lmq: bool = False,
    ) -> None:
        self._format = format_lmq_offsets if is_lmq else format_offsets
        self._path = path
        self._offsets = offsets
        self._clock = clock
        self._durable_offset = durable_offset
        self._saved_change_count = 0
        self._waiting: _OffsetSnapshot | None = None

    async def save(self) -> None:
        """Write the offsets when they changed. A thread syncs the bytes, so that a slow disk stops no request."""
        snapshot = self._take(is_last=False)
        if snapshot is not None:
            await write_aside(self._write, snapshot)
            # Commits that came since are not in the file: they count as changes still.
            self._saved_change_count = snapshot.change_count

    def save_now(self) -> None:
        """Write the offsets when they changed, on the caller's thread."""
        snapshot = self._take(is_last=True)
        if snapshot is not None:
            self._write(snapshot)

    def _write(self, snapshot: _OffsetSnapshot) -> None:
        """Encode and write, on any thread: many offsets take longer than the event loop may be held."""
        replace_file(self._path, self._format(snapshot.version, snapshot.offsets))

    def _take(self, *, is_last: bool) -> _OffsetSnapshot | None:
        """Return what may be written now: the offsets as they are, or as they were when one before was to be written."""
        offsets, durable = self._offsets, self._durable_offset()
        waiting = self._waiting
        if offsets.log_end > durable and waiting is not None and waiting.log_end <= durable:
            self._waiting = None
            return waiting
        if offsets.change_count == self._saved_change_count:
            return None
        if not is_last and not offsets.is_copied:
            offsets.version = offsets.version.next(self._clock())
        if offsets.log_end <= durable:
            self._waiting = None
            return _OffsetSnapshot.of(offsets)
        if waiting is None:
            self._waiting = _OffsetSnapshot.of(offsets)
        return None


class _OffsetSnapshot(NamedTuple):
    """The offsets as they were once, and up to where the log has to be on the disk before they are written."""

    change_count: int
    log_end: int
    version: DataVersion
    offsets: OffsetTable

    @classmethod
    def of(cls, offsets: GroupOffsets) -> _OffsetSnapshot:
        return cls(offsets.change_count, offsets.log_end, offsets.version, offsets.copy())


_ANYWHERE = 2**63 - 1


def format_offsets(version: DataVersion, offsets: OffsetTable) -> bytes:
    """Return the content of consumerOffset.json, queue ids bare as fastjson writes them."""
    return fastjson.dumps_loose({"dataVersion": data_version_document(version), "offsetTable": offsets})


def format_lmq_offsets(version: DataVersion, offsets: OffsetTable) -> bytes:
    """Return the content of lmqConsumerOffset.json: groups named as LMQs have one offset in each topic.

    Theirs of other queues than 0, which Java would take for that one's, stand in the other table, which it does not read
    for such groups.
    """
    lmq: dict[str, int] = {}
    others: dict[str, Mapping[int, int]] = {}
    for key, queues in offsets.items():
        if is_lmq(key.partition(SEPARATOR)[2]) and LMQ_QUEUE_ID in queues:
            lmq[key] = queues[LMQ_QUEUE_ID]
            queues = {queue_id: offset for queue_id, offset in queues.items() if queue_id != LMQ_QUEUE_ID}
            if not queues:
                continue
        others[key] = queues
    return fastjson.dumps_loose(
        {"dataVersion": data_version_document(version), "lmqOffsetTable": lmq, "offsetTable": others}
    )


def parse_offsets(data: bytes) -> GroupOffsets:
    """Parse consumerOffset.json or lmqConsumerOffset.json, with bare or quoted queue ids.

    Raises:
        HeaderError: not such a file.
    """
    try:
        document = fastjson.loads(data)
        return GroupOffsets(parse_committed(document), parse_data_version(document.get("dataVersion") or {}))
    except (ValueError, TypeError, AttributeError) as error:
        raise HeaderError(f"consumer offsets: {error}") from None
