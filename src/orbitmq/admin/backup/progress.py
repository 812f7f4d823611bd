"""The progress of a restore in a file: the offset of each queue up to which its messages are sent. Resumed, it goes on there.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.backup.directory import named, read_bounded
from orbitmq.admin.backup.plan import QueueProgress
from orbitmq.errors import ConfigError, HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text

PROGRESS_NAME = "restore-progress.json"
_FORMAT = 2
_NUMBERS = {"base": "base", "next_old": "nextOld", "next_new": "nextNew", "sent": "sent"}
_SIZE_MAX = 1024 * 1024 * 1024


class RestoreProgress(NamedTuple):
    """A restore under way.

    Args:
        backup: the checksum of the manifest that it restores.
        brokers: from the backup's broker names to the target's.
    """

    backup: str
    brokers: dict[str, str]
    queues: dict[MessageQueue, QueueProgress]


def encode_progress(progress: RestoreProgress) -> bytes:
    """Encode a progress file."""
    queues = [
        {"topic": queue.topic, "broker": queue.broker_name, "queueId": queue.queue_id}
        | {json_name: getattr(place, name) for name, json_name in _NUMBERS.items()}
        | {"wasEmpty": place.was_empty, "moved": list(place.moved.items()), "skipped": list(place.skipped.items())}
        for queue, place in progress.queues.items()
    ]
    document = {"format": _FORMAT, "backup": progress.backup, "brokers": progress.brokers, "queues": queues}
    return orjson.dumps(document)


def _parse(document: dict[str, Any]) -> RestoreProgress:
    if document.get("format") != _FORMAT:
        raise ValueError("written by another version; delete what was restored, and this file, and begin again")
    queues = {}
    for found in items(document["queues"]):
        queue = MessageQueue(text(found["topic"]), text(found["broker"]), number(found["queueId"]))
        base, next_old, next_new, sent = (number(found[name]) for name in _NUMBERS.values())
        queues[queue] = QueueProgress(
            base=base,
            next_old=next_old,
            next_new=next_new,
            sent=sent,
            was_empty=boolean(found["wasEmpty"]),
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
        return parse_body("progress of a restore", content, _parse)
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
