"""Torn tails: the CommitLog cut at every byte of its last records and every bit of them flipped, and all other files cut.

RocketMQ's checksum covers the body: a topic or a time that rots into another legal one stays unseen. With `record_crc`
nothing does.
"""

from pathlib import Path

import pytest

from crash.damage import Outcome, derived, tear
from orbitmq.model.message import Host
from orbitmq.store import Draft, Store, StoreConfig
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.messages.record import iter_records

ROOT = Path("/store")
LOG = ROOT / "commitlog" / f"{0:020}"
COUNT = 6
BODIES = [b"body %d" % number * 3 for number in range(COUNT)]
LAST = [COUNT - 1, *(pytest.param(number, marks=pytest.mark.proof) for number in range(COUNT - 3, COUNT - 1))]
"""Records that are damaged: the last one in `make test`, two before it in `make proof`, too."""


def open_store(disk, record_crc):
    config = StoreConfig(path=ROOT, segment_size=4096, consume_queue_units=16, record_crc=record_crc)
    return Store.open(config, store_host=Host("127.0.0.1", 1), clock=lambda: 1000, disk=disk)


def written(record_crc):
    """Return a killed store's disk, and where each of its records starts and the last one ends."""
    disk = FakeDisk()
    store = open_store(disk, record_crc)
    results = [store.append(Draft("orders", 0, body, b"TAGS\x01t\x02KEYS\x01k\x02")) for body in BODIES]
    return disk, [result.physical_offset for result in results] + [results[-1].end]


def recovered(disk, record_crc):
    """Recover, and return what is kept as (queue offset, body), and the end of the log."""
    store = open_store(disk.after_kill(), record_crc)
    records = list(iter_records(store.read("orders", 0, 0).body))
    assert store.max_offset("orders", 0) == len(records)
    assert store.append(Draft("orders", 0, b"next")).queue_offset == len(records)
    return [(record.queue_offset, bytes(record.body)) for record in records], store.recovered.end


@pytest.mark.parametrize("record_crc", [False, True])
@pytest.mark.parametrize("knows_queue", [True, False], ids=["queue entries written", "queue entries lost"])
def test_a_log_cut_at_any_byte_ends_at_the_last_whole_record_upstream_7437(record_crc, knows_queue):
    disk, starts = written(record_crc)
    if not knows_queue:
        disk.remove(ROOT / "consumequeue")
    whole = bytes(disk.files[LOG].buffer)
    for cut in range(starts[-3], starts[-1]):
        disk.files[LOG].buffer[:] = whole[:cut].ljust(len(whole), b"\0")
        kept = sum(start <= cut for start in starts[1:])
        # A record may be whole already when only zeros are missing: none of ours ends in zeros.
        assert recovered(disk, record_crc) == (list(enumerate(BODIES[:kept])), starts[kept])


@pytest.mark.parametrize("number", LAST)
def test_with_record_crc_any_flipped_bit_ends_the_log_there(number):
    disk, starts = written(record_crc=True)
    whole = bytes(disk.files[LOG].buffer)
    for bit in range(starts[number] * 8, starts[number + 1] * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.files[LOG].buffer[:] = damaged
        kept, end = recovered(disk, record_crc=True)
        if bit // 8 >= starts[number + 1] - 20:  # in the checksum property: the message may be whole
            assert kept in (list(enumerate(BODIES)), list(enumerate(BODIES[:number])))
        else:
            assert (kept, end) == (list(enumerate(BODIES[:number])), starts[number])


@pytest.mark.parametrize("number", LAST)
def test_without_it_a_flipped_bit_ends_the_log_or_hits_a_field_that_nothing_covers(number):
    disk, starts = written(record_crc=False)
    whole = bytes(disk.files[LOG].buffer)
    start, end = starts[number], starts[number + 1]
    body = range(start + 88, start + 88 + len(BODIES[number]))
    covered = [*range(start, start + 12), *range(start + 28, start + 36), *range(start + 84, start + 88), *body]
    for at in covered:  # sizes, magic, checksum, own offset, body
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            disk.files[LOG].buffer[:] = damaged
            assert recovered(disk, record_crc=False) == (list(enumerate(BODIES[:number])), start)
    for at in set(range(start, end)) - set(covered):  # the rest: no exception, and no record before it suffers
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[at] ^= 1 << bit
            disk.files[LOG].buffer[:] = damaged
            store = open_store(disk.after_kill(), record_crc=False)
            assert store.recovered.end in starts[number:]
            if at not in range(start + 20, start + 28):  # a queue offset of 0 means that the topic was made again
                kept = [bytes(record.body) for record in iter_records(store.read("orders", 0, 0).body)]
                assert kept[:number] == BODIES[:number]


LAST_ENTRIES = 2 * 20


@pytest.mark.parametrize("end", ["kill -9", pytest.param("a clean stop", marks=pytest.mark.proof)])
@pytest.mark.parametrize("is_short", [True, pytest.param(False, marks=pytest.mark.proof)], ids=["short", "zeros"])
def test_a_derived_file_cut_at_any_of_its_last_bytes_costs_nothing(end, is_short):
    lost = {}
    for path, size in derived(end):
        for cut in range(max(size - LAST_ENTRIES, 0), size):
            outcome, told = tear(end, path, cut, is_short=is_short)
            if outcome not in (Outcome.WHOLE, Outcome.REBUILT):
                lost[path, cut] = outcome, told
    assert lost == {}
