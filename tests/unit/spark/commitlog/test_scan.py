"""Scans of segments: every split sees its own records, and no bytes of a body are taken for one."""

from __future__ import annotations

import random
from itertools import product

import pytest

from cases import each_case
from orbitmq.spark.commitlog import scan as scans
from orbitmq.spark.commitlog.scan import SegmentScan
from orbitmq.wire.messages.record import BODY_AT, HEADS, format_record
from unit.spark.commitlog.log_files import Bytes, LogBuilder, fakes


@pytest.fixture(autouse=True, params=[None, 700], ids=["usual", "small-pieces"])
def read_size(request, monkeypatch):
    if request.param:
        monkeypatch.setattr(scans, "READ_SIZE", request.param)


def no_damage(start: int, end: int) -> None:
    raise AssertionError(f"{start} to {end}")


def starts(scan: SegmentScan, begin: int, stop: int, damaged=no_damage) -> list[int]:
    """Return what the task of a split would read."""
    first = scan.first_record(begin, stop) if begin else 0
    if first is None:
        return []
    return [run.physical_offset - scan.base + at for run in scan.runs(first, stop, damaged) for at in run.starts]


def scan_of(log: LogBuilder, size: int | None = None) -> SegmentScan:
    return SegmentScan(Bytes(bytes(log.raw)), log.base, size or len(log.raw))


def assert_splits_agree(scan: SegmentScan, wanted: list[int], split_size: int, damaged=no_damage) -> None:
    found = [
        at
        for begin in range(0, scan.size, split_size)
        for at in starts(scan, begin, min(begin + split_size, scan.size), damaged)
    ]
    assert found == wanted


@each_case(*product([0, 1 << 30], [1, 97, 500, 10_000]))
def test_every_record_is_in_exactly_one_split(base, split_size):
    log = LogBuilder(base)
    for n in range(30 if split_size > 1 else 6):
        log.add(body=b"x" * (n * 13))
    log.fill(len(log.raw) + 400)

    assert_splits_agree(scan_of(log), log.starts, split_size)


def body_at(log: LogBuilder) -> int:
    """Return where the body of the next record will lie."""
    return log.place + BODY_AT


@each_case(64, 300, 1000)
def test_a_body_full_of_records_fools_no_split(split_size):
    log = LogBuilder()
    for _ in range(3):
        log.add()
        log.add(body=fakes(body_at(log), 8))
    log.add()

    assert_splits_agree(scan_of(log), log.starts, split_size)


@each_case(64, 300, 1000)
def test_a_fake_far_behind_its_record_fools_no_split(split_size):
    log = LogBuilder()
    log.add()
    log.add(body=b"x" * 1500 + fakes(body_at(log) + 1500, 2))
    log.add()

    assert_splits_agree(scan_of(log), log.starts, split_size)


def test_a_body_whose_last_fake_leads_beyond_the_record_fools_no_split():
    log = LogBuilder()
    log.add()
    place = body_at(log)
    # The fake at the body's end is as long as it takes to end within the next record's body, where a fake waits for it.
    tail = format_record(topic="fake", body=b"", physical_offset=place)
    probe = LogBuilder(log.place).add(body=tail)
    next_body = probe.place + BODY_AT
    long = format_record(topic="fake", body=b"?" * (next_body - place - len(tail)), physical_offset=place)
    log.add(body=long[: len(tail)])
    log.add(body=fakes(body_at(log), 4))
    log.add()
    assert place + len(long) == log.starts[2] + BODY_AT, "the fakes make a chain of their own"

    for begin in range(1, len(log.raw)):
        assert starts(scan_of(log), begin, len(log.raw)) == [at for at in log.starts if at >= begin]


def test_what_an_old_log_has_left_in_a_filler_is_no_record():
    log = LogBuilder()
    log.add().add()
    log.fill(3000, fakes(log.place + 8, 6))

    assert_splits_agree(scan_of(log), log.starts, 350)


def test_damage_is_passed_and_told():
    log = LogBuilder()
    for _ in range(9):
        log.add(body=b"x" * 100)
    log.raw[log.starts[4]] ^= 0x40  # the size
    told: list[tuple[int, int]] = []

    assert starts(scan_of(log), 0, len(log.raw), lambda *damage: told.append(damage)) == log.starts[:4] + log.starts[5:]
    assert told == [(log.starts[4], log.starts[5])]


@each_case(*product(range(20), [50, 333, 900]))
def test_splits_agree_about_damaged_segments(seed, split_size):
    chance = random.Random(seed)
    log = LogBuilder(1 << 20)
    for _ in range(25):
        log.add(body=chance.randbytes(chance.randrange(200)))
    for _ in range(6):
        log.raw[chance.randrange(len(log.raw))] = chance.randrange(256)
    scan = scan_of(log)
    whole = starts(scan, 0, scan.size, lambda start, end: None)

    assert_splits_agree(scan, whole, split_size, lambda start, end: None)


def test_a_file_that_was_cut_lacks_what_comes_behind_its_end():
    log = LogBuilder().add().add()
    cut = log.starts[1] + 20
    scan = SegmentScan(Bytes(bytes(log.raw[:cut])), 0, len(log.raw))
    told: list[tuple[int, int]] = []

    assert starts(scan, 0, scan.size, lambda *damage: told.append(damage)) == log.starts[:1]
    assert told == [(log.starts[1], len(log.raw))]


def test_a_record_of_another_place_is_none():
    log = LogBuilder().add()
    log.raw += format_record(topic="orders", body=b"of a file that was used again", physical_offset=7)
    told: list[tuple[int, int]] = []

    assert starts(scan_of(log), 0, len(log.raw), lambda *damage: told.append(damage)) == log.starts
    assert told == [(HEADS[0].size + 5 + 7 + 2, len(log.raw))]


def test_a_split_reads_little_more_than_its_own_bytes(monkeypatch):
    monkeypatch.setattr(scans, "RECORD_SIZE_MAX", 1000)
    monkeypatch.setattr(scans, "READ_SIZE", 1000)
    log = LogBuilder()
    for _ in range(1000):
        log.add(body=b"x" * 50)
    content = Bytes(bytes(log.raw))
    scan = SegmentScan(content, 0, len(log.raw))

    assert starts(scan, 100_000, 110_000) == [at for at in log.starts if 100_000 <= at < 110_000]
    assert content.read_size < 20_000
