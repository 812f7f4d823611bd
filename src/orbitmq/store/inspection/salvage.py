"""The way back for messages that recovery has set aside: each is appended again, as a new message of its queue.

New offsets are the only safe ones. The old ones may belong to other messages by now, and consumers may have gone past
them; at the end of its queue a message is seen by all consumers that read on. The price: messages of one queue keep their order
among themselves, but come behind those that were stored since; and a consumer that had one before the crash gets it again.

What was brought back carries its old place in the property SALVAGED_FROM. A salvage that is interrupted looks for these in
what it had appended, from the place that the file `quarantine/salvage` names, and appends nothing twice. A file is moved to
`quarantine/salvaged/` when everything in it is synced; nothing is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from orbitmq.errors import CorruptRecord, InvalidArgument, StoreError
from orbitmq.model.message import Host
from orbitmq.model.topic import is_reserved_topic
from orbitmq.store.disk import Disk
from orbitmq.store.inspection.layout import check_is_store, commit_log_files, log_files
from orbitmq.store.inspection.log_walk import LogWalk
from orbitmq.store.inspection.reading import ReadOnlyFile, read_small
from orbitmq.store.inspection.salvage_rules import SALVAGED_FROM, Classification, classify, draft_of
from orbitmq.store.inspection.small_files import quarantined, records_in
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.quarantine import NOTE_ENDING
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.store import Store
from orbitmq.store.values import NO_HOST, Draft, StoreConfig
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import BODY_AT, Record, parse_record

DONE_DIRECTORY = "salvaged"
JOURNAL = "salvage"


class Salvaged(NamedTuple):
    """What became of the records of one topic in one file."""

    path: str
    topic: str
    classification: Classification
    record_count: int


def plan_salvage(
    root: Path, config: StoreConfig, *, topics: Collection[str] | None = None
) -> Iterator[tuple[Path, Record, Classification]]:
    """Yield every record that was set aside, with what a salvage would do about it. Writes nothing.

    Args:
        topics: the topics that there are; None: unknown.

    Raises:
        InvalidArgument: the directory is not a store.
        OSError: a file cannot be read.
    """
    check_is_store(root)
    classifier = _Classifier(root, config.segment_size, topics, _journal(root))
    for path in quarantined(root):
        for record, classification in classifier.of(path):
            yield path, record, classification


def salvage(
    root: Path,
    config: StoreConfig,
    *,
    topics: Collection[str] | None = None,
    disk: Disk | None = None,
) -> list[Salvaged]:
    """Append what was set aside to the log of a stopped broker, and move the files that are done.

    Args:
        topics: the topics that there are; None: unknown.

    Returns:
        What became of the records, by file and topic.

    Raises:
        InvalidArgument: the directory is not a store.
        StoreError: a broker has it open, or the disk does not take it all. Begin again when it does.
    """
    check_is_store(root)
    disk = disk or LocalDisk()
    # The store is opened as a broker opens it: its locks are taken, and what a crash has left is recovered first.
    store = Store.open(config, store_host=_store_host(root), disk=disk)
    try:
        return _Salvage(root, config, store, disk, topics).run()
    finally:
        store.close()


class _Salvage:
    def __init__(
        self,
        root: Path,
        config: StoreConfig,
        store: Store,
        disk: Disk,
        topics: Collection[str] | None,
    ) -> None:
        self._root = root
        self._store = store
        self._disk = disk
        self._journal = root / "quarantine" / JOURNAL
        self._paths = quarantined(root)
        start = _journal(root)
        if start is None and self._paths:
            # Before the first message: whatever follows in the log may be one that was brought back.
            start = store.max_physical_offset
            disk.write(self._journal, b"%d\n" % start)
        self._classifier = _Classifier(root, config.segment_size, topics, start)

    def run(self) -> list[Salvaged]:
        counts: Counter[tuple[str, str, Classification]] = Counter()
        is_all_done = True
        for path in self._paths:
            is_done = True
            for record, classification in self._classifier.of(path):
                if classification is Classification.BRING_BACK:
                    classification = self._append(draft_of(record, _place_of(path, record)))
                is_done = is_done and not classification.keeps_file
                counts[str(path.relative_to(self._root)), record.topic, classification] += 1
            self._sync()
            if is_done:
                self._move(path)
            is_all_done = is_all_done and is_done
        if is_all_done:
            self._disk.remove(self._journal)
        return [Salvaged(*key, count) for key, count in counts.items()]

    def _append(self, draft: Draft) -> Classification:
        try:
            self._store.append(draft)
        except InvalidArgument:
            return Classification.DOES_NOT_FIT
        return Classification.BRING_BACK

    def _sync(self) -> None:
        """Return when everything that was appended is on the disk; a file may be moved then, and not before."""
        self._store.flush()
        if self._store.durable_offset < self._store.max_physical_offset:
            raise StoreError(f"the disk did not take what was brought back: {'; '.join(self._store.warnings)}")

    def _move(self, path: Path) -> None:
        target = path.parent / DONE_DIRECTORY / path.name
        number = 1
        while self._disk.exists(target) or self._disk.exists(target.with_name(target.name + NOTE_ENDING)):
            number += 1
            target = target.with_name(f"{path.name}-{number}")
        note = path.with_name(path.name + NOTE_ENDING)
        if self._disk.exists(note):
            self._disk.move(note, target.with_name(target.name + NOTE_ENDING))
        self._disk.move(path, target)


class _Classifier:
    """What is to become of records, by what the log has already."""

    def __init__(
        self,
        root: Path,
        segment_size: int,
        topics: Collection[str] | None,
        journal: int | None,
    ) -> None:
        self._deletions = Deletions(LocalDisk(), root / "deleted")
        self._topics = topics
        self._files = commit_log_files(log_files(root / "commitlog"), segment_size)
        self._met: set[tuple[int, int, int, int]] = set()
        """Records that lie in an earlier file as well: by offset, size, time and checksum."""
        self._brought = set() if journal is None else self._brought_back(journal)

    def of(self, path: Path) -> Iterator[tuple[Record, Classification]]:
        """Yield the records of a file. Raises OSError."""
        for record in records_in(path):
            key = (record.physical_offset, record.size, record.stored_at_ms, record.body_crc)
            classification = classify(
                record,
                is_met=key in self._met,
                is_brought_back=_place_of(path, record) in self._brought,
                is_in_log=self._is_in_log(record),
                is_deleted=self._deletions.covers(record.topic, record.physical_offset),
                has_topic=self._topics is None or record.topic in self._topics or is_reserved_topic(record.topic),
            )
            self._met.add(key)
            yield record, classification

    def _brought_back(self, start: int) -> set[bytes]:
        """Return the old places of what an interrupted salvage had appended."""
        found = set()
        for item in LogWalk(self._files).run(start):
            place = find_property(item.properties, SALVAGED_FROM) if isinstance(item, Record) else None
            if place is not None:
                found.add(place)
        return found

    def _is_in_log(self, record: Record) -> bool:
        """Return True if the log still has, or has again, this very record."""
        offset = record.physical_offset
        file = next((file for file in self._files if file.base <= offset < file.end), None)
        if file is None:
            return False
        try:
            with ReadOnlyFile(file.path) as content:
                view = content.read(offset - file.base, record.size)
            if len(view) < BODY_AT:
                return False
            there = parse_record(view, offset)
        except (OSError, CorruptRecord):
            return False
        return isinstance(there, Record) and there == record._replace(body=bytes(record.body))


def _place_of(path: Path, record: Record) -> bytes:
    """Return a record's old place: the file that holds it now, a colon, its offset."""
    return f"{path.name}:{record.physical_offset}".encode()


def _journal(root: Path) -> int | None:
    """Return where the log ended when an interrupted salvage began, None when none was."""
    content = (read_small(root / "quarantine" / JOURNAL, 100) or b"").strip()
    return int(content) if content.isdigit() else None


def _store_host(root: Path) -> Host:
    """Return the address that stands in the first record: what is appended is of the same broker."""
    for path in quarantined(root):
        for record in records_in(path):
            return record.store_host
    return NO_HOST
