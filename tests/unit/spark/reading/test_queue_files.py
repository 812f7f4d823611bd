"""A queue in a broker's files: as much of it as the files have, and nothing that its entries do not lead to."""

from contextlib import suppress

import pytest

from orbitmq.errors import CorruptRecord
from orbitmq.spark.reading import queue_files
from orbitmq.spark.reading.queue_files import QueueFileReader
from unit.spark.reading.store_files import ENTRY, filled

COUNT = 2500


def read(files, begin, end):
    found = []
    for records in files.records(begin, end):
        for batch in records.batches(("queueOffset", "body"), "b", None, fails=True):
            found += [(row["queueOffset"], row["body"].decode().rstrip(".")) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize(("begin", "end"), [(0, COUNT), (17, 2201), (999, 1001), (2499, 2500), (0, 9000)])
@pytest.mark.parametrize("decode_size", [1, 5000, 1 << 22])
def test_a_range_comes_whole_and_in_order(tmp_path, monkeypatch, begin, end, decode_size):
    monkeypatch.setattr(queue_files, "DECODE_SIZE", decode_size)
    filled(tmp_path)
    files = QueueFileReader(filled(tmp_path).paths, "orders", 1)

    assert read(files, begin, end) == [(offset, f"1-{offset}-") for offset in range(begin, min(end, COUNT))]


@pytest.mark.parametrize(
    ("begin", "end", "found"), [(0, COUNT, COUNT), (0, 9999, COUNT), (5, 7, 7), (COUNT, 9999, COUNT)]
)
def test_the_end_is_that_of_the_entries(tmp_path, begin, end, found):
    assert QueueFileReader(filled(tmp_path).paths, "orders", 0).end(begin, end) == found


def test_a_record_is_what_the_log_has(tmp_path):
    store = filled(tmp_path, 10)
    record = store.add(2, "the last")
    files = QueueFileReader(store.write(), "orders", 2)

    assert files.record(10) == record
    assert files.record(11) == b""


def test_what_retention_has_removed_is_not_there(tmp_path):
    store = filled(tmp_path)
    (store.paths.commit_log / f"{0:020}").unlink()
    files = QueueFileReader(store.paths, "orders", 1)

    assert read(files, 0, COUNT) == []
    assert read(files, 2000, COUNT)[0] == (2000, "1-2000-")


def other(entries, index):
    return entries[(index + 1) * ENTRY.size : (index + 2) * ENTRY.size]


DAMAGE = {
    "the entry of the next message": lambda entries, at: other(entries, at),
    "one behind the log": lambda _entries, _at: ENTRY.pack(1 << 40, 200, 0),
    "one in the middle of a record": lambda entries, at: ENTRY.pack(ENTRY.unpack_from(entries, at * 20)[0] + 1, 200, 0),
    "another size": lambda entries, at: ENTRY.pack(ENTRY.unpack_from(entries, at * 20)[0], 95, 0),
    "the end of the last file": lambda _entries, _at: ENTRY.pack(99_990, 500, 0),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_entry_that_leads_elsewhere_gives_nothing_wrong(tmp_path, name):
    store = filled(tmp_path, 300)
    entries = store.entries[0]
    entries[200 * ENTRY.size : 201 * ENTRY.size] = DAMAGE[name](bytes(entries), 200)
    files = QueueFileReader(store.write(), "orders", 0)

    found = []
    with suppress(CorruptRecord):
        found = read(files, 0, 300)
    assert found == [(offset, f"0-{offset}-") for offset in range(len(found))]
    assert len(found) <= 200


@pytest.mark.parametrize("field", [12, 20, 28])  # queue id, queue offset, physical offset
def test_another_message_in_a_records_place_is_noticed(tmp_path, field):
    store = filled(tmp_path, 300)
    (at, _, _) = ENTRY.unpack_from(store.entries[0], 200 * ENTRY.size)
    store.log[at + field + 3] ^= 1
    files = QueueFileReader(store.write(), "orders", 0)

    with pytest.raises(CorruptRecord):
        read(files, 0, 300)


def test_records_that_do_not_lie_in_the_order_of_their_queue_are_left(tmp_path):
    """Whole and right, each of them: but columns are cut out of the file from front to back."""
    store = filled(tmp_path, 300)
    entries = store.entries[0]
    pairs = [bytes(entries[n * ENTRY.size : (n + 1) * ENTRY.size]) for n in (200, 240)]  # equally large
    for entry, offset in zip(pairs, (240, 200), strict=True):
        place, size, _ = ENTRY.unpack(entry)
        store.log[place + 20 : place + 28] = offset.to_bytes(8, "big")
        entries[offset * ENTRY.size : (offset + 1) * ENTRY.size] = ENTRY.pack(place, size, 0)

    with pytest.raises(CorruptRecord, match="into one another"):
        read(QueueFileReader(store.write(), "orders", 0), 0, 300)


def test_batches_are_of_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(queue_files, "DECODE_SIZE", 5000)
    files = QueueFileReader(filled(tmp_path).paths, "orders", 1)

    assert max(int(records.head["size"].sum()) for records in files.records(0, COUNT)) < 5000 + 200


def test_without_files_there_is_nothing_to_read(tmp_path):
    with pytest.raises(FileNotFoundError):
        QueueFileReader(filled(tmp_path, 3).paths, "orders", 9)
