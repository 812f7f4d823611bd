"""Claims about a broker's start and stop."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

from orbitmq.address import parse_address
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.health.monitor import BrokerMonitor
from orbitmq.broker.persistence import ConfigFiles, format_offsets
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.broker.settings.store_settings import retention_rules, store_config
from orbitmq.broker.topics.table import TopicTable
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import ConfigError, HeaderError, StoreError
from orbitmq.files import replace_file
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.http import HttpServer
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.store import Draft, FlushMode, StoreConfig
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.retention.rules import RetentionRules
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.headers import GetMaxOffset, HeartbeatRequest, UpdateConsumerOffset
from waiting import until

from .parts import Serve

pytestmark = pytest.mark.real


def config_of(path: Path, **settings: Any) -> BrokerConfig:
    return BrokerConfig(
        broker_name="a", bind_address="127.0.0.1", listen_port=0, store_path_root_dir=path,
        mapped_file_size_commit_log=4 * 1024 * 1024, **settings,
    )  # fmt: skip


def test_the_stores_settings_are_the_brokers(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, flush_disk_type="SYNC_FLUSH", flush_interval_commit_log=7, mapped_file_size_consume_queue=119,
        enabled_append_prop_crc=True, accept_log_end=0, sync_flush_timeout=800, sync_flush_waiting_max=70_000,
        open_files_max=123, max_hash_slot_num=70, max_index_num=80,
    )  # fmt: skip
    assert store_config(config) == StoreConfig(
        path=tmp_path, segment_size=4 * 1024 * 1024, consume_queue_units=5, flush=FlushMode.SYNC, flush_interval_ms=7,
        record_crc=True, accept_log_end=0, sync_timeout_ms=800, waiting_size_max=70_000, open_files_max=123,
        has_index=True, index_slots=70, index_entries=80,
    )  # fmt: skip


def test_the_rules_of_deletion_are_the_brokers(tmp_path: Path) -> None:
    java = RetentionRules()
    assert retention_rules(config_of(tmp_path)) == java
    config = config_of(
        tmp_path, file_reserved_time=1, delete_when="04;16", disk_max_used_space_ratio=40, delete_file_batch_max=3,
        disk_space_clean_forcibly_ratio=50, disk_space_warning_level_ratio=60, clean_file_forcibly_enable=False,
        delete_commit_log_files_interval=7, delete_consume_queue_files_interval=8, clean_resource_interval=900,
    )  # fmt: skip
    assert retention_rules(config) == RetentionRules(
        reserved_ms=3_600_000, delete_hours=frozenset((4, 16)), high_ratio=0.4, forcing_ratio=0.5, full_ratio=0.6,
        may_force=False, batch_max=3, segment_pause_ms=7, queue_pause_ms=8, round_ms=900,
    )  # fmt: skip


async def test_a_brokers_old_files_are_deleted_while_it_runs(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalDisk, "used_ratio", lambda disk, directory: 0.95)
    async with serve(mapped_file_size_commit_log=65_536, clean_resource_interval=100) as harness:
        store = harness.broker.service.store
        await until(lambda: not store.is_writable)
        assert "disk is full" in harness.broker.service.runtime_info.values(0)["warnings"]
        monkeypatch.setattr(LocalDisk, "used_ratio", lambda disk, directory: 0.1)
        await until(lambda: store.is_writable)
        for _ in range(4):
            store.append(Draft("orders", 0, b"x" * 50_000))
        store.flush()
        monkeypatch.setattr(LocalDisk, "used_ratio", lambda disk, directory: 0.88)
        await until(lambda: store.retention.deleted_segments == 3)
        assert [path.name for path in (tmp_path / "store" / "commitlog").iterdir()] == [f"{3 * 65_536:020}"]


async def test_a_broker_is_reached_at_its_vip_port_as_well(tmp_path: Path) -> None:
    broker = Broker(config_of(tmp_path))
    await broker.start()
    host, port = parse_address(broker.address)
    pool = ConnectionPool(name="test")
    for address in (f"{host}:{port - 2}", broker.address):
        answer = await pool.request(address, GetMaxOffset(topic="none", queue_id=0), timeout_ms=60_000)
        assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    await pool.close()
    assert broker.running.server.counters.requests[RequestCode.GET_MAX_OFFSET] == 2
    await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port - 2)


async def test_a_broker_does_not_start_where_another_one_has_its_vip_port(tmp_path: Path) -> None:
    # Its clients would send to the other broker, which would take what is not meant for it.
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1] + 2
        settings = config_of(tmp_path)
        with pytest.raises(ConfigError, match=f"listenPort - 2 = {port - 2}.*vipChannelEnable=false"):
            await Broker(dataclasses.replace(settings, listen_port=port)).start()
        broker = Broker(dataclasses.replace(settings, listen_port=port, vip_channel_enable=False))
        await broker.start()
        await broker.stop()


async def test_a_broker_has_no_more_topics_and_groups_than_it_may(serve: Serve) -> None:
    async with serve(topics_max=107, groups_max=108) as harness:
        tables = harness.broker.service.tables
        assert (tables.topics.table.count_max, tables.groups.configs.count_max) == (107, 108)


async def test_a_crowd_of_connections_leaves_a_broker_its_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("orbitmq.broker.limits.descriptor_limit", lambda: 6)
    broker = Broker(config_of(tmp_path, connections_max=40_000))
    await broker.start()
    server, address = broker.running.server, parse_address(broker.address)
    writers = [(await asyncio.open_connection(*address))[1] for _ in range(4)]
    await until(lambda: server.counters.connections_refused == 1)
    assert len(server.connections) == 3
    sentence = "takes 3 connections, not connectionsMax=40000: 6 file descriptors"
    assert broker.running.monitor.health()["warnings"] == [sentence]
    for writer in writers:
        writer.close()
    await broker.stop()
    assert "takes 3 connections, not connectionsMax=40000: 6 file descriptors" in caplog.text


def test_a_broker_that_is_not_started_has_no_address_and_can_be_stopped(tmp_path: Path) -> None:
    broker = Broker(config_of(tmp_path))
    with pytest.raises(AssertionError, match="not started"):
        _ = broker.address


async def test_a_broker_is_stopped_once_however_often_it_is_asked(tmp_path: Path) -> None:
    broker = Broker(config_of(tmp_path))
    await broker.stop()
    await broker.start()
    await broker.stop()
    await broker.stop()


async def test_a_start_that_fails_leaves_nothing_locked_or_open(tmp_path: Path) -> None:
    first = Broker(config_of(tmp_path / "first"))
    await first.start()
    port = int(first.address.rpartition(":")[2])
    taken = Broker(dataclasses.replace(config_of(tmp_path / "second"), listen_port=port))
    with pytest.raises(OSError):
        await taken.start()
    await taken.stop()
    await first.stop()
    await taken.start()
    await taken.stop()


async def test_a_start_whose_http_port_is_taken_leaves_nothing_locked_or_open(tmp_path: Path) -> None:
    first = Broker(dataclasses.replace(config_of(tmp_path / "first"), metrics_port=0))
    await first.start()
    port = parse_address(str(first.metrics_address))[1]
    taken = Broker(dataclasses.replace(config_of(tmp_path / "second"), metrics_port=port))
    with pytest.raises(OSError):
        await taken.start()
    await first.stop()
    await taken.start()
    assert parse_address(str(taken.metrics_address))[1] == port
    await taken.stop()
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_one_store_serves_one_broker(tmp_path: Path) -> None:
    first = Broker(config_of(tmp_path))
    await first.start()
    with pytest.raises(StoreError, match="in use"):
        await Broker(config_of(tmp_path)).start()
    await first.stop()


async def test_a_table_that_cannot_be_read_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    broker = Broker(config_of(tmp_path))
    for name in ("topics.json", "consumerOffset.json", "subscriptionGroup.json", "delayOffset.json"):
        replace_file(tmp_path / "config" / name, b"not a table")
        with pytest.raises((StoreError, HeaderError), match=r"."):
            await broker.start()
        (tmp_path / "config" / name).unlink()
    await broker.start()
    await broker.stop()


async def test_a_committed_offset_beyond_its_queue_is_pulled_back_said_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = ConfigFiles(tmp_path / "config")
    replace_file(files.offsets_path, format_offsets(DataVersion(), {"t@g": {0: 5}}))
    broker = Broker(config_of(tmp_path))
    await broker.start()
    # Before a message comes to offset 0: another crash would take the group past it.
    assert files.load_offsets().all == {"t@g": {0: 0}}
    await broker.stop()
    assert "t@g queue 0: 5 -> 0" in caplog.text


async def test_a_topic_of_a_java_broker_with_an_attribute_that_has_no_effect_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = TopicTable([TopicConfig(topic="latest", attributes={"cleanup.policy": "COMPACTION"})])
    ConfigFiles(tmp_path / "config").save_topics(topics)
    broker = Broker(config_of(tmp_path))
    await broker.start()
    await broker.stop()
    assert "the topic latest has cleanup.policy=COMPACTION, which has no effect here" in caplog.text


async def test_name_servers_can_be_changed_while_the_broker_runs(harness: Any) -> None:
    broker = harness.broker
    broker.set_name_servers("127.0.0.1:1;127.0.0.1:2")
    assert broker.running.others.registrar.name_servers == ("127.0.0.1:1", "127.0.0.1:2")
    with pytest.raises(ConfigError):
        broker.set_name_servers("host:99999")
    assert broker.config.name_servers == ("127.0.0.1:1", "127.0.0.1:2")


async def test_the_pulls_and_members_of_a_connection_that_closed_are_forgotten(harness: Any) -> None:
    service = harness.broker.service
    await harness.send()
    beat = encode_heartbeat(Heartbeat(client_id="c", consumers=(ConsumerInfo(group="g"),)))
    await harness.ask(HeartbeatRequest(), beat)
    waiting = asyncio.create_task(harness.pull(queue_offset=1, sys_flag=6, suspend_timeout_ms=60_000))
    await until(lambda: service.delivery.pulls.held_count == 1)
    await harness.pool.close()
    await asyncio.gather(waiting, return_exceptions=True)
    await until(lambda: service.delivery.pulls.held_count == 0)
    await until(lambda: service.clients.members.consumer_ids("g") == [])


async def test_a_stop_that_cannot_write_one_file_writes_the_others(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError("no such disk")

    await harness.send()
    await harness.make_group()
    commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1)
    assert await harness.code(commit) == 0
    monkeypatch.setattr(harness.broker.service.delivery.pop.batch_file, "save_now", fail)
    with pytest.raises(OSError, match="no such disk"):
        await harness.broker.stop()
    assert b'"t@g"' in (tmp_path / "store" / "config" / "consumerOffset.json").read_bytes()


async def test_topics_of_the_system_are_stored_at_the_first_start(harness: Any, tmp_path: Path) -> None:
    stored = ConfigFiles(tmp_path / "store" / "config").load_topics(auto_create_enable=True)
    assert stored.all == harness.broker.service.tables.topics.table.all
    assert "TBW102" in stored.all


async def test_a_topic_that_a_full_disk_refuses_is_made_and_kept_by_the_first_send_that_it_takes(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    async with serve() as harness:
        topics = harness.broker.service.tables.topics.table
        before = set(topics.all)
        with monkeypatch.context() as patch:
            patch.setattr("orbitmq.broker.groups.table_file.replace_file", refuse)
            answer = await harness.send("orders")
            assert (answer.code, answer.remark) == (14, "the topic table cannot be saved: No space left on device")
        # Neither the new topic nor what the start added: only the refused change is taken back.
        assert set(topics.all) == before
        assert (await harness.send("orders")).code == 0
        kept = ConfigFiles(harness.broker.config.store_path_root_dir / "config").load_topics(auto_create_enable=True)
        assert set(kept.all) == {*before, "orders"}


@pytest.mark.parametrize("error", [ZeroDivisionError("a defect of ours"), asyncio.CancelledError()])
@pytest.mark.parametrize("step", [(HttpServer, "close"), (Registrar, "leave"), (Server, "drain")])
async def test_a_step_of_a_stop_that_fails_or_is_cancelled_keeps_no_other_from_being_done(
    step: tuple[type, str], error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(config_of(tmp_path, metrics_port=0))
    await broker.start()
    addresses = [broker.address, str(broker.metrics_address)]
    owner, name = step
    does = getattr(owner, name)

    async def fail(*arguments: Any) -> None:
        await does(*arguments)
        raise error

    monkeypatch.setattr(owner, name, fail)
    with pytest.raises(type(error)):
        await broker.stop()
    for address in addresses:
        with pytest.raises(OSError):
            await asyncio.open_connection(*parse_address(address))
    assert not (tmp_path / "abort").exists(), "the stop was orderly"


async def test_a_task_that_has_failed_is_told_by_the_stop_which_closes_everything_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: BrokerMonitor) -> None:
        raise ZeroDivisionError("a defect of ours")

    monkeypatch.setattr(BrokerMonitor, "run", fail)
    broker = Broker(config_of(tmp_path))
    await broker.start()
    address = broker.address
    assert (tmp_path / "abort").exists()
    await until(lambda: any(task.done() for task in broker.running.tasks))
    with pytest.raises(ZeroDivisionError, match="a defect of ours"):
        await broker.stop()
    with pytest.raises(OSError):
        await asyncio.open_connection(*parse_address(address))
    assert not (tmp_path / "abort").exists(), "the stop was orderly"
