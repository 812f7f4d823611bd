from __future__ import annotations

from random import Random

from cases import each_case
from orbitmq.broker.transactions.window import EndedOffsets, Renewals


def test_everything_is_open_until_it_ends() -> None:
    ended = EndedOffsets(10)
    assert 9 in ended
    assert 10 not in ended
    assert ended.first_open(0, 20) == 10
    ended.add(10)
    ended.add(12)
    ended.add(3)
    assert [offset for offset in range(10, 14) if offset in ended] == [10, 12]
    assert ended.first_open(10, 20) == 11
    assert ended.first_open(12, 20) == 13
    assert ended.first_open(12, 13) == 13
    assert ended.first_open(30, 20) == 20


@each_case(*range(20))
def test_the_first_open_one_is_found_over_any_number_of_ended_ones(seed: int) -> None:
    random = Random(seed)
    floor = random.randrange(20_000)
    end = floor + random.randrange(40_000)
    is_open = {offset for offset in range(floor, end) if random.random() < 0.0003}
    ended = EndedOffsets(floor)
    for offset in range(floor, end):
        if offset not in is_open:
            ended.add(offset)
    for start in [floor, end, *(random.randrange(floor, end + 1) for _ in range(50))]:
        expected = min((offset for offset in is_open if offset >= start), default=end)
        assert ended.first_open(start, end) == expected, (seed, start)


def test_what_lies_below_the_floor_takes_no_memory() -> None:
    ended = EndedOffsets()
    for offset in range(100_000):
        ended.add(offset)
    assert len(ended._chunks) == 13
    ended.raise_floor(90_000)
    assert len(ended._chunks) == 3
    assert 5 in ended
    ended.raise_floor(5)
    assert ended.floor == 90_000
    assert ended.first_open(0, 200_000) == 100_000


def test_a_renewed_message_is_found_over_all_its_places() -> None:
    renewals = Renewals()
    for before, after in ((1, 5), (2, 6), (5, 9), (9, 12)):
        renewals.add(before, after)
    assert [renewals.latest(offset) for offset in (1, 2, 5, 9, 12, 3)] == [12, 6, 12, 12, None, None]


def test_renewals_come_in_order_and_others_are_passed_over() -> None:
    renewals = Renewals()
    renewals.add(5, 9)
    renewals.add(5, 10)
    renewals.add(3, 11)
    assert [renewals.latest(offset) for offset in (5, 3)] == [9, None]


def test_only_so_many_renewals_are_remembered() -> None:
    renewals = Renewals(4)
    for number in range(6):
        renewals.add(number, 100 + number)
    assert [number for number in range(6) if renewals.latest(number) is not None] == [2, 3, 4, 5]
