"""The part of a task's range that can be read from the broker's files, and the proof that they are that broker's.

The broker says where its store is (GET_BROKER_CONFIG); nothing is opened that is not below a directory which the option
`localReads` names. A directory of that name may be another broker's, on another machine
or in another container, or an old copy. So the first and the last message of the range are pulled, and have to be byte for
byte what the files have at the places that the files' consume queue names: a log only grows, and what lies between two places
that are the same is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from os.path import normpath
from pathlib import Path, PurePosixPath

import pyarrow as pa

from orbitmq.client.consume.pull_request import PullStatus, parse_pull_answer, plain_pull
from orbitmq.client.routing.route_queues import is_logical
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, CorruptRecord
from orbitmq.model.topic import is_name
from orbitmq.net.blocking import BlockingConnection
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.planning import Range
from orbitmq.spark.reading.queue_files import QueueFileReader, StorePaths
from orbitmq.spark.security import read_security
from orbitmq.wire.headers import GetBrokerConfig

log = logging.getLogger(__name__)

LOCAL_COUNT_MIN = 500
"""Shorter ranges are pulled: that takes less than the proof."""


class LocalReader:
    """Reads what it can of one range from files.

    Args:
        wanted: the range; the driver has its end from the broker, so all of it may be read.
        address: the broker that holds the queue.
        options: how to read.
        names: the columns to decode.
    """

    def __init__(self, wanted: Range, address: str, options: ReadOptions, names: Sequence[str]) -> None:
        self._range = wanted
        self._address = address
        self._options = options
        self._names = names

    def batches(self) -> Generator[pa.RecordBatch, None, int]:
        """Yield messages in order; return the offset from which on they have to be pulled, the range's begin if files are no use."""
        cursor = self._range.begin
        if not self._is_worth_a_look:
            return cursor
        try:
            files, end = self._find()
            for records in files.records(cursor, end):
                yield from records.batches(
                    self._names,
                    self._range.queue.broker_name,
                    self._options.tags,
                    fails=self._options.fail_on_data_loss,
                )
                cursor += len(records)
        except (OSError, ClientError, CorruptRecord, _NotOurs) as reason:
            log.info("%s is pulled from offset %d on: %s", self._range.queue, cursor, reason)
        return cursor

    @property
    def _is_worth_a_look(self) -> bool:
        """False for what brokers alone can do: expressions, and the offsets of logical queues."""
        return self._range.count >= LOCAL_COUNT_MIN and self._options.sql is None and not is_logical(self._range.queue)

    def _find(self) -> tuple[QueueFileReader, int]:
        """Return the queue's files, and the end of what they have of the range, when it is proven whose they are."""
        queue, begin = self._range.queue, self._range.begin
        security, timeout_ms = read_security(self._options.security_file), self._options.pull_timeout_ms
        with BlockingConnection(self._address, timeout_ms=timeout_ms, **security._asdict()) as connection:
            if not is_name(queue.topic):
                raise _NotOurs(f"a topic called {queue.topic!r} has no directory")
            files = QueueFileReader(_store_paths(connection, self._options.local_stores), queue.topic, queue.queue_id)
            end = files.end(begin, self._range.end)
            if end == begin:
                raise _NotOurs("the files do not have its first message")
            for offset in (begin, end - 1):
                if files.record(offset) != self._pull(connection, offset):
                    raise _NotOurs(f"the files and {self._address} do not have the same at offset {offset}")
        return files, end

    def _pull(self, connection: BlockingConnection, queue_offset: int) -> bytes | None:
        """Return one message's record as the broker gives it."""
        queue = self._range.queue
        header = plain_pull(queue.topic, queue.queue_id, queue_offset, 1, group=self._options.group)
        answer = connection.request(header)
        result = parse_pull_answer(answer)
        return result.records if result is not None and result.status is PullStatus.FOUND else None


class _NotOurs(Exception):
    """The files are not, or not for sure, those of the broker that is asked; the reason is for the log."""


def _store_paths(connection: BlockingConnection, allowed: Sequence[str]) -> StorePaths:
    answer = connection.request(GetBrokerConfig())
    if answer.code != ResponseCode.SUCCESS:
        raise _NotOurs(f"the broker does not say where its store is: {answer.code} {answer.remark}")
    lines = answer.body.decode(errors="replace").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    root = settings.get("storePathRootDir", "").replace("\\\\", "\\")
    commit_log = settings.get("storePathCommitLog", "").replace("\\\\", "\\") or f"{root}/commitlog"
    return StorePaths(_below(allowed, commit_log), _below(allowed, f"{root}/consumequeue"))


def _below(allowed: Sequence[str], path: str) -> Path:
    """Return a path that a broker has told; by its text alone, so that nothing else is even looked for."""
    found = PurePosixPath(normpath(path))
    if "\0" in path or not any(found.is_relative_to(normpath(directory)) for directory in allowed):
        raise _NotOurs(f"the broker's {path!r} is below none of the directories that localReads names")
    return Path(found)
