"""The checkpoint of a job that sends messages again: how far it is, in a file, so that a kill makes no difference.

A message that is sent again has the property `RESENT_FROM`: the id of the job's directory, and the place it comes from.
Whatever was sent after the newest checkpoint is found by it behind the ends that the checkpoint has of the topics.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import InvalidArgument, JobFailed
from orbitmq.files import replace_file
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Offsets, format_offsets, parse_offsets, parse_queues

FILE = "_progress.json"
"""In the job's directory."""
RESENT_FROM = "RESENT_FROM"
"""The property: `id/topic/broker/queue/offset`."""


class ResendProgress(NamedTuple):
    """What was sent, and what is sent to.

    Args:
        id: of the job's directory, new for each one.
        targets: the queues that are sent to, the same for all runs: a key stays in its queue when a topic gets more of them.
        began: where the targets' topics ended when they were first sent to.
        ends: where they ended when this was noted.
        done: of each queue that messages come from, the first offset that was not sent yet.
    """

    id: str
    targets: frozenset[MessageQueue] = frozenset()
    began: Offsets = {}
    ends: Offsets = {}
    done: Offsets = {}

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that are sent to, in an order that stays."""
        return sorted(queue for queue in self.targets if queue.topic == topic)

    def origin(self, queue: MessageQueue, offset: int) -> str:
        """Return the value of `RESENT_FROM` for the message of a place."""
        return f"{self.id}/{queue.topic}/{queue.broker_name}/{queue.queue_id}/{offset}"


def load_progress(path: Path) -> ResendProgress | None:
    """Return what an earlier run has noted, None where there was none.

    Raises:
        JobFailed: the file is none of ours.
    """
    if not path.exists():
        return None
    try:
        found = orjson.loads(path.read_bytes())
        began, ends, done = (parse_offsets(found[name], 0) for name in ("began", "ends", "done"))
        return ResendProgress(str(found["id"]), parse_queues(found["targets"]), began, ends, done)
    except (orjson.JSONDecodeError, InvalidArgument, KeyError, TypeError):
        raise JobFailed(f"{path} cannot be read: without it, begin with a new directory") from None


def save_progress(path: Path, progress: ResendProgress) -> None:
    """Note how far the job is; a power cut leaves the old note or the new one."""
    targets: dict[str, Any] = {}
    for topic, broker_name, queue_id in sorted(progress.targets):
        targets.setdefault(topic, {}).setdefault(broker_name, []).append(queue_id)
    offsets = {name: format_offsets(getattr(progress, name)) for name in ("began", "ends", "done")}
    replace_file(path, orjson.dumps({"id": progress.id, "targets": targets, **offsets}))
