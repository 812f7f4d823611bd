"""The file that names the queues under rebuilding."""

from pathlib import Path

from orbitmq.store.queues.rebuild_mark import RebuildMark
from orbitmq.testing.fake_disk import FakeDisk

PATH = Path("/store/rebuild")
KEYS = {("orders", 0): 0, ("orders", 12): 5_000, ("%RETRY%g", 3): 1, ("with blank", 1): 0}


def test_the_queues_are_named_until_the_mark_is_removed():
    disk = FakeDisk()
    mark = RebuildMark(disk, PATH)
    assert mark.read() == {}
    mark.write(KEYS)
    assert disk.files[PATH].durable is not None
    assert RebuildMark(disk, PATH).read() == KEYS
    mark.remove()
    assert mark.read() == {}
    assert not disk.exists(PATH)


def test_garbage_names_no_queue():
    disk = FakeDisk()
    disk.write(PATH, b"\xff\xfe\0\n7 \n orders\nx orders\n-1 orders\n3 bills\n")
    assert RebuildMark(disk, PATH).read() == {("bills", 3): 0}


def test_a_line_of_more_digits_than_a_number_may_have_names_no_queue():
    disk = FakeDisk()
    disk.write(PATH, b"9" * 5000 + b" orders\n0," + b"9" * 5000 + b" orders\n1,7 bills\n")
    assert RebuildMark(disk, PATH).read() == {("bills", 1): 7}
