"""A table whose changes can be taken back until they are on the disk."""

from __future__ import annotations

import errno

import pytest

from orbitmq.broker.versioned_table import VersionedTable, save_or_revert
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import DataVersion

VERSION = DataVersion(timestamp_ms=1, counter=1)


class Prices(VersionedTable[int]):
    """A table to try."""

    def put(self, name: str, value: int) -> int:
        return self._put(name, value, now_ms=2)


def prices() -> Prices:
    return Prices({"tea": 3}, VERSION, count_max=2)


def test_what_is_put_is_there_under_a_new_version() -> None:
    table = prices()
    assert table.put("milk", 1) == 1
    assert (dict(table.all), table.get("milk"), table.get("salt")) == ({"tea": 3, "milk": 1}, 1, None)
    assert table.version.counter == 2


def test_there_is_room_for_a_new_value_up_to_the_limit_and_for_a_known_one_always() -> None:
    table = prices()
    assert table.has_room("milk")
    table.put("milk", 1)
    assert table.has_room("milk")
    assert table.refused_count == 0
    assert not table.has_room("salt")
    assert table.refused_count == 1


def test_only_a_value_that_is_there_can_be_deleted() -> None:
    table = prices()
    assert not table.delete("milk", now_ms=2)
    assert table.version == VERSION
    assert table.delete("tea", now_ms=2)
    assert (dict(table.all), table.version.counter) == ({}, 2)


def test_the_whole_table_can_be_read_but_not_written() -> None:
    with pytest.raises(TypeError):
        prices().all["tea"] = 4  # type: ignore[index]


def test_a_revert_takes_back_everything_since_the_last_keep() -> None:
    table = prices()
    table.put("milk", 1)
    table.keep()
    kept = table.version
    for price in (2, 5):
        table.put("milk", price)
    table.put("salt", 9)
    table.delete("tea", now_ms=2)
    table.put("tea", 8)
    table.revert()
    assert (dict(table.all), table.version) == ({"tea": 3, "milk": 1}, kept)
    table.revert()
    assert dict(table.all) == {"tea": 3, "milk": 1}


def test_a_saved_change_stays() -> None:
    table, saved = prices(), list[dict[str, int]]()
    table.put("milk", 1)
    save_or_revert(table, lambda t: saved.append(dict(t.all)), "the prices")
    table.revert()
    assert saved == [dict(table.all)] == [{"tea": 3, "milk": 1}]


def test_a_change_that_the_disk_refuses_is_taken_back_and_its_path_stays_unsaid() -> None:
    table = prices()
    table.put("milk", 1)

    def refuse(_: Prices) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/prices.json")

    with pytest.raises(Rejected, match=r"^\[14\] the prices cannot be saved: No space left on device$") as refusal:
        save_or_revert(table, refuse, "the prices")
    assert refusal.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert (dict(table.all), table.version) == ({"tea": 3}, VERSION)
