"""Samples of a group's lag, and the file that keeps them: a line of JSON for each moment.

A run that is killed in the middle of a line leaves it without its end; the next run cuts it off.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue

SCHEMA = (
    "at_ms bigint, queues array<struct<broker: string, queue: int, committed: bigint, end: bigint, lag: bigint>>, "
    "trouble string"
)
"""The lines, for Spark."""


class GroupPosition(NamedTuple):
    """How far a group is in a queue at some moment; None: unknown.

    Args:
        committed: None also where the group has not committed any offset.
    """

    committed: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Messages that are still to come; unknown where one of the two is."""
        if self.committed is None or self.end is None:
            return None
        return max(0, self.end - self.committed)


UNKNOWN = GroupPosition(None, None)


def encode_sample(at_ms: int, places: Mapping[MessageQueue, GroupPosition], issue: str | None) -> bytes:
    """Return the line of one moment.

    Args:
        issue: why nothing is known of this moment.
    """
    queues = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": place.committed,
            "end": place.end,
            "lag": place.lag,
        }
        for queue, place in sorted(places.items())
    ]
    return orjson.dumps({"at_ms": at_ms, "queues": queues, "trouble": issue}) + b"\n"


def append_sample(path: Path, line: bytes) -> None:
    """Add a line; it survives a power cut."""
    with path.open("ab") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def recover_samples(path: Path, topic: str) -> tuple[int, list[MessageQueue]]:
    """Cut off a line without its end; return how many samples there are, and the queues of the newest.

    Raises:
        JobFailed: the newest line is none of ours.
    """
    if not path.exists():
        return 0, []
    with path.open("r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        file.truncate(whole)
    lines = content[:whole].splitlines()
    return len(lines), _queues(path, lines, topic)


def _queues(path: Path, lines: Sequence[bytes], topic: str) -> list[MessageQueue]:
    if not lines:
        return []
    try:
        return [MessageQueue(topic, found["broker"], found["queue"]) for found in orjson.loads(lines[-1])["queues"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise JobFailed(f"the last line of {path} is no sample: cut it off, or take a new directory") from None
