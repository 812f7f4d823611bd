"""Our slave under our master: two brokers on the loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.replication import metadata
from orbitmq.broker.replication.follower import Follower
from orbitmq.broker.replication.metadata import ask_no_master
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, ConnectionFailed
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import FakeClock
from orbitmq.wire.headers import GetMinOffset, GetReplicationStatus, OffsetResponse, SendResponse
from waiting import until

from ..conftest import Harness, send_header

pytestmark = pytest.mark.real

SEGMENT_SIZE = 65_536
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@asynccontextmanager
async def broker(path: Path, **settings: Any) -> AsyncIterator[Harness]:
    fixed: dict[str, Any] = {
        "bind_address": "127.0.0.1", "listen_port": 0, "store_path_root_dir": path, "broker_name": "a",
        "mapped_file_size_commit_log": SEGMENT_SIZE, "mapped_file_size_consume_queue": 20_000,
        "ha_send_heartbeat_interval": 200,
    }  # fmt: skip
    clock = settings.pop("clock", None)
    clocks = {} if clock is None else {"clock": clock, "monotonic": clock}
    running = Broker(BrokerConfig(**fixed | settings), **clocks)
    await running.start()
    harness = Harness(running)
    try:
        yield harness
    finally:
        for pool in harness.pools:
            await pool.close()
        await running.stop()


@asynccontextmanager
async def slave(path: Path, master: Harness, **settings: Any) -> AsyncIterator[Harness]:
    async with broker(path, broker_role="SLAVE", broker_id=1, **settings) as harness:
        address = master.broker.service.address
        harness.broker.service.following.log.learn(address.replication, address.announced)
        yield harness


def log_of(harness: Harness) -> dict[str, bytes]:
    path = harness.broker.service.store._config.path / "commitlog"
    files = {file.name: file.read_bytes().rstrip(b"\0") for file in sorted(path.iterdir())}
    return {name: content for name, content in files.items() if content}


async def reached(copy: Harness, end: int) -> None:
    await until(lambda: copy.broker.service.store.max_physical_offset >= end)


async def copied(master: Harness, copy: Harness) -> None:
    end = master.broker.service.store.max_physical_offset
    await reached(copy, end)
    assert log_of(master) == log_of(copy)


async def test_a_slave_has_its_masters_log_and_its_readers_find_the_messages(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        for number in range(3):
            await master.send(body=b"%d" % number + b"x" * 30_000)
        await copied(master, copy)
        assert len(log_of(copy)) > 1
        await copy.broker.service.following.tables.take_over(master.broker.address)
        _, records = await copy.pull()
        assert [bytes(record.body)[:1] for record in records] == [b"0", b"1", b"2"]
        assert records == (await master.pull())[1]


async def test_a_slave_hides_what_its_masters_topics_keep_no_longer(tmp_path: Path) -> None:
    clock = FakeClock(DAY_MS)
    async with (
        broker(tmp_path / "m", ha_listen_port=0, clock=clock) as master,
        slave(tmp_path / "s", master, clock=clock) as copy,
    ):
        topic = TopicConfig(topic="t", attributes={"+reserve.time": "1"})
        master.broker.service.tables.topics.update(topic, clock())
        await master.send(body=b"old")
        clock.advance(2 * HOUR_MS)
        await master.send(body=b"new")
        await copied(master, copy)
        await copy.broker.service.following.tables.take_over(master.broker.address)
        for each in (master, copy):
            await each.broker.running.housekeeping.do_due(10_000)
            assert (await each.answer(GetMinOffset(topic="t", queue_id=0), OffsetResponse)).offset == 1
            assert [bytes(record.body) for record in (await each.pull(queue_offset=1))[1]] == [b"new"]


async def test_a_slave_goes_on_after_either_stopped(tmp_path: Path) -> None:
    for round_ in range(2):
        async with broker(tmp_path / "m", ha_listen_port=0) as master:
            await master.send(body=b"a%d" % round_)
            async with slave(tmp_path / "s", master) as copy:
                await copied(master, copy)
            await master.send(body=b"b%d" % round_)
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        await copied(master, copy)
        await copy.broker.service.following.tables.take_over(master.broker.address)
        assert [bytes(record.body) for record in (await copy.pull())[1]] == [b"a0", b"b0", b"a1", b"b1"]


async def test_an_empty_slave_begins_with_the_last_file_and_opens_again(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        for _ in range(5):
            await master.send(body=b"x" * 30_000)
        for _ in range(2):
            async with slave(tmp_path / "s", master) as copy:
                end = master.broker.service.store.max_physical_offset
                await reached(copy, end)
                assert copy.broker.service.store.min_physical_offset == 2 * SEGMENT_SIZE
                assert list(log_of(copy).items()) == list(log_of(master).items())[2:]
                await copy.broker.service.following.tables.take_over(master.broker.address)
                _, records = await copy.pull(queue_offset=4)
                assert records[0].queue_offset == 4
            await master.send(body=b"more")


async def test_a_slave_takes_messages_from_its_master_alone(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        await master.send()
        await copied(master, copy)
        await copy.broker.service.following.tables.take_over(master.broker.address)
        answer = await copy.send()
        assert (answer.code, "slave" in (answer.remark or "")) == (14, True)
        assert (await copy.ask(send_header("unheard-of"), b"x")).code != 0
        assert log_of(master) == log_of(copy)


async def test_a_synchronous_master_is_content_with_a_slave_of_ours(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", broker_role="SYNC_MASTER") as master, slave(tmp_path / "s", master) as copy:
        await until(lambda: bool(master.broker.service.slave_listener.slaves))
        assert (await master.send()).code == 0
        assert log_of(master) == log_of(copy)


async def test_a_slave_that_is_started_as_a_master_goes_on_with_what_it_copied(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        await master.send(body=b"copied")
        await copied(master, copy)
        await copy.broker.service.following.tables.take_over(master.broker.address)
    async with broker(tmp_path / "s") as promoted:
        assert (await promoted.answer(send_header(), SendResponse, b"new")).queue_offset == 1
        assert [bytes(record.body) for record in (await promoted.pull())[1]] == [b"copied", b"new"]


async def test_a_typed_topic_is_taken_over_with_its_type(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        typed = TopicConfig(topic="typed", attributes={"+message.type": "FIFO"})
        master.broker.service.tables.topics.update_all([typed], 0)
        await copy.broker.service.following.tables.take_over(master.broker.address)
        taken = copy.broker.service.tables.topics.table.get("typed")
        assert taken is not None
        assert taken.attributes == {"message.type": "FIFO"}


async def test_a_promoted_slave_repeats_no_delayed_and_no_timed_message(tmp_path: Path) -> None:
    levels = {"message_delay_level": "1s 2h", "timer_flush_interval_ms": 100}
    async with broker(tmp_path / "m", ha_listen_port=0, **levels) as master:
        async with slave(tmp_path / "s", master, **levels) as copy:
            await master.send(body=b"delayed", properties="DELAY\x011\x02")
            await master.send(body=b"much later", properties="DELAY\x012\x02")
            await master.send(body=b"timed", properties="TIMER_DELAY_MS\x011000\x02")
            store, timers = master.broker.service.store, master.broker.service.sends.timers
            await until(lambda: store.max_offset("t", 0) == 2)
            await until(lambda: not timers.timers.is_changed)
            await copied(master, copy)
            tables = copy.broker.service.following.tables
            await tables.take_over(master.broker.address)
            await tables._progress.look(master.broker.address)
            await tables.take_over_progress()
            assert copy.broker.service.sends.delays.backlog()[1] == 0
    async with broker(tmp_path / "s", **levels) as promoted:
        assert promoted.broker.service.sends.delays.backlog() == {1: 0, 2: 1}
        await promoted.send(body=b"new", properties="DELAY\x011\x02")
        await promoted.send(body=b"new, too", properties="TIMER_DELAY_MS\x011000\x02")
        store = promoted.broker.service.store
        await until(lambda: store.max_offset("t", 0) == 4)
        records = (await promoted.pull())[1]
        assert sorted(bytes(record.body) for record in records) == [b"delayed", b"new", b"new, too", b"timed"]


async def test_a_promoted_slave_passes_over_what_its_master_delivered_since_it_last_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "_LOOK_S", 3_600)  # it looks when this test says so
    levels = {"message_delay_level": "1s 2h", "timer_flush_interval_ms": 100}
    async with broker(tmp_path / "m", ha_listen_port=0, **levels) as master:
        async with slave(tmp_path / "s", master, **levels) as copy:
            for key in ("1", "2"):
                await master.send(body=b"delayed", properties=f"DELAY\x011\x02UNIQ_KEY\x01d{key}\x02")
                await master.send(body=b"timed", properties=f"TIMER_DELAY_MS\x011000\x02UNIQ_KEY\x01t{key}\x02")
            await master.send(body=b"later", properties="TIMER_DELAY_MS\x014000\x02UNIQ_KEY\x01t1\x02")
            await copied(master, copy)
            tables = copy.broker.service.following.tables
            await tables.take_over(master.broker.address)
            await tables._progress.look(master.broker.address)
            assert await tables._progress.take_over()
            await until(lambda: master.broker.service.store.max_offset("t", 0) == 4)
            await copied(master, copy)
            assert copy.broker.service.sends.delays.backlog()[1] == 2
    async with broker(tmp_path / "s", **levels) as promoted:
        assert promoted.broker.service.sends.delays.backlog()[1] == 0
        store = promoted.broker.service.store
        await until(lambda: store.max_offset("t", 0) == 5)
        records = (await promoted.pull())[1]
        assert sorted(bytes(record.body) for record in records) == [b"delayed"] * 2 + [b"later"] + [b"timed"] * 2


@pytest.mark.parametrize("old", [b"b" * 100, b"b" * 10, b"b" * 1000, b"b" * 40_000])
async def test_a_master_that_returns_with_other_messages_is_no_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, old: bytes
) -> None:
    """Its last message has no copy; the new master has others in its place, of an equal, a smaller or a larger size."""
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        for _ in range(5):
            await master.send(body=b"copied")
        await copied(master, copy)
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        await master.send(body=old)
    settings = {"broker_role": "SYNC_MASTER", "ha_listen_port": 0, "slave_timeout": 300}
    async with broker(tmp_path / "s", **settings) as promoted:
        for _ in range(3):
            await promoted.send(body=b"a" * 100)
        async with slave(tmp_path / "m", promoted) as returned:
            before = log_of(returned)
            await until(lambda: "it is not a copy" in caplog.text)
            assert (await promoted.send()).code == ResponseCode.SLAVE_NOT_AVAILABLE
            assert log_of(returned) == before
            assert not promoted.broker.service.slave_listener.slaves


async def test_a_first_report_acknowledges_nothing(tmp_path: Path) -> None:
    settings = {"broker_role": "SYNC_MASTER", "ha_listen_port": 0, "slave_timeout": 500}
    async with broker(tmp_path / "m", **settings) as master:
        host, _, port = master.broker.service.address.replication.rpartition(":")
        listener, store = master.broker.service.slave_listener, master.broker.service.store
        _, silent = await asyncio.open_connection(host, int(port))
        silent.write(bytes(8))
        await until(lambda: bool(listener.slaves))
        sending = asyncio.create_task(master.send())
        await until(lambda: store.max_physical_offset > 0)
        _, liar = await asyncio.open_connection(host, int(port))
        liar.write(store.max_physical_offset.to_bytes(8, "big"))
        assert (await sending).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert len(listener.slaves) == 2
        silent.close()
        liar.close()


async def test_a_slave_goes_to_a_new_master_though_the_old_one_is_silent(tmp_path: Path) -> None:
    async def be_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await reader.read()
        writer.close()

    connected = asyncio.Event()
    silent = await asyncio.start_server(be_silent, "127.0.0.1", 0)
    address = "{}:{}".format(*silent.sockets[0].getsockname())
    async with broker(tmp_path / "m", ha_listen_port=0) as master, silent:
        long = {"broker_role": "SLAVE", "broker_id": 1, "ha_housekeeping_interval": 600_000}
        async with broker(tmp_path / "s", **long) as copy:
            follower = copy.broker.service.following.log
            follower.learn(address, None)
            await connected.wait()
            await master.send()
            follower.learn(master.broker.service.address.replication, None)
            await copied(master, copy)


async def test_a_slave_that_is_told_the_port_alone_compares_before_it_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker(tmp_path / "s") as old:
        await old.send(body=b"old")
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        await master.send(body=b"new")
        address = master.broker.service.address
        settings = {"ha_master_address": address.replication, "namesrv_addr": "127.0.0.1:9"}
        async with broker(tmp_path / "s", broker_role="SLAVE", broker_id=1, **settings) as copy:
            before = log_of(copy)
            await until(lambda: "no NameServer has told" in caplog.text)
            copy.broker.service.following.log.learn(address.replication, address.announced)
            await until(lambda: "this log has another record at 0" in caplog.text)
            assert (log_of(copy), master.broker.service.slave_listener.slaves) == (before, [])


async def test_a_master_that_answers_no_connection_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_address: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", hang)
    store: Any = None
    follower = Follower(
        store, SEGMENT_SIZE, ask_no_master, master="192.0.2.1:1", has_name_servers=False, heartbeat_ms=1, silence_ms=1
    )
    with pytest.raises(TimeoutError):
        await follower._follow(follower.master)


async def test_a_follower_that_is_cancelled_while_its_connection_ends_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a master leaves, and another member becomes a copy of the next one at the same moment."""
    is_ending, may_end = asyncio.Event(), asyncio.Event()

    async def beat(_self: Follower, _writer: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            is_ending.set()
            await may_end.wait()

    monkeypatch.setattr(Follower, "_beat", beat)
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        async with slave(tmp_path / "s", master):
            slaves = master.broker.service.slave_listener
            await until(lambda: bool(slaves.slaves))
            (task,) = (task for task in asyncio.all_tasks() if "Follower.run" in repr(task))
            await slaves.close()
            await is_ending.wait()
            task.cancel()
            await asyncio.sleep(0)
            may_end.set()
            await until(task.done)
            assert task.cancelled()


async def test_a_slave_reports_what_its_disk_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        broker(tmp_path / "m", ha_listen_port=0) as master,
        slave(tmp_path / "s", master, flush_disk_type="SYNC_FLUSH") as copy,
    ):
        waiting: list[Callable[[bool | None], None]] = []

        def wait_durable(position: int, waiter: Callable[[bool | None], None]) -> bool:
            waiting.append(waiter)
            return False

        monkeypatch.setattr(copy.broker.service.store, "wait_durable", wait_durable)
        slaves = master.broker.service.slave_listener
        await until(lambda: bool(slaves.slaves))
        await master.send()
        await reached(copy, master.broker.service.store.max_physical_offset)
        await until(lambda: bool(waiting))
        assert slaves.slaves[0].acknowledged == 0
        waiting[0](True)
        await until(lambda: slaves.slaves[0].acknowledged == master.broker.service.store.max_physical_offset)


