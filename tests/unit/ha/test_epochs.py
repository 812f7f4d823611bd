from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.ha.epochs import Epochs, EpochStart, begin_epoch, common_end, epoch_at, format_epochs, parse_epochs


def epochs(*entries: tuple[int, int]) -> Epochs:
    return tuple(EpochStart(*entry) for entry in entries)


@each_case(
    (epochs((1, 0)), epochs((1, 0)), 500, 500),
    (epochs((1, 0), (2, 100)), epochs((1, 0), (3, 95)), 500, 95),
    (epochs((1, 0), (2, 100)), epochs((1, 0), (3, 120)), 500, 100),
    (epochs((1, 0), (2, 100)), epochs((1, 0), (2, 100), (3, 150)), 500, 150),
    (epochs((1, 0), (2, 100), (4, 130)), epochs((1, 0), (2, 100), (3, 130)), 500, 130),
    (epochs((1, 0), (2, 100)), epochs((1, 0), (3, 100)), 500, 100),
    (epochs((1, 0)), epochs((1, 0), (2, 100)), 100, 100),
    (epochs((2, 0)), epochs((1, 0), (3, 10)), 500, 0),
    (epochs((2, 64)), epochs((1, 0), (3, 10)), 500, None),
    (epochs(), epochs((1, 0)), 500, None),
)
def test_logs_are_equal_up_to_the_end_of_the_last_epoch_that_both_have(
    own: Epochs, master: Epochs, master_end: int, expected: int | None
) -> None:
    assert common_end(own, master, master_end) == expected


def test_an_epoch_begins_at_the_end_of_the_log() -> None:
    assert begin_epoch(epochs((1, 0)), 2, 0, 100) == epochs((1, 0), (2, 100))


def test_the_first_epoch_covers_what_was_written_before() -> None:
    assert begin_epoch((), 4, 64, 100) == epochs((4, 64))


def test_epochs_without_a_message_in_this_log_are_dropped() -> None:
    assert begin_epoch(epochs((1, 0), (2, 100), (3, 150)), 5, 0, 100) == epochs((1, 0), (5, 100))


def test_a_master_that_is_started_again_in_its_epoch_goes_on_in_it() -> None:
    assert begin_epoch(epochs((1, 0), (2, 100)), 2, 0, 300) == epochs((1, 0), (2, 100))


@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 2**63 - 1)), unique_by=lambda entry: entry[0]))
def test_the_file_is_read_as_it_was_written(entries: list[tuple[int, int]]) -> None:
    ascending = epochs(*sorted(entries))
    assert parse_epochs(format_epochs(ascending)) == ascending


@each_case(
    b"", b"1\n", b"1\n0\n", b"2\n0\n1-0\n", b"1\n77\n1-0\n", b"1\n0\n1-x\n", b"1\n0\n1-2-3\n", b"1\n0\n-1\n", b"\xff"
)
def test_a_torn_file_is_refused(content: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_epochs(content)


def test_a_flipped_bit_is_noticed() -> None:
    content = format_epochs(epochs((1, 0), (2, 100)))
    for at in range(content.index(b"1-0"), len(content) - 1):
        damaged = bytearray(content)
        damaged[at] ^= 1
        with pytest.raises(HeaderError):
            parse_epochs(bytes(damaged))


LOG = st.lists(st.sampled_from("ab"), max_size=4)


@given(st.data())
def test_after_the_cut_a_log_is_a_part_of_its_masters(data: st.DataObject) -> None:
    """Masters follow one another over three logs; each slave cuts, and goes on as far as it comes."""
    logs: list[list[tuple[int, int]]] = [[], [], []]
    known: list[Epochs] = [(), (), ()]
    for epoch in range(1, data.draw(st.integers(1, 6)) + 1):
        master = data.draw(st.integers(0, 2))
        known[master] = begin_epoch(known[master], epoch, 0, len(logs[master]))
        logs[master] += [(epoch, number) for number in range(data.draw(st.integers(0, 3)))]
        for slave in {0, 1, 2} - {master}:
            if not data.draw(st.booleans()):
                continue
            cut = common_end(known[slave], known[master], len(logs[master])) if logs[slave] else 0
            if cut is None:
                continue
            del logs[slave][cut:]
            assert logs[slave] == logs[master][: len(logs[slave])]
            known[slave] = known[master]
            follows = data.draw(st.integers(0, 3))
            logs[slave] += logs[master][len(logs[slave]) : len(logs[slave]) + follows]


def test_the_epoch_of_a_log_is_that_of_its_last_record() -> None:
    starts = epochs((1, 0), (3, 100), (4, 150))
    assert [epoch_at(starts, end) for end in (0, 1, 100, 101, 150, 151)] == [0, 1, 1, 3, 3, 4]
