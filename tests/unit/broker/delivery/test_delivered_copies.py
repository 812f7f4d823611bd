from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.broker.delivery.delivered_copies import (
    DeliveredCopies,
    begin_to_follow,
    find_delivered_copies,
    note_delivered_since,
)
from orbitmq.store import Draft, Store

from ..parts import memory_store


def copy(store: Store, key: str, topic: str = "t", *, is_copy: bool = True) -> int:
    properties = f"UNIQ_KEY\x01{key}\x02" + ("REAL_TOPIC\x01t\x02" if is_copy else "")
    return store.append(Draft(topic, 0, b"x", properties.encode())).physical_offset


def copies(store: Store) -> DeliveredCopies:
    return DeliveredCopies(store.records_between(0, store.max_physical_offset))


def test_a_message_with_a_copy_behind_it_was_delivered() -> None:
    store = memory_store()
    place = copy(store, "k")
    found = copies(store)
    assert not found.take(b"k", "other", place - 1)
    assert not found.take(b"other", "t", place - 1)
    assert not found.take(None, "t", place - 1)
    assert not found.take(b"k", "t", place)
    assert found.take(b"k", "t", place - 1)
    assert not found.take(b"k", "t", place - 1)


def test_each_copy_counts_for_one_message() -> None:
    store = memory_store()
    first, second = copy(store, "k"), copy(store, "k")
    found = copies(store)
    assert len(found) == 2
    assert found.take(b"k", "t", first)  # the second retry of a message waits behind the copy of the first
    assert not found.take(b"k", "t", second)
    assert found.take(b"k", "t", first - 1)
    assert not found


def test_a_message_that_never_waited_is_no_copy() -> None:
    store = memory_store()
    copy(store, "k", is_copy=False)
    assert not copies(store)


def test_copies_are_found_from_the_place_on_that_a_slave_has_kept(tmp_path: Path) -> None:
    store, path = memory_store(), tmp_path / "deliveredSince"
    assert not find_delivered_copies(store, path)
    copy(store, "before")
    note_delivered_since(path, store.max_physical_offset)
    copy(store, "since")
    found = find_delivered_copies(store, path)
    assert (len(found), found.take(b"since", "t", 0)) == (1, True)


def test_copies_of_its_own_are_none_of_the_former_master(tmp_path: Path) -> None:
    store, path = memory_store(), tmp_path / "deliveredSince"
    note_delivered_since(path, 0)
    copy(store, "former")
    find_delivered_copies(store, path)
    copy(store, "own")
    found = find_delivered_copies(store, path)
    assert (len(found), found.take(b"former", "t", -1)) == (1, True)


@pytest.mark.parametrize("content", [b"x", b"-1", b"1 2 3", b""])
def test_a_damaged_file_repeats_messages_and_stops_no_start(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "deliveredSince").write_bytes(content)
    assert not find_delivered_copies(memory_store(), tmp_path / "deliveredSince")
    assert "comes again" in caplog.text


def test_a_slave_that_is_promoted_before_it_took_over_anything_passes_over_what_came_since_it_followed(
    tmp_path: Path,
) -> None:
    store, path = memory_store(), tmp_path / "deliveredSince"
    for _ in range(2):  # a master again after the first time
        copy(store, "its own")
        begin_to_follow(path, store.max_physical_offset)
        copy(store, "another's")
        begin_to_follow(path, store.max_physical_offset)  # it restarts, and is a slave still
        found = find_delivered_copies(store, path)
        assert (len(found), found.take(b"another's", "t", 0)) == (1, True)
