"""The check of the JSON files in config/: each is parsed as the broker would, then compared with the queues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orbitmq.broker.delivery.delay import parse_delay_offsets
from orbitmq.broker.groups.offsets import SEPARATOR
from orbitmq.broker.monitoring.half_counts import parse_counts
from orbitmq.broker.persistence import NEEDED, NEWEST_ALONE, REPEATING, known_table_names, parse_offsets
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.errors import OrbitError
from orbitmq.model.topic import LMQ_PREFIX, is_reserved_topic
from orbitmq.store.inspection.issues import RESTORE, Issue, note
from orbitmq.store.inspection.layout import list_names
from orbitmq.store.inspection.reading import read_small
from orbitmq.store.queues.consume_queues import QueueKey
from orbitmq.wire import fastjson
from orbitmq.wire.bodies.groups import decode_group_table
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.pop.assignments import parse_request_modes
from orbitmq.wire.pop.ordered_batches import parse_ordered_batches

_TOPICS, _OFFSETS, _LMQ_OFFSETS = "topics.json", "consumerOffset.json", "lmqConsumerOffset.json"
_PARSERS: dict[str, Callable[[bytes], Any]] = {
    _TOPICS: decode_topic_table,
    _OFFSETS: parse_offsets,
    _LMQ_OFFSETS: parse_offsets,
    "subscriptionGroup.json": decode_group_table,
    "delayOffset.json": parse_delay_offsets,
    "messageRequestMode.json": parse_request_modes,
    "consumerOrderInfo.json": parse_ordered_batches,
    "transactionMetrics": parse_counts,
    "timermetrics": TimerMetrics.parse,
}
_SIZE_MAX = 1 << 30
_BACKUP = ".bak"
_CHECKED_WITH_TIMERS = "timercheck"
_RECOUNTED = ("timermetrics", "transactionMetrics")


class ConfigCheck:
    """One check of one folder; what can be parsed is read when it is made."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._issues: list[Issue] = []
        self._parsed: dict[str, Any] = {}
        for name in list_names(directory):
            self._check_file(name)

    @property
    def topics(self) -> Mapping[str, Any] | None:
        """The topics that there are; None: unknown."""
        table = self._parsed.get(_TOPICS)
        return None if table is None else table.topics

    def issues(self, ends: Mapping[QueueKey, tuple[int, int]], *, has_messages: bool) -> Iterator[Issue]:
        """Yield what is wrong.

        Args:
            ends: where each queue begins and ends.
            has_messages: there are some, and so there must be topics.
        """
        yield from self._issues
        names, noted = list_names(self._directory), self._noted()
        for name in dict.fromkeys((*_PARSERS, *NEEDED, *REPEATING)):
            if name not in names and f"{name}{_BACKUP}" in names:
                yield Issue(f"config/{name}", None, "is missing", _remedy(self._directory / name))
            elif name not in names and name in noted:
                yield Issue(f"config/{name}", None, "is missing, and so is its .bak", RESTORE)
            elif name == _TOPICS and name not in names and has_messages:
                yield Issue(f"config/{name}", None, "is missing: the messages' topics are not known", RESTORE)
        if self.topics is not None:
            for topic in sorted({topic for topic, _ in ends} - set(self.topics)):
                if not is_reserved_topic(topic) and not topic.startswith(LMQ_PREFIX):
                    what = f"there are messages of {topic}, a topic that it does not know"
                    yield Issue(f"config/{_TOPICS}", None, what, "create the topic, or delete it")
        yield from self._check_offsets(ends)

    def _noted(self) -> list[str]:
        """Return the tables that the store has had, as far as that can be read."""
        try:
            return known_table_names(self._directory)
        except OSError:
            return []

    def _check_file(self, name: str) -> None:
        path, shown = self._directory / name, f"config/{name}"
        base = name.removesuffix(_BACKUP)
        if name == _CHECKED_WITH_TIMERS:
            return
        if ".damaged-" in name:
            self._issues.append(note(shown, "a copy of a file that was damaged", "delete it when it is not needed"))
        elif name.endswith(".tmp"):
            self._issues.append(note(shown, "an interrupted write has left it"))
        elif base not in _PARSERS and not base.endswith(".json"):
            self._issues.append(note(shown, "is not a table that is known here, and not checked"))
        else:
            self._parse(name, path, _PARSERS.get(base, fastjson.loads))

    def _parse(self, name: str, path: Path, parse: Callable[[bytes], Any]) -> None:
        try:
            content = read_small(path, _SIZE_MAX)
            if not (content or b"").strip():
                raise ValueError("it is empty")
            self._parsed[name] = parse(content or b"")
        except (OSError, OrbitError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            remedy = "the next save replaces it" if name.endswith(_BACKUP) else _remedy(path)
            self._issues.append(Issue(f"config/{name}", 0, f"cannot be read: {str(error) or error!r:.300}", remedy))

    def _check_offsets(self, ends: Mapping[QueueKey, tuple[int, int]]) -> Iterator[Issue]:
        for name in (_OFFSETS, _LMQ_OFFSETS):
            offsets = self._parsed.get(name)
            for key, queues in (offsets.all if offsets is not None else {}).items():
                topic = key.partition(SEPARATOR)[0]
                for queue_id, offset in queues.items():
                    end = ends.get((topic, queue_id), (0, 0))[1]
                    if offset > end:
                        what = (
                            f"{key}, queue {queue_id}: the committed offset {offset} lies behind the queue's end {end}"
                        )
                        yield note(f"config/{name}", what, "the next start pulls it back")


def _remedy(path: Path) -> str:
    if path.name in _RECOUNTED:
        return "the next start counts again"
    backup = path.with_name(path.name + _BACKUP)
    if not backup.exists():
        return RESTORE
    use = (
        "the next start is refused; copying the .bak is a way out"
        if path.name in NEWEST_ALONE
        else "the next start reads the .bak"
    )
    return f"{RESTORE}; {use}"