async def test_a_slave_prepares_before_it_follows_and_before_each_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master, slave(tmp_path / "s", master) as copy:
        slaves, store = master.broker.service.slave_listener, copy.broker.service.store
        seen: list[tuple[int, int]] = []
        copy.broker.service.following.log.before_report = lambda: seen.append(
            (store.max_physical_offset, slaves.slaves[0].acknowledged)
        )
        await until(lambda: bool(slaves.slaves))
        await master.send()
        await until(lambda: slaves.slaves[0].acknowledged == master.broker.service.store.max_physical_offset)
        assert seen[-1][1] < seen[-1][0] == slaves.slaves[0].acknowledged
    steps: list[str] = []

    async def follow(master: str) -> None:
        steps.append(f"follow {master}")
        raise asyncio.CancelledError

    async def prepare(master: str) -> None:
        steps.append(f"prepare {master}")
        if len(steps) == 1:
            raise ConnectionFailed(master, "not yet")

    async def compare() -> None:
        """Nothing to compare."""

    given: Any = None
    follower = Follower(
        given, SEGMENT_SIZE, ask_no_master, master="ha:1", has_name_servers=False, heartbeat_ms=1, silence_ms=1
    )
    follower.master_broker, follower.prepare = "m:1", prepare
    monkeypatch.setattr(follower, "_follow", follow)
    monkeypatch.setattr(follower, "_compare", compare)
    monkeypatch.setattr("orbitmq.broker.replication.follower._RETRY_S", 0)
    with pytest.raises(asyncio.CancelledError):
        await follower.run()
    assert steps == ["prepare m:1", "prepare m:1", "follow ha:1"]


