"""The quarantine takes even a single byte: what is cut may be looked at."""

from pathlib import Path

import pytest

from orbitmq.store.log.segment import Segment
from orbitmq.store.quarantine import Quarantine
from orbitmq.testing.fake_disk import FakeDisk


@pytest.mark.parametrize("place", [0, 100, 511])
def test_one_byte_behind_the_end_is_moved_aside(place):
    disk = FakeDisk()
    segment = Segment(disk, Path("/log"), 1024, 512, 512)
    segment.buffer[place] = 7
    taken = Quarantine(disk, Path("/quarantine"), "log").take_tail(segment, 1024 + place, "damage")
    assert taken is not None
    assert (taken.length, disk.read(taken.path)) == (1, b"\7")


def test_nothing_behind_the_end_is_not_moved_aside():
    disk = FakeDisk()
    segment = Segment(disk, Path("/log"), 1024, 512, 512)
    segment.buffer[99] = 7
    assert Quarantine(disk, Path("/quarantine"), "log").take_tail(segment, 1024 + 100, "damage") is None
