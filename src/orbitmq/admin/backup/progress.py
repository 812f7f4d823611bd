"""The progress of a restore in a file: resumed, it sends what is missing.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.admin.backup.directory import named, read_bounded
from orbitmq.admin.backup.offset_map import OffsetMap, Run
from orbitmq.errors import ConfigError, OrbitError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies.document import boolean, items, number, parse_body, text

PROGRESS_NAME = "restore-progress.json"
_SIZE_MAX = 1024 * 1024 * 1024


class QueueProgress(NamedTuple):
    """One queue of the target: whether it was empty, and where messages of the backup are in it."""

    was_empty: bool
    offsets: OffsetMap


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
    document = {
        "backup": progress.backup,
        "brokers": dict(progress.brokers),
        "queues": [
            {
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queueId": queue.queue_id,
                "wasEmpty": found.was_empty,
                "base": found.offsets.base,
                "runs": list(map(list, found.offsets.runs)),
                "skipped": list(found.offsets.skipped.items()),
            }
            for queue, found in progress.queues.items()
        ],
    }
    return orjson.dumps(document)


def decode_progress(content: bytes) -> RestoreProgress:
    """Decode a progress file.

    Raises:
        HeaderError: it is none.
    """
    return parse_body("progress of a restore", content, _parse)


def _parse(document: dict[str, Any]) -> RestoreProgress:
    queues = {}
    for found in items(document["queues"]):
        queue = MessageQueue(text(found["topic"]), text(found["broker"]), number(found["queueId"]))
        runs = [Run(*map(number, run)) for run in items(found["runs"])]
        skipped = {number(offset): text(reason) for offset, reason in items(found.get("skipped", []))}
        queues[queue] = QueueProgress(boolean(found["wasEmpty"]), OffsetMap(number(found["base"]), runs, skipped))
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
        if is_resumed:
            raise ConfigError(
                "progress", str(path), "the file of an interrupted restore; without one, leave --resume out"
            ) from None
        return None
    if not is_resumed:
        raise ConfigError(
            "progress", str(path), "no such file: a restore was interrupted. Go on with --resume, or delete the file"
        )
    try:
        return decode_progress(content)
    except OrbitError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


def save_progress(path: Path, content: bytes) -> None:
    """Write an encoded progress file, durably."""
    with named(path):
        replace_file(path, content, mode=0o600)


def forget_progress(path: Path) -> None:
    """Remove the file of a restore that is done, its former generation as well."""
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".bak").unlink(missing_ok=True)
