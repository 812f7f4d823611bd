"""The clock that moves by hand."""

import pytest

from orbitmq.testing.clock import START_MS, FakeClock


def test_time_stands_still_until_it_is_moved():
    clock = FakeClock()
    assert (clock(), clock()) == (START_MS, START_MS)
    assert clock.advance(5) == START_MS + 5 == clock()


def test_time_does_not_run_backwards():
    with pytest.raises(ValueError, match="backwards"):
        FakeClock().advance(-1)


def test_it_can_be_set_back():
    clock = FakeClock(1_000)
    clock.set(400)
    assert clock() == 400
