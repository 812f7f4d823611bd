"""A CommitLog of small segments on a disk in memory."""

from contextlib import suppress
from pathlib import Path

from orbitmq.errors import CorruptRecord
from orbitmq.model.message import Host
from orbitmq.store.log.commit_log import CommitLog
from orbitmq.store.log.scanning import scan
from orbitmq.store.values import Draft
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import format_topic

HOST = Host("127.0.0.1", 10911)
SEGMENT_SIZE = 1024


def log_of(disk=None, **changes):
    return CommitLog(disk or FakeDisk(), Path("/log"), SEGMENT_SIZE, **{"store_host": HOST, **changes})


def append(log, body=b"hello", queue_offset=0, **changes):
    draft = Draft(**{"topic": "orders", "queue_id": 1, "body": body, **changes})
    return log.append(draft, *format_topic(draft.topic), queue_offset, 5)


def loaded(disk, **changes):
    log = log_of(disk, **changes)
    log.log.load()
    return log


def scanned(log):
    found = []
    with suppress(CorruptRecord):
        found.extend(scan(log, 0))
    return found
