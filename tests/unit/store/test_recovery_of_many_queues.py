"""Recovery of many recent queues: the short ways that a start takes with them lead where the plain ones do."""

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig, recovery
from orbitmq.store.sync import entry_sync
from orbitmq.store.sync.checkpoint import StoreCheckpoint, format_checkpoint
from orbitmq.testing.fake_disk import FakeDisk, PowerCut

from .parts import entries_end_at

ROOT = Path("/store")
CONFIG = StoreConfig(path=ROOT, segment_size=16_384, consume_queue_units=16)
QUEUES = 220
"""Of more than 64, one entry each is compared with its record."""
T0 = 1_700_000_000_000


def left_by(random, *, is_clean, checkpoint_share):
    """Return a disk as an earlier broker left it, its queues' files as they were written, and the newest message's time."""
    disk, now_ms = FakeDisk(), T0
    store = Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: now_ms, disk=disk)
    for number in range(600):
        now_ms += 100
        store.append(Draft("orders", random.randrange(QUEUES), b"x" * random.randrange(9)))
        if number % 100 == 70:
            store.flush()
    if is_clean:
        store.close()
    disk = disk.after_kill()
    if not is_clean:
        covered = T0 + int((now_ms - T0) * checkpoint_share)
        disk.write(
            ROOT / "checkpoint",
            format_checkpoint(StoreCheckpoint(covered, covered, entries_end=entries_end_at(disk, covered))),
        )
    return disk


def damage_some(disk, random):
    """Damage files of queues, each in its own way."""
    paths = [path for path in disk.files if path.parts[2] == "consumequeue"]
    for path in random.sample(paths, 40):
        content = disk.files[path].buffer
        at = random.randrange(4) * 20
        way = random.randrange(6)
        if way == 0:
            content[at : at + 20] = bytes(20)
        elif way == 1:
            content[at : at + 8] = random.randbytes(8)
        elif way == 2:
            content[at + 8 : at + 12] = random.randbytes(4)
        elif way == 3:
            content[at : at + 20] = content[at + 20 : at + 40]
        elif way == 4:
            content[:60] = disk.files[random.choice(paths)].buffer[:60]
        else:
            disk.write(path, b"")


def opened(disk):
    """Return what a start makes of a disk: where it began, every entry, and what it rebuilt."""
    store = Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=disk)
    entries = {
        (queue.topic, queue.queue_id): (queue.next_offset, queue.data_end, list(queue.entries(0, 99)))
        for queue in store._queues
    }
    return store.recovered, entries, store.recovery_report.rebuilt


@pytest.mark.parametrize("is_clean", [True, False], ids=["after an orderly stop", "after a kill"])
@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize("seed", range(3))
def test_a_recent_queue_is_cut_as_any_other(monkeypatch, seed, is_damaged, is_clean):
    random = Random(seed)
    disk = left_by(random, is_clean=is_clean, checkpoint_share=random.random())
    if is_damaged:
        damage_some(disk, random)
    cut_recent, recent = recovery._cut_recent, []

    def counted(*arguments):
        recent.append(cut_recent(*arguments))
        return recent[-1]

    monkeypatch.setattr(recovery, "_cut_recent", counted)
    in_short = opened(disk.after_kill())
    monkeypatch.setattr(recovery, "_cut_recent", lambda *_: False)
    assert opened(disk.after_kill()) == in_short
    assert sum(recent) > 50


@pytest.mark.parametrize("is_damaged", [False, True], ids=["whole", "damaged"])
@pytest.mark.parametrize("checkpoint_share", [0, 0.1, 0.5, 0.9, 1, 2])
def test_a_start_begins_where_it_would_if_it_looked_at_every_queue(monkeypatch, checkpoint_share, is_damaged):
    random = Random(checkpoint_share)
    disk = left_by(random, is_clean=False, checkpoint_share=checkpoint_share)
    if is_damaged:
        damage_some(disk, random)
    found = []

    def find_start(queues, commit_log, covered):
        every = [recovery._trusted_start(queue, commit_log, covered) for queue in queues]
        found.append((max(every), in_short(queues, commit_log, covered)))
        return found[-1][1]

    in_short = recovery._find_start
    monkeypatch.setattr(recovery, "_find_start", find_start)
    opened(disk)
    [(expected, start)] = found
    assert start == expected


def test_only_some_of_many_queues_are_searched_for_the_beginning(monkeypatch):
    looked = []
    number_of = recovery._number_of

    def counted(*arguments):
        looked.append(arguments)
        return number_of(*arguments)

    disk = left_by(Random(1), is_clean=False, checkpoint_share=0.01)
    monkeypatch.setattr(recovery, "_number_of", counted)
    monkeypatch.setattr(recovery, "_cut_recent", lambda *_: True)
    opened(disk)
    assert len(looked) < QUEUES // 4


@pytest.mark.parametrize("cut_at", range(1, 61))
def test_a_power_cut_while_many_queues_are_rebuilt_loses_no_entry(monkeypatch, cut_at, disk):
    monkeypatch.setattr(entry_sync, "_MANY", 4)
    monkeypatch.setattr(entry_sync, "_HELD_MAX", 3)
    store = Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=disk)
    for number in range(100):
        store.append(Draft("orders", number % 5, b""))
    store.close()
    disk.remove(ROOT / "consumequeue")
    disk = disk.after_kill()
    disk.cut_at = disk.operation_count + cut_at
    with suppress(PowerCut):
        Store.open(CONFIG, store_host=Host("127.0.0.1", 1), clock=lambda: T0, disk=disk)
    disk = disk.after_power_cut(Random(cut_at))
    _, entries, _ = opened(disk)
    assert [len(entries["orders", number][2]) for number in range(5)] == [20] * 5
