"""Groups that clients come with, made on a thread, and the file that the loop and a thread write."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from orbitmq.broker.groups.auto_creation import SIZE_MAX, AutoCreation
from orbitmq.broker.groups.table_file import TableFile
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import Rejected
from orbitmq.files import replace_file
from orbitmq.wire.bodies.groups import GroupConfig
from unit.broker.parts import FakePeer, Registries
from waiting import until


class World:
    """Admissions of two registries whose files are counted."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.files = ConfigFiles(path)
        self.writes: list[str] = []
        self.harness = Registries(**settings)
        self.auto_creation = AutoCreation(
            self.harness.groups, self.harness.topics, self._topic_ticket, self._group_ticket
        )
        self.told: list[tuple[str, int | None]] = []

    def _topic_ticket(self, topics: Any) -> Any:
        self.writes.append("topics")
        return self.files.topic_ticket(topics)

    def _group_ticket(self, groups: Any) -> Any:
        self.writes.append("groups")
        return self.files.group_ticket(groups)

    def come(self, *groups: str, peer: FakePeer | None = None, **settings: Any) -> None:
        def tell(refusal: Rejected | None) -> None:
            self.told.append((groups[0], None if refusal is None else refusal.code))

        self.auto_creation.admit(peer or FakePeer(), groups, 1, tell, **settings)

    async def all_told(self, count: int) -> list[tuple[str, int | None]]:
        await until(lambda: len(self.told) == count)
        return self.told


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_thousand_new_groups_cost_one_write_of_each_file(world: World) -> None:
    for number in range(1000):
        world.come(f"g{number}")
    assert world.writes == []
    assert await world.all_told(1000) == [(f"g{number}", None) for number in range(1000)]
    assert world.writes == ["topics", "groups"]
    stored = world.files.load_groups(auto_create_enable=False)
    assert all(stored.get(f"g{number}") is not None for number in range(1000))
    assert len(world.files.load_topics(auto_create_enable=False).all) == 1000
    assert world.harness.log == ["announced"]


async def test_no_client_sees_a_new_group_before_its_file_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    world = World(tmp_path)

    def look(_path: Path, _content: bytes) -> None:
        seen.append((world.harness.groups.configs.get("g"), world.harness.topics.get("%RETRY%g"), list(world.told)))

    monkeypatch.setattr("orbitmq.broker.groups.table_file.replace_file", look)
    world.come("g")
    assert await world.all_told(1) == [("g", None)]
    assert seen == [(None, None, [])] * 2
    assert world.auto_creation.are_known(["g"])


async def test_who_comes_during_a_write_shares_the_next_one(world: World) -> None:
    world.come("first")
    await until(lambda: bool(world.writes), pause_s=0)
    for number in range(50):
        world.come(f"g{number}")
    await world.all_told(51)
    assert world.writes == ["topics", "groups"] * 2


async def test_a_change_that_comes_in_between_is_not_undone(world: World) -> None:
    groups = world.harness.groups
    world.come("g")
    await until(lambda: bool(world.writes), pause_s=0)
    groups.configs.update(GroupConfig(group="by hand", retry_times_max=3), 2)
    world.files.save_groups(groups.configs)
    groups.configs.keep()
    await world.all_told(1)
    for table in (groups.configs, world.files.load_groups(auto_create_enable=False)):
        assert table.get("g") is not None
        assert table.all["by hand"].retry_times_max == 3


async def test_thousands_of_groups_of_one_client_are_added_while_others_have_their_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.groups.auto_creation._STEP_S", 0)
    world.come(*(f"g{number}" for number in range(1_000)))
    turns = 0
    while not world.writes:
        turns += 1
        await asyncio.sleep(0)
    assert turns > 1_000
    await world.all_told(1)


