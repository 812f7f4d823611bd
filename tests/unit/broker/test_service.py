"""A broker's state, put together without a port: which setting reaches which part, and its jobs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker import housekeeping
from orbitmq.broker.access.control import AccessControl
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.context import BrokerContext, BrokerLinks
from orbitmq.broker.delivery.delay import format_delay_offsets, schedule
from orbitmq.broker.groups.members import HeartbeatSource
from orbitmq.broker.handlers.queue_locks import lock_queues, unlock_queues
from orbitmq.broker.housekeeping import Housekeeping, PeriodicJob
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.registration.addresses import BrokerAddress
from orbitmq.broker.security import make_server_security
from orbitmq.broker.service import BrokerService
from orbitmq.broker.tables import StoredTables
from orbitmq.broker.topics.registry import Announced
from orbitmq.files import replace_file
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import SCHEDULE_TOPIC, DataVersion, TopicConfig
from orbitmq.net.dispatch.handlers import LATER, Reply
from orbitmq.store import Draft, Store
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.heartbeat import QueueLock, decode_locked_queues, encode_queue_lock
from orbitmq.wire.headers import LockQueues, SendResponse, UnlockQueues
from waiting import until

from .conftest import pull_header, send_header
from .parts import HOST, FakePeer, call, memory_store

ADDRESS = BrokerAddress(HOST, "broker-a:10911", "broker-a:10912")


async def _no_route(topic: str) -> None:
    """Know no NameServer."""


class Harness:
    """A service over a store in memory and files in a directory."""

    def __init__(self, path: Path, store: Store | None = None, **settings: Any) -> None:
        config: dict[str, Any] = {"broker_name": "a", "store_path_root_dir": path, **settings}
        self.config = BrokerConfig(**config)
        self.files = ConfigFiles(path / "config")
        self.clock = FakeClock(1_000)
        self.monotonic = FakeClock(50)
        self.store = store or memory_store(clock=self.clock)
        self.announced: list[Announced | None] = []
        context = BrokerContext(
            config=self.config,
            store=self.store,
            files=self.files,
            address=ADDRESS,
            access=AccessControl(self.config, self.files.access_path, self.store),
            security=make_server_security(self.config),
            clock=self.clock,
            monotonic=self.monotonic,
            random=Random(7),
        )
        links = BrokerLinks(announce=self.announced.append, find_queues=_no_route)
        self.service = BrokerService(context, links, StoredTables.load(self.files, self.config))

    def join(self, client_id: str, peer: FakePeer) -> None:
        heartbeat = Heartbeat(client_id=client_id, consumers=(ConsumerInfo(group="g"),))
        self.service.clients.membership.heartbeat(heartbeat, HeartbeatSource(peer))


@each_case((6, True, True), (4, True, False), (2, False, True), (0, False, False))
def test_a_broker_is_read_and_written_as_far_as_its_permission_says(
    permission: int, is_readable: bool, is_writable: bool, tmp_path: Path
) -> None:
    service = Harness(tmp_path, broker_permission=permission).service
    assert (service.is_readable, service.is_writable) == (is_readable, is_writable)
    assert service.sends.sending.queue_resolver.is_writable is is_writable


def test_a_changed_topic_is_in_its_file_and_announced(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.service.tables.topics.update(TopicConfig(topic="orders"), 1)
    assert harness.files.load_topics(auto_create_enable=True).get("orders") == TopicConfig(topic="orders")
    assert harness.announced == [None]


async def test_a_new_group_is_in_its_file_and_its_retry_topic_in_the_topics_of_the_same_broker(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    told: list[object] = []
    harness.service.tables.auto_creation.admit(FakePeer(), ["g"], 1, told.append)
    await until(lambda: told == [None])
    assert harness.files.load_groups(auto_create_enable=False).get("g") is not None
    assert harness.service.tables.topics.get("%RETRY%g") is not None


def test_tables_that_were_stored_are_served(tmp_path: Path) -> None:
    first = Harness(tmp_path).service
    first.tables.topics.update(TopicConfig(topic="orders"), 1)
    first.tables.groups.update(GroupConfig(group="g", retry_times_max=3), 1)
    again = Harness(tmp_path).service
    assert again.tables.topics.get("orders") == TopicConfig(topic="orders")
    assert (again.tables.groups.configs.all["g"].retry_times_max, again.tables.offsets.all) == (3, {})


def test_delayed_messages_go_on_where_the_file_says(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    for body in (b"delivered before", b"still waiting"):
        harness.store.append(schedule(Draft("t", 0, body), {}, 1))
    harness.service.tables.topics.update(TopicConfig(topic="t"), 1)
    replace_file(harness.files.delays_path, format_delay_offsets({1: 1}, DataVersion()))
    again = Harness(tmp_path, harness.store)
    again.clock.advance(10_000)
    again.monotonic.advance(10_000)
    again.service.sends.delays.wake()
    assert harness.store.max_offset(SCHEDULE_TOPIC, 0) == 2
    assert run_once(again) == [b"still waiting"]


def run_once(harness: Harness) -> list[bytes]:
    """Run the delivery of delayed messages until something has arrived; return the bodies."""

    async def scenario() -> None:
        arrived = asyncio.Event()
        harness.store.on_arrived.append(lambda topic, *_: arrived.set() if topic == "t" else None)
        task = asyncio.create_task(harness.service.sends.delays.run())
        await arrived.wait()
        task.cancel()

    asyncio.run(scenario())
    count = harness.store.max_offset("t", 0)
    records = [harness.store.message_at("t", 0, offset) for offset in range(count)]
    return [bytes(record.body) for record in records if record is not None]


@each_case(("SYNC_FLUSH", True), ("ASYNC_FLUSH", False))
def test_sends_wait_for_the_disk_in_sync_flush_alone(mode: str, is_sync: bool, tmp_path: Path) -> None:
    assert Harness(tmp_path, flush_disk_type=mode).service.sends.sending.is_sync is is_sync


@each_case((True, 7), (False, None))
def test_how_long_a_send_may_wait_is_a_setting(is_enabled: bool, wait_ms_max: int | None, tmp_path: Path) -> None:
    harness = Harness(tmp_path, broker_fast_failure_enable=is_enabled, wait_time_mills_in_send_queue=7)
    assert harness.service.sends.sending.wait_ms_max == wait_ms_max


def test_sends_are_answered_and_stored_under_the_brokers_own_names(tmp_path: Path) -> None:
    harness = Harness(tmp_path, broker_cluster_name="c", region_id="r", trace_on=False, max_message_size=77)
    sending = harness.service.sends.sending
    assert sending.body_size_max == 77
    assert sending.properties.plain(b"") == b"MSG_REGION\x01r\x02TRACE_ON\x01false\x02CLUSTER\x01c\x02"
    assert sending.answers.host == HOST
    assert sending.answers.header("id", 1, 2) == SendResponse(
        message_id="id", queue_id=1, queue_offset=2, region_id="r", trace_on="false"
    )
    assert (sending.store, sending.stats, sending.delays) == (
        harness.store,
        harness.service.monitoring.stats,
        harness.service.sends.delays,
    )


def test_pulls_keep_the_brokers_limits(tmp_path: Path) -> None:
    harness = Harness(
        tmp_path, parked_pulls_max=1, max_transfer_count_on_message_in_memory=2,
        max_transfer_bytes_on_message_in_memory=1024,
    )  # fmt: skip
    for _ in range(5):
        size = harness.store.append(Draft("t", 0, b"x")).size
    for _ in range(5):
        large = harness.store.append(Draft("t", 1, bytes(600))).size
    pulls = harness.service.delivery.pulls
    assert len(pulls.read(pull_header("t"), None).body) == 2 * size
    assert len(pulls.read(pull_header("t", queue_id=1), None).body) == large
    waiting = call(pull_header("t", queue_offset=5), now_ms=0)
    assert [pulls.hold(waiting, None, 1_000) for _ in range(2)] == [True, False]
    assert harness.service.runtime_info.values(0)["parkedPullCount"] == "1"


def test_an_arrival_wakes_the_pulls_of_the_same_broker(tmp_path: Path) -> None:
    harness, peer = Harness(tmp_path), FakePeer()
    harness.service.delivery.pulls.hold(call(pull_header("t"), peer=peer), None, 1_000)
    harness.store.append(Draft("t", 1, b"another queue"))
    harness.service.delivery.pulls.answer_overtaken()
    assert peer.replies == []
    asyncio.run(arrive(harness))
    assert [len(reply.body) > 0 for reply in peer.replies] == [True]


async def arrive(harness: Harness) -> None:
    """Append a message, and let the turn end."""
    harness.store.append(Draft("t", 0, b"the queue"))
    await asyncio.sleep(0)


@pytest.mark.parametrize("is_notifying", [True, False])
async def test_members_hear_of_others_unless_that_is_off(tmp_path: Path, is_notifying: bool) -> None:
    harness, first = Harness(tmp_path, notify_consumer_ids_changed_enable=is_notifying), FakePeer()
    harness.join("c1", first)
    first.heard.clear()
    harness.join("c2", FakePeer())
    await until(lambda: bool(first.heard) or not is_notifying)
    assert len(first.heard) == int(is_notifying)


async def test_a_client_leaves_after_the_silence_and_its_locks_after_the_time_of_the_settings(tmp_path: Path) -> None:
    harness = Harness(tmp_path, channel_expired_timeout=5_000, rebalance_lock_max_live_time=2_000)
    service, queue = harness.service, MessageQueue("t", "a", 0)
    harness.join("c1", FakePeer())
    service.clients.locks.lock("g", "c1", [queue], harness.clock())
    assert service.clients.locks.lock("g", "c2", [queue], harness.clock() + 1_999) == []
    assert service.clients.locks.lock("g", "c2", [queue], harness.clock() + 2_000) == [queue]
    harness.monotonic.advance(4_999)
    service.clients.membership.expire()
    assert service.clients.members.consumer_ids("g") == ["c1"]
    harness.monotonic.advance(1)
    service.clients.membership.expire()
    assert service.clients.members.consumer_ids("g") == []


async def test_no_client_leaves_and_no_lock_ends_because_the_wall_clock_is_set(tmp_path: Path) -> None:
    harness, locks = Harness(tmp_path), []
    harness.join("c1", FakePeer())
    queue = MessageQueue("t", "a", 0)
    for client in ("c1", "c2"):
        body = encode_queue_lock(QueueLock(group="g", client_id=client, queues=(queue,)))
        reply = lock_queues(
            harness.service,
            call(LockQueues(), body, now_ms=harness.clock()),
        )
        assert isinstance(reply, Reply)
        locks.append(decode_locked_queues(reply.body))
        harness.clock.advance(3_600_000)
        harness.service.clients.membership.expire()
    assert locks == [(queue,), ()]
    assert harness.service.clients.members.consumer_ids("g") == ["c1"]


def test_locks_of_many_queues_wait_for_the_turn_of_their_connection(tmp_path: Path) -> None:
    harness, peer = Harness(tmp_path), FakePeer()
    queues = tuple(MessageQueue("t", "a", number) for number in range(3_500))
    body = encode_queue_lock(QueueLock(group="g", client_id="c", queues=queues))
    assert lock_queues(harness.service, call(LockQueues(), body, peer=peer)) is LATER
    assert decode_locked_queues(peer.replies.pop().body) == queues
    assert unlock_queues(harness.service, call(UnlockQueues(), body, peer=peer)) is LATER
    assert [reply.code for reply in peer.replies] == [0]
    assert not harness.service.clients.locks.is_ordered("g", harness.service.context.monotonic())


def test_the_brokers_chance_chooses_queues(tmp_path: Path) -> None:
    def chosen() -> list[int]:
        harness = Harness(tmp_path)
        topic = TopicConfig(topic="t", read_queue_count=16, write_queue_count=16)
        return [
            harness.service.sends.sending.queue_resolver.choose_queue(topic, send_header("t", queue_id=-1))
            for _ in range(20)
        ]

    assert chosen() == chosen()


def test_settings_of_transactions_reach_them_and_a_damaged_file_of_counts_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "transactionMetrics").write_bytes(b"{")
    harness = Harness(tmp_path, transaction_time_out=7, transaction_check_max=2, file_reserved_time=1)
    rules = harness.service.sends.transactions.rules
    assert (rules.timeout_ms, rules.check_max, rules.reserved_ms) == (7, 2, 3_600_000)
    assert harness.service.sends.transactions.counts.open == {}
    assert harness.service.sends.sending.transactions is harness.service.sends.transactions
    assert Harness(tmp_path, reject_transaction_message=True).service.sends.sending.transactions is None


def test_counts_of_open_transactions_are_read_again(tmp_path: Path) -> None:
    replace_file(tmp_path / "config" / "transactionMetrics", b'{"transactionCount":{"t":{"count":3,"timeStamp":1}}}')
    assert Harness(tmp_path).service.sends.transactions.counts.open == {"t": 3}


async def turns(*jobs: PeriodicJob, count: int) -> None:
    house = Housekeeping(jobs)
    for turn in range(1, count + 1):
        await house.do_due(turn * 1_000)


async def test_each_job_runs_at_its_own_period_and_none_more_often_than_a_turn() -> None:
    done: list[str] = []
    periods = {"tiny": 100, "turn": 1_000, "odd": 2_500, "long": 5_000}
    jobs = [PeriodicJob(period_ms, lambda name=name: done.append(name)) for name, period_ms in periods.items()]  # type: ignore[misc]
    await turns(*jobs, count=10)
    assert {name: done.count(name) for name in periods} == {"tiny": 10, "turn": 10, "odd": 4, "long": 2}


async def test_a_job_that_fails_stops_no_other_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise OSError("no space left")

    def fail() -> None:
        raise ValueError("a fault")

    await turns(
        PeriodicJob(1_000, fail), PeriodicJob(1_000, fail_later), PeriodicJob(1_000, lambda: done.append(1)), count=2
    )
    assert done == [1, 1]
    failures = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert failures == ["a fault", "no space left"]


async def test_a_failure_is_logged_once_until_the_job_was_done(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [OSError("full"), OSError("full"), OSError("broken"), None, OSError("broken")]

    def act() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    await turns(PeriodicJob(1_000, act), count=5)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["full", "broken", "broken"]


async def test_the_task_does_turn_after_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "TURN_MS", 1)
    done: list[int] = []
    task = asyncio.create_task(Housekeeping([PeriodicJob(2, lambda: done.append(1))]).run())
    await until(lambda: len(done) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
