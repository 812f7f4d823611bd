from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker import persistence
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.offsets import GroupOffsets, OffsetTable
from orbitmq.broker.persistence import (
    ConfigFiles,
    KnownTables,
    OffsetFile,
    format_lmq_offsets,
    format_offsets,
    known_table_names,
    parse_offsets,
)
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.broker.topics.table import TopicTable
from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.groups import GroupConfig


def test_a_topic_table_survives_a_restart(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    topics = TopicTable()
    topics.add_missing(system_topics(BrokerConfig(broker_name="a")), now_ms=1)
    topics.update(TopicConfig(topic="t", attributes={"+message.type": "FIFO"}, order=True, perm=4), now_ms=2)

    files.save_topics(topics)
    loaded = files.load_topics(auto_create_enable=True)

    assert (loaded.all, loaded.version) == (topics.all, topics.version)


def test_a_first_start_finds_nothing_and_that_is_fine(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path / "new")
    assert not files.load_topics(auto_create_enable=True).all
    assert not files.load_offsets().all
    assert "TOOLS_CONSUMER" in files.load_groups(auto_create_enable=True).all


def test_queue_ids_stand_bare_as_java_writes_them_and_both_forms_are_read() -> None:
    offsets = GroupOffsets({"t@g": {0: 123, 11: 4}})
    assert b'"t@g":{0:123,11:4}' in format_offsets(offsets.version, offsets.all)
    assert parse_offsets(format_offsets(offsets.version, offsets.all)).all == offsets.all
    assert parse_offsets(b'{\n\t"offsetTable":{"t@g":{"0":123,\n"11":4}\n\t}\n}').all == offsets.all
    assert parse_offsets(b'{"dataVersion":{"counter":3},"groupTopicMap":{},"offsetTable":{}}').version.counter == 3


async def test_offsets_are_encoded_as_they_were_and_not_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets, threads = GroupOffsets(), []
    offsets.commit("g", "t", 0, 1, offset_max=9)

    def noting(version: DataVersion, table: OffsetTable) -> bytes:
        threads.append(threading.get_ident())
        offsets.commit("g", "t", 0, 7, offset_max=9)
        return format_offsets(version, table)

    monkeypatch.setattr(persistence, "format_offsets", noting)
    file = OffsetFile(tmp_path / "offsets.json", offsets, FakeClock())
    await file.save()
    assert threads != [threading.get_ident()]
    assert parse_offsets((tmp_path / "offsets.json").read_bytes()).all == {"t@g": {0: 1}}


@each_case(b"", b"[]", b'{"offsetTable":{"t@g":{"x":1}}}', b'{"offsetTable":[1]}', b"{")
def test_a_damaged_offset_file_is_refused(damage: bytes) -> None:
    with pytest.raises(HeaderError):
        parse_offsets(damage)


def test_group_settings_survive_with_what_a_newer_broker_wrote(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    replace_file(
        files.groups_path,
        b'{"dataVersion":{"counter":7,"stateVersion":0,"timestamp":5},"forbiddenTable":{"g":{"t":2}},'
        b'"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3,"consumeEnable":false,'
        b'"groupRetryPolicy":{"type":"CUSTOMIZED"}}}}',
    )
    table = files.load_groups(auto_create_enable=True)
    files.save_groups(table)
    again = files.load_groups(auto_create_enable=True)

    assert again.all["g"] == GroupConfig(
        group="g", retry_times_max=3, consume_enable=False, extra={
            "attributes": {}, "groupRetryPolicy": {"type": "CUSTOMIZED"}
        }
    )  # fmt: skip
    assert (again.forbidden, again.version.counter) == ({"g": {"t": 2}}, 7)


def offsets_in(path: Path) -> object:
    return parse_offsets(path.read_bytes()).all if path.exists() else None


async def test_offsets_are_written_when_they_have_changed_and_only_then(tmp_path: Path) -> None:
    offsets, path = GroupOffsets(), tmp_path / "offsets.json"
    file = OffsetFile(path, offsets, FakeClock(5))
    await file.save()
    assert offsets_in(path) is None

    offsets.commit("g", "t", 0, 1, offset_max=9)
    await file.save()
    assert offsets_in(path) == {"t@g": {0: 1}}
    assert parse_offsets(path.read_bytes()).version.timestamp_ms == 5

    path.unlink()
    await file.save()
    file.save_now()
    assert offsets_in(path) is None


def test_what_was_committed_last_is_written_at_the_end(tmp_path: Path) -> None:
    offsets, path = GroupOffsets(), tmp_path / "offsets.json"
    file = OffsetFile(path, offsets, FakeClock())
    offsets.commit("g", "t", 0, 1, offset_max=9)
    file.save_now()
    assert offsets_in(path) == {"t@g": {0: 1}}


async def test_a_commit_during_the_write_is_written_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets, path = GroupOffsets(), tmp_path / "offsets.json"
    file = OffsetFile(path, offsets, FakeClock())
    offsets.commit("g", "t", 0, 1, offset_max=9)

    async def slowly(write: Callable[..., None], *args: object) -> None:
        offsets.commit("g", "t", 0, 2, offset_max=9)
        write(*args)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "to_thread", slowly)
        await file.save()
    assert offsets_in(path) == {"t@g": {0: 1}}
    await file.save()
    assert offsets_in(path) == {"t@g": {0: 2}}


async def test_what_a_slave_has_taken_over_is_written_with_its_masters_version(tmp_path: Path) -> None:
    offsets, path = GroupOffsets(), tmp_path / "offsets.json"
    file = OffsetFile(path, offsets, FakeClock(9_000))
    offsets.commit("g", "t", 0, 1, offset_max=9)
    offsets.note_copied(DataVersion(0, 5_000, 3))
    await file.save()
    assert parse_offsets(path.read_bytes()).version == DataVersion(0, 5_000, 3)


def test_tables_are_files_that_people_can_read_as_javas_are(tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    files.save_topics(TopicTable([TopicConfig(topic="t")]))
    files.save_groups(GroupConfigs())
    for path in (files.topics_path, files.groups_path):
        assert path.read_bytes().startswith(b'{\n  "dataVersion": {\n'), path


def test_a_file_without_tables_knows_no_offset() -> None:
    assert parse_offsets(b"{}").all == {}


async def test_unchanged_offsets_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    file = OffsetFile(path, GroupOffsets({"t@g": {0: 1}}), FakeClock())
    await file.save()
    file.save_now()
    assert not path.exists()


async def test_offsets_of_pops_wait_until_the_disk_has_their_checkpoints(tmp_path: Path) -> None:
    durable = 0
    path = tmp_path / "consumerOffset.json"
    offsets = GroupOffsets()
    file = OffsetFile(path, offsets, lambda: 1, lambda: durable)
    offsets.commit("g", "t", 0, 5, offset_max=9)
    offsets.log_end = 100
    await file.save()
    assert not path.exists()
    offsets.commit("g", "t", 0, 7, offset_max=9)
    offsets.log_end = 200
    durable = 150
    await file.save()  # what was to be kept before is known to be safe, what came since is not
    assert parse_offsets(path.read_bytes()).query("g", "t", 0) == 5
    file.save_now()
    assert parse_offsets(path.read_bytes()).query("g", "t", 0) == 5
    durable = 200
    await file.save()
    assert parse_offsets(path.read_bytes()).query("g", "t", 0) == 7


@each_case("topics", "groups", "offsets")
def test_a_table_that_cannot_be_read_is_refused_with_the_way_out_and_that_works(load: str, tmp_path: Path) -> None:
    files = ConfigFiles(tmp_path)
    path: Path = getattr(files, f"{load}_path")
    path.write_bytes(b"?")
    settings = {} if load == "offsets" else {"auto_create_enable": True}
    with pytest.raises(StoreError, match=rf"neither .*{path.name} nor its .* write \{{\}} into {path.name}"):
        getattr(files, f"load_{load}")(**settings)
    path.write_bytes(b"{}")
    assert getattr(files, f"load_{load}")(**settings).version.counter == 0


def tables_of(tmp_path: Path, *tables: str) -> KnownTables:
    for name in tables:
        replace_file(tmp_path / "config" / name, b"{}")
    return KnownTables(tmp_path / "config")


async def test_a_table_that_was_there_is_missed_with_the_way_out(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, "topics.json", "consumerOffset.json")
    tables.check()
    await tables.save()
    assert known_table_names(tmp_path / "config") == ["topics.json", "consumerOffset.json"]
    tables_of(tmp_path, "topics.json").check()

    path = tmp_path / "config" / "consumerOffset.json"
    path.unlink()
    with pytest.raises(StoreError, match=r"consumerOffset\.json is missing, and so is its \.bak: .* write \{\} into"):
        KnownTables(path.parent).check()
    path.write_bytes(b"{}")
    KnownTables(path.parent).check()
    path.rename(path.with_name("consumerOffset.json.bak"))
    KnownTables(path.parent).check()


def test_batches_whose_file_is_gone_come_again_and_that_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables_of(tmp_path, "consumerOrderInfo.json").save_now()
    (tmp_path / "config" / "consumerOrderInfo.json").unlink()
    KnownTables(tmp_path / "config").check()
    assert "come again" in caplog.text


@each_case(b"", b"\xff\0", b"timermetrics\n../../x\n")
def test_notes_that_are_damaged_miss_nothing_and_are_rebuilt(content: bytes, tmp_path: Path) -> None:
    tables = tables_of(tmp_path, "topics.json")
    (tmp_path / "tables").write_bytes(content)
    tables.check()
    tables.save_now()
    assert (tmp_path / "tables").read_bytes() == b"topics.json\n"


async def test_notes_that_say_what_is_there_are_not_written_again(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, "topics.json")
    tables.save_now()
    (tmp_path / "tables").unlink()
    tables.save_now()
    await tables.save()
    assert not (tmp_path / "tables").exists()


def test_a_table_that_goes_while_the_broker_runs_is_still_missed_by_the_next_start(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, "topics.json")
    tables.save_now()
    (tmp_path / "config" / "topics.json").unlink()
    replace_file(tmp_path / "config" / "delayOffset.json", b"{}")
    tables.save_now()
    assert known_table_names(tmp_path / "config") == ["topics.json", "delayOffset.json"]


def test_a_disk_that_refuses_the_notes_stops_nothing_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = tables_of(tmp_path, "topics.json")
    (tmp_path / "tables").mkdir()
    with pytest.raises(StoreError, match="tables cannot be read"):
        tables.check()
    tables.save_now()
    assert "tables cannot be written" in caplog.text


def test_light_groups_have_one_offset_in_each_topic_as_java_has_them() -> None:
    offsets = GroupOffsets({"t@g": {0: 1, 1: 2}, "%LMQ%a@%LMQ%g": {0: 3}, "t@%LMQ%g": {0: 4, 1: 5}})
    written = format_lmq_offsets(offsets.version, offsets.all)
    assert b'"lmqOffsetTable":{"%LMQ%a@%LMQ%g":3,"t@%LMQ%g":4}' in written
    assert b'"offsetTable":{"t@g":{0:1,1:2},"t@%LMQ%g":{1:5}}' in written
    assert parse_offsets(written).all == offsets.all


def test_the_first_start_with_lmqs_goes_on_with_the_offsets_of_before(tmp_path: Path) -> None:
    replace_file(tmp_path / "consumerOffset.json", format_offsets(DataVersion(), {"t@g": {0: 1}}))
    files = ConfigFiles(tmp_path, has_lmq=True)
    assert files.load_offsets().query("g", "t", 0) == 1
    file = OffsetFile(files.offsets_path, GroupOffsets({"t@g": {0: 1}}), lambda: 1, is_lmq=True)
    file._saved_change_count = -1
    file.save_now()
    assert files.offsets_path.name == "lmqConsumerOffset.json"
    replace_file(tmp_path / "consumerOffset.json", b"{}")
    assert files.load_offsets().query("g", "t", 0) == 1
