"""The progress of a restore in a file: the offset of each queue up to which its messages are sent. Resumed, it goes on there.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.backup.directory import named, read_bounded
from orbitmq.admin.backup.plan import QueueState
from orbitmq.errors import ClientError, ConfigError, HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text

PROGRESS_NAME = "restore-progress.json"
_FORMAT = 2
_SIZE_MAX = 1024 * 1024 * 1024


@dataclass(slots=True)
class QueueProgress:
    """One queue of the target.

    Args:
        before: what it was before the restore.
        next_old: queue offset in the backup up to which messages are sent or left out.
        next_new: queue offset in the target behind the last one that is sent.
        sent: messages.
        moved: committed offsets of groups to the new offset of the first message that the group had not read.
        skipped: offsets in the backup of messages that the target refused and that are left out, to the reason.
        waiting: committed offsets that are not in `moved` yet, the largest first; they are not in the file.
    """

    before: QueueState
    next_old: int = 0
    next_new: int = 0
    sent: int = 0
    moved: dict[int, int] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    waiting: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.next_new = max(self.next_new, self.before.end)

    def add(self, old: int, new: int) -> None:
        """Note that the message at `old` is at `new` now.

        Raises:
            ClientError: it is before one that was sent earlier.
        """
        if new < self.next_new:
            raise ClientError(
                f"the message at offset {old} is at {new} now, expected {self.next_new} at least: messages before it are lost"
            )
        while self.waiting and self.waiting[-1] <= old:
            self.moved[self.waiting.pop()] = new
        self.next_old, self.next_new, self.sent = old + 1, new + 1, self.sent + 1

    def skip(self, old: int, reason: str) -> None:
        """Note that the message at `old` is left out."""
        self.skipped[old] = reason
        self.next_old = old + 1

    def find(self, committed: int) -> int:
        """Return where a group goes on that had `committed`: at the first restored message that it had not read.

        That is the first message of all where the group was behind the beginning of its queue, and the end where it had
        read every message.
        """
        return self.moved.get(committed, self.next_new)


class RestoreProgress(NamedTuple):
    """A restore under way.

    Args:
        backup: the checksum of the manifest that it restores.
        brokers: from the backup's broker names to the target's.
    """

    backup: str
    brokers: Mapping[str, str]
    queues: Mapping[MessageQueue, QueueProgress]


def encode_progress(progress: RestoreProgress) -> bytes:
    """Encode a progress file."""
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queueId": queue.queue_id,
            "wasEmpty": found.before.is_empty,
            "base": found.before.end,
            "nextOld": found.next_old,
            "nextNew": found.next_new,
            "sent": found.sent,
            "moved": list(found.moved.items()),
            "skipped": list(found.skipped.items()),
        }
        for queue, found in progress.queues.items()
    ]
    document = {"format": _FORMAT, "backup": progress.backup, "brokers": dict(progress.brokers), "queues": queues}
    return orjson.dumps(document)


def decode_progress(content: bytes) -> RestoreProgress:
    """Decode a progress file.

    Raises:
        HeaderError: it is not one, or that of another version.
    """
    return parse_body("progress of a restore", content, _parse)


def _parse(document: dict[str, Any]) -> RestoreProgress:
    if document.get("format") != _FORMAT:
        raise ValueError("written by another version; delete what was restored, and this file, and begin again")
    queues = {}
    for found in items(document["queues"]):
        queue = MessageQueue(text(found["topic"]), text(found["broker"]), number(found["queueId"]))
        queues[queue] = QueueProgress(
            QueueState(number(found["base"]), boolean(found["wasEmpty"])),
            number(found["nextOld"]),
            number(found["nextNew"]),
            number(found["sent"]),
            moved={number(committed): number(new) for committed, new in items(found["moved"])},
            skipped={number(offset): text(reason) for offset, reason in items(found["skipped"])},
        )
    brokers = {text(old): text(new) for old, new in document["brokers"].items()}
    return RestoreProgress(text(document["backup"]), brokers, queues)


def load_progress(path: Path, *, is_resumed: bool) -> RestoreProgress | None:
    """Return how far an interrupted restore is; None where a new one begins.

    Raises:
        ConfigError: there is one, and it is not to be resumed; or the other way round.
        StoreError: the file cannot be used.
    """
    try:
        content = read_bounded(path, _SIZE_MAX)
    except FileNotFoundError:
        if not is_resumed:
            return None
        allowed = "the file of an interrupted restore; without one, leave --resume out"
        raise ConfigError("progress", str(path), allowed) from None
    if not is_resumed:
        allowed = "no such file: a restore was interrupted. Go on with --resume, or delete the file"
        raise ConfigError("progress", str(path), allowed)
    try:
        return decode_progress(content)
    except HeaderError as error:
        raise StoreError(f"{path} cannot be used: {error.remark}") from error


def save_progress(path: Path, content: bytes) -> None:
    """Write an encoded progress file, durably."""
    with named(path):
        replace_file(path, content, mode=0o600)


def forget_progress(path: Path) -> None:
    """Remove the file of a restore that is done, its former generation as well."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".bak").unlink(missing_ok=True)