async def test_a_slave_says_whom_it_follows(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        address = master.broker.service.address.replication
        async with slave(tmp_path / "s", master, ha_master_address=address) as copy:
            await master.send()
            await copied(master, copy)
            status = orjson.loads((await copy.ask(GetReplicationStatus())).body)
            assert status["master"] is False
            assert status["haClientRuntimeInfo"]["masterAddr"] == address
            assert status["haClientRuntimeInfo"]["maxOffset"] == copy.broker.service.store.max_physical_offset


async def test_topics_groups_and_offsets_are_taken_over_and_kept(tmp_path: Path) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        await master.send(topic="orders")
        await master.make_group("billing")
        master.broker.service.tables.offsets.commit("billing", "orders", 0, 1, offset_max=1)
        async with slave(tmp_path / "s", master) as copy:
            await copied(master, copy)
            await copy.broker.service.following.tables.take_over(master.broker.address)
            assert copy.broker.service.tables.offsets.query("billing", "orders", 0) == 1
    async with broker(tmp_path / "s", broker_role="SLAVE", broker_id=1) as copy:
        assert copy.broker.service.tables.topics.table.get("orders") is not None
        assert copy.broker.service.tables.groups.configs.get("billing") is not None


async def test_a_slave_of_files_of_another_size_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with broker(tmp_path / "m", ha_listen_port=0) as master:
        for _ in range(3):
            await master.send(body=b"x" * 30_000)
        async with slave(tmp_path / "s", master, mapped_file_size_commit_log=4 * SEGMENT_SIZE):
            await until(lambda: "mappedFileSizeCommitLog has to be the master's" in caplog.text)


def test_a_slave_needs_an_id_of_its_own() -> None:
    with pytest.raises(ConfigError, match="brokerId"):
        BrokerConfig(broker_role="SLAVE")