async def test_a_change_that_comes_while_groups_are_added_is_not_undone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.groups.auto_creation._STEP_S", 0)
    world.come(*(f"g{number}" for number in range(100)))
    for _ in range(50):
        await asyncio.sleep(0)
    assert world.writes == []
    world.harness.groups.configs.update(GroupConfig(group="by hand", retry_times_max=3), 2)
    world.harness.groups.configs.keep()
    await world.all_told(1)
    for table in (world.harness.groups.configs, world.files.load_groups(auto_create_enable=False)):
        assert table.get("g99") is not None
        assert table.all["by hand"].retry_times_max == 3


async def test_changes_without_end_keep_no_client_waiting_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.groups.auto_creation._STEP_S", 0)
    world.come(*(f"g{number}" for number in range(100)))
    async with asyncio.timeout(30):
        for version in itertools.count():
            if world.writes:
                break
            world.harness.groups.configs.update(GroupConfig(group="by hand"), version)
            await asyncio.sleep(0)
    await world.all_told(1)


async def test_groups_that_a_full_disk_refuses_are_not_there_but_their_clients_are_served_and_may_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    world = World(tmp_path)
    version = world.harness.groups.configs.version
    with monkeypatch.context() as full:
        full.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
        world.come("g")
        world.come("no name")
        assert await world.all_told(2) == [("g", None), ("no name", 26)]
    assert "cannot be saved" in caplog.text
    assert world.auto_creation.failure_count == 1
    assert not world.auto_creation.are_known(["g"])
    assert world.harness.groups.configs.version is version
    world.come("g")
    assert (await world.all_told(3))[2] == ("g", None)
    assert world.auto_creation.are_known(["g"])


async def test_a_stranger_is_refused_and_keeps_no_other_client_out(world: World) -> None:
    world.come("no name")
    world.come("g")
    assert await world.all_told(2) == [("no name", 26), ("g", None)]


async def test_retry_topics_are_as_many_as_the_groups_want(world: World) -> None:
    world.harness.groups.update(GroupConfig(group="no retries", retry_queue_count=0), 1)
    world.harness.groups.update(GroupConfig(group="three", retry_queue_count=3), 1)
    world.come("a", "no retries", "three")
    world.come("pulled", needs_retries=False)
    await world.all_told(2)
    counts = {name: config.read_queue_count for name, config in world.harness.topics.table.all.items()}
    assert counts == {"%RETRY%a": 1, "%RETRY%three": 3}
    assert world.auto_creation.are_known(["a", "no retries", "three"])
    assert not world.auto_creation.are_known(["a", "pulled"])


@pytest.mark.parametrize("is_under_way", [False, True])
async def test_a_client_that_has_left_does_not_join(tmp_path: Path, is_under_way: bool) -> None:
    world, gone = World(tmp_path), FakePeer()
    world.come("left", peer=gone)
    world.come("stays")
    if is_under_way:
        await until(lambda: bool(world.writes), pause_s=0)
    world.auto_creation.drop_connection(gone)
    assert await world.all_told(1) == [("stays", None)]


async def test_a_client_that_cannot_be_answered_does_not_delay_the_answers_of_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_refusal: Rejected | None) -> None:
        raise RuntimeError("a client's own fault")

    world = World(tmp_path)
    world.auto_creation.admit(FakePeer(), ["a"], 1, fail)
    world.come("b")
    assert await world.all_told(1) == [("b", None)]
    assert "cannot be answered" in caplog.text


def topic(world: World, name: str, *, peer: FakePeer | None = None, size: int = 0) -> None:
    """Send to a topic that may not be there."""

    def make(table: TopicTable) -> Rejected | None:
        made = table.create_retry_topic(name, 1, 1) if name != "bad" else None
        return Rejected(17, "no") if made is None else None

    def tell(refusal: Rejected | None) -> None:
        world.told.append((name, None if refusal is None else refusal.code))

    world.auto_creation.admit_topic(peer or FakePeer(), name, make, tell, size=size)


async def test_a_thousand_new_topics_cost_one_write_on_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    world = World(tmp_path)

    def look(path: Path, content: bytes) -> None:
        threads.append(get_ident())
        assert world.harness.topics.get("t0") is None
        replace_file(path, content)

    monkeypatch.setattr("orbitmq.broker.groups.table_file.replace_file", look)
    for number in range(1000):
        topic(world, f"t{number}")
    topic(world, "bad")
    assert await world.all_told(1001) == [*((f"t{number}", None) for number in range(1000)), ("bad", 17)]
    assert len(threads) == 1
    assert get_ident() not in threads
    assert len(world.files.load_topics(auto_create_enable=False).all) == 1000


