"""A store on the local disk, with several files of each log, and what a check says about it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.store.inspection.check import StoreCheck
from orbitmq.store.inspection.issues import Issue, Severity
from orbitmq.wire.messages.properties import format_properties

SEGMENT_SIZE = 4096
UNITS = 16
HOST = Host("127.0.0.1", 10911)


def config_of(root: Path) -> StoreConfig:
    return StoreConfig(path=root, segment_size=SEGMENT_SIZE, consume_queue_units=UNITS)


def open_store(root: Path) -> Store:
    now_ms = iter(range(1_700_000_000_000, 1_800_000_000_000, 1000))
    return Store.open(config_of(root), store_host=HOST, clock=lambda: next(now_ms))


def fill(store: Store, count: int = 120) -> None:
    random = Random(1)
    for number in range(count):
        properties = format_properties({"TAGS": f"t{number % 3}", "KEYS": f"k{number}"})
        body = b"%d " % number + random.randbytes(number % 50)
        store.append(Draft("orders" if number % 4 else "bills", number % 2, body, properties))


def stop_like_kill_9(store: Store) -> None:
    store._close_files()


def make_store(root: Path, *, is_orderly: bool = True) -> Path:
    """Make a store as an orderly stop leaves it, or as `kill -9` does, with a checkpoint before it."""
    store = open_store(root)
    fill(store)
    if is_orderly:
        store.close()
    else:
        store.flush()
        stop_like_kill_9(store)
    return root


def issues(root: Path) -> list[Issue]:
    return list(StoreCheck(root).run())


def wrong(root: Path) -> list[Issue]:
    return [issue for issue in issues(root) if issue.severity is Severity.WRONG]


def files_of(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
