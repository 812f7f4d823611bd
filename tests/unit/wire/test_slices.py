"""Work that is done a slice at a time."""

from __future__ import annotations

from orbitmq.wire.slices import Slices, finish, parts_of


def test_a_table_is_parted_in_order():
    table = {number: str(number) for number in range(7)}
    assert list(parts_of(table, 3)) == [{0: "0", 1: "1", 2: "2"}, {3: "3", 4: "4", 5: "5"}, {6: "6"}]
    (whole,) = parts_of(table, 7)
    assert whole is table, "a table that is small enough is not copied"
    assert list(parts_of({}, 3)) == [{}]


def test_slices_in_one_go_return_their_result():
    def slices() -> Slices[int]:
        yield
        yield
        return 7

    assert finish(slices()) == 7