async def test_topics_and_groups_that_come_together_are_both_kept(world: World) -> None:
    world.come("g")
    topic(world, "t")
    await until(lambda: bool(world.writes), pause_s=0)
    topic(world, "u")
    world.come("h")
    assert sorted(await world.all_told(4)) == [("g", None), ("h", None), ("t", None), ("u", None)]
    assert set(world.files.load_topics(auto_create_enable=False).all) == {"%RETRY%g", "%RETRY%h", "t", "u"}


async def test_a_full_disk_refuses_new_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: Path, _content: bytes) -> None:
        raise OSError(28, "No space left on device")

    world = World(tmp_path)
    monkeypatch.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
    topic(world, "t")
    topic(world, "bad")
    world.come("g")
    assert await world.all_told(3) == [("t", 14), ("bad", 17), ("g", None)]
    assert world.harness.topics.get("t") is None


async def test_what_waits_for_a_disk_that_hangs_is_bounded_in_number_and_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orbitmq.broker.groups.auto_creation.COUNT_MAX", 3)
    world = World(tmp_path)
    topic(world, "a", size=SIZE_MAX)
    with pytest.raises(Rejected, match=r"^\[2\] 1 new groups and topics wait"):
        topic(world, "b", size=1)
    topic(world, "b")
    world.come("g")
    with pytest.raises(Rejected, match=r"^\[2\] 3 new"):
        topic(world, "c")
    await world.all_told(3)
    topic(world, "c", size=SIZE_MAX)
    await world.all_told(4)
    assert (world.auto_creation.count, world.auto_creation.size) == (0, 0)


async def test_what_was_sent_by_a_client_that_has_left_is_stored_all_the_same(tmp_path: Path) -> None:
    world, gone = World(tmp_path), FakePeer()
    topic(world, "t", peer=gone)
    world.auto_creation.drop_connection(gone)
    assert await world.all_told(1) == [("t", None)]


def test_an_older_content_never_replaces_a_newer_one(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json")
    older, newer = file.ticket(lambda: b"older"), file.ticket(lambda: b"newer")
    newer.write()
    older.write()
    assert file.path.read_bytes() == b"newer"
    assert (older.is_in_file, newer.is_in_file) == (False, True)


def test_a_content_is_in_its_file_until_a_later_one_is_written(tmp_path: Path) -> None:
    file = TableFile(tmp_path / "table.json")
    first, second = file.ticket(lambda: b"1"), file.ticket(lambda: b"2")
    assert not first.is_in_file
    first.write()
    assert first.is_in_file
    second.write()
    assert (first.is_in_file, second.is_in_file) == (False, True)


def test_a_write_that_the_disk_refuses_is_not_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "table.json").mkdir()
    file = TableFile(tmp_path / "table.json")
    ticket = file.ticket(lambda: b"1")
    with pytest.raises(OSError, match=r".+"):
        ticket.write()
    assert not ticket.is_in_file


async def test_a_topic_is_not_open_to_others_before_all_sends_that_wait_for_it_are_served(tmp_path: Path) -> None:
    world = World(tmp_path)
    waiting = []

    def add(name: str) -> None:
        def make(table: TopicTable) -> Rejected | None:
            table.create_retry_topic(name, 1, 1)
            return None

        def tell(_refusal: Rejected | None) -> None:
            waiting.append((name, dict(world.auto_creation.awaited), world.harness.topics.get("t") is not None))

        world.auto_creation.admit_topic(FakePeer(), name, make, tell)

    for name in ("t", "u", "t"):
        add(name)
    await until(lambda: len(waiting) == 3)
    assert waiting == [("t", {"u": 1}, True), ("u", {"t": 1}, True), ("t", {}, True)]
    assert not world.auto_creation.awaited
