"""The watch of a group's lag: samples that administrators' calls give, and the directory that keeps them.

```
DIRECTORY/lag.jsonl   a line for each moment; what was unknown then is null, never 0
DIRECTORY/lag.svg     the lag of all queues together over time, replaced by each run
```

A run that is killed in the middle of a line leaves it without its end; the next run cuts it off.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from pathlib import Path

from orbitmq.admin.client import AdminClient
from orbitmq.admin.each_master import notices_of
from orbitmq.client.routing.route_queues import readable_queues
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, JobFailed
from orbitmq.files import replace_file
from orbitmq.job_directory import claimed
from orbitmq.model.route import MessageQueue
from orbitmq.monitoring.lag_samples import (
    LINE_START,
    UNKNOWN,
    GroupPosition,
    LagSample,
    QueueSummary,
    QueueValue,
    decode_samples,
    encode_sample,
    summarise_queues,
    total_lags,
)
from orbitmq.monitoring.plots import draw_lag
from orbitmq.wire.bodies.topics import QueueStats


async def watch_lag(
    admin: AdminClient, group: str, topic: str | None, every_s: float, queues: Collection[MessageQueue] = ()
) -> AsyncGenerator[LagSample, None]:
    """Yield where a group is, again and again.

    Args:
        topic: None: all topics that the group reads.
        queues: those that are known from earlier runs.

    Raises:
        ClientError: the cluster cannot be asked at the first moment, and no queue is known.
    """
    loop = asyncio.get_running_loop()
    while True:
        next_at = loop.time() + every_s
        sample = await take_sample(admin, group, topic, queues)
        queues = sample.positions.keys()
        yield sample
        await asyncio.sleep(max(0.0, next_at - loop.time()))


async def take_sample(admin: AdminClient, group: str, topic: str | None, known: Collection[MessageQueue]) -> LagSample:
    """Return where a group is in each queue now; in queues whose broker does not answer, that is unknown.

    Args:
        known: queues of the moment before.

    Raises:
        ClientError: the cluster cannot be asked, and no queue is known.
    """
    at_ms = now_ms()
    try:
        groups, silent = await admin.groups_that_answer()
        topics = {queue.topic for queue in await groups.lag(group)} if topic is None else {topic}
        found: dict[MessageQueue, GroupPosition] = {}
        ends: dict[MessageQueue, QueueStats] = {}
        for name in sorted(topics):
            stats, problems = await admin.known_topic_stats(name, silent=silent)
            ends |= stats
            silent |= problems
            if problems:
                queues = readable_queues(name, await admin.topic_route(name))
                found.update((queue, UNKNOWN) for queue in queues if queue.broker_name in problems)
        places = await groups.lag(group, topic)
        committed = {
            queue: place.committed
            for queue, place in places.items()
            if place.committed or await groups.has_committed(group, queue)
        }
    except ClientError as error:
        if not known:
            raise
        return LagSample(at_ms, dict.fromkeys(known, UNKNOWN), str(error))
    for queue, end in ends.items():
        found[queue] = GroupPosition(committed.get(queue), end.max_offset, end.min_offset)
    return LagSample(at_ms, {**dict.fromkeys(known, UNKNOWN), **found}, "; ".join(notices_of(silent)) or None)


@contextmanager
def kept_lag(directory: Path, group: str, topic: str) -> Iterator[LagDirectory]:
    """Keep samples in a directory, for this run alone.

    Raises:
        JobFailed: another run is under way, or the samples cannot be read.
        ConfigError: the directory is for something else.
    """
    with claimed(directory, {"job": "lag", "group": group, "topic": topic}):
        yield LagDirectory(directory, f"Lag of {group} in {topic}", topic)


class LagDirectory:
    """The samples of all runs.

    Args:
        title: of the picture.

    Raises:
        JobFailed: a line is not a sample.
    """

    def __init__(self, directory: Path, title: str, topic: str) -> None:
        self._file = directory / "lag.jsonl"
        self._picture = directory / "lag.svg"
        self._title = title
        _cut_unfinished(self._file)
        self.moments = 0
        last: list[QueueValue] = []
        for values in self._read():
            self.moments, last = self.moments + 1, values
        self.queues = [MessageQueue(topic, value.broker, value.queue) for value in last]

    def append(self, sample: LagSample) -> None:
        """Add a sample; it survives a power cut.

        Raises:
            JobFailed: the disk refused it.
        """
        try:
            with self._file.open("ab") as file:
                file.write(encode_sample(sample))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise JobFailed(f"{self._file} cannot be written: {error.strerror}") from error
        self.moments += 1

    def finish(self) -> list[QueueSummary]:
        """Draw the picture of all samples; return what they say of each queue."""
        replace_file(self._picture, draw_lag(self._title, total_lags(self._read())).encode())
        return summarise_queues(self._read())

    def _read(self) -> Iterator[list[QueueValue]]:
        with self._file.open("rb") as lines:
            yield from decode_samples(lines, str(self._file))


def _cut_unfinished(path: Path) -> None:
    with path.open("a+b") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return
        with mmap(file.fileno(), 0, access=ACCESS_READ) as content:
            end = content.rfind(b"\n") + 1
            rest = content[end : end + len(LINE_START)].rstrip(b"\0")
        if not LINE_START.startswith(rest):
            raise JobFailed(f"{path} ends with what is not a sample: remove it, or take a new directory")
        file.truncate(end)
