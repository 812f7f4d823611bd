"""Claims about the service: users of the tables are told of every change, and settings take effect immediately."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.model.route import TopicRoute
from orbitmq.nameserver import service as service_module
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.nameserver.handlers import handlers
from orbitmq.nameserver.registration.pipeline import ORDER_TOPIC_NAMESPACE
from orbitmq.nameserver.routing.events import Cause, MinIdNotice, RouteChange, Trigger
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.nameserver.service import NameServerService
from orbitmq.net.dispatch.handlers import Call
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.command import Command
from orbitmq.wire.header import code_of
from orbitmq.wire.headers import UnregisterBroker, WipeWritePerm
from orbitmq.wire.slices import finish

from .persistence.saving import saved
from .registration.peers import Peers, drain
from .support import CLUSTER, address_of, broker, registration


def key_of(name: str, broker_id: int = 0) -> BrokerKey:
    return BrokerKey(CLUSTER, name, address_of(name, broker_id))


def good_bye(name: str) -> UnregisterBroker:
    return UnregisterBroker(broker_name=name, broker_addr=address_of(name), cluster_name=CLUSTER, broker_id=0)


class Listeners:
    """A service, and what its listeners were told."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.lease_ms = 0
        self.changes: list[RouteChange] = []
        self.notices: list[MinIdNotice] = []
        self.service = NameServerService(
            NameServerConfig(kv_config_path=folder / "kv.json", **settings),
            started_at_ms=1_000,
            lease_clock=lambda: self.lease_ms,
            on_notice=self.notices.append,
        )
        self.service.route_table.on_change.append(self.changes.append)

    def register(self, name: str = "a", *, owner: int = 1, at_ms: int = 0, **options: Any) -> None:
        trigger = Trigger(Cause.REGISTRATION, at_ms)
        finish(
            self.service.route_table.register(broker(name, "t", "u", **options), trigger, owner, now_ms=self.lease_ms)
        )
        self.service.route_table.publish()

    def expire(self, at_ms: int) -> list[BrokerKey]:
        gone: list[BrokerKey] = []
        self.service.expire(at_ms, lambda key, lease: gone.append(key))
        return gone

    def ask(self, header: object, connection: int, at_ms: int) -> Any:
        """Let a handler answer a request."""
        _, handle, part, _ = handlers.bind(self.service)[code_of(type(header))]
        peer: Any = SimpleNamespace(id=connection, remote=f"h:{connection}")
        return handle(part, Call(header, Command(code_of(type(header))), peer, at_ms))

    def shown(self, topic: str = "t") -> TopicRoute | None:
        body = self.service.routes.get(topic, True)
        return None if body is None else decode_route(body)


@pytest.fixture
def it(tmp_path: Path) -> Listeners:
    return Listeners(tmp_path)


def test_a_change_drops_answers_is_written_down_and_told(it: Listeners):
    it.register()
    shown = it.shown()
    assert shown is not None
    it.ask(WipeWritePerm(broker_name="a"), 1, 7)
    changed = it.shown()
    assert changed is not None
    assert (shown.queues[0].perm, changed.queues[0].perm) == (6, 4)
    assert it.changes[-1].trigger == (Cause.WIPE_WRITE_PERM, 7, "h:1")
    assert it.service.route_history.events()[0]["cause"] == "write permission wiped"


def test_members_are_told_of_a_smaller_id(it: Listeners):
    it.register(broker_id=2)
    assert it.notices == []
    it.register(broker_id=1)
    assert [notice.min_broker_id for notice in it.notices] == [1]


def test_silent_brokers_are_taken_out_and_told(it: Listeners):
    it.register("a", lease_ms=10)
    it.register("b", lease_ms=50)
    it.lease_ms = 10
    assert it.expire(5) == []
    it.lease_ms = 11
    assert it.expire(6) == [key_of("a")]
    assert it.changes[-1].trigger == (Cause.LEASE_EXPIRED, 6, "")
    assert it.service.tables.broker_count == 1


def test_a_lost_connection_takes_its_brokers_along(it: Listeners):
    it.register("a", owner=1)
    it.register("b", owner=2)
    it.service.disconnect(3, 5, "h:3")
    assert it.service.tables.broker_count == 2
    it.service.disconnect(1, 5, "h:1")
    assert it.service.tables.lease_of(key_of("a")) is None
    assert it.changes[-1].trigger == (Cause.CONNECTION_CLOSED, 5, "h:1")


def test_a_good_bye_through_an_older_connection_comes_too_late(it: Listeners):
    it.register("a", owner=2)
    it.ask(good_bye("a"), 1, 5)
    assert it.service.tables.broker_count == 1
    it.ask(good_bye("a"), 2, 6)
    assert it.service.tables.broker_count == 0
    assert it.changes[-1].trigger == (Cause.UNREGISTRATION, 6, "h:2")


@each_case(
    lambda peers: peers.leave(5, 1),
    lambda peers: peers.service.expire(5, lambda key, lease: None),
    lambda peers: peers.ask(5, 1, good_bye("a")),
)
def test_a_broker_that_leaves_is_not_recognised_any_more(leave: Callable[[Peers], object]):
    peers = Peers()
    for number, name in enumerate("ab"):
        peers.ask(
            number, number + 1, *registration(name, "t", "u", heartbeat_timeout_millis=100 if name == "a" else None)
        )
    drain(peers.service.queue)
    assert peers.service.bodies.last(key_of("a")) is not None
    peers.now_ms += 200
    leave(peers)
    drain(peers.service.queue)
    assert peers.service.bodies.last(key_of("a")) is None


@pytest.mark.parametrize("is_wanted", [False, True])
async def test_an_ordered_topic_stands_in_routes_where_that_is_wanted(is_wanted: bool, tmp_path: Path):
    it = Listeners(tmp_path, order_message_enable=is_wanted)
    it.register()
    it.shown()
    await saved(it.service.kv.put, ORDER_TOPIC_NAMESPACE, "t", "a:4")
    shown, other = it.shown("t"), it.shown("u")
    assert shown is not None
    assert other is not None
    assert (shown.order_topic_conf, other.order_topic_conf) == ("a:4" if is_wanted else None, None)
    await saved(it.service.kv.delete, ORDER_TOPIC_NAMESPACE, "t")
    shown = it.shown("t")
    assert shown is not None
    assert shown.order_topic_conf is None


async def test_other_values_leave_kept_answers_alone(it: Listeners):
    it.register()
    kept = it.service.routes.get("t", True)
    await saved(it.service.kv.put, "another", "t", "a:4")
    assert it.service.routes.get("t", True) is kept
    await saved(it.service.kv.put, ORDER_TOPIC_NAMESPACE, "u", "a:4")
    assert it.service.routes.get("t", True) is kept


def test_other_settings_count_immediately(it: Listeners):
    it.register("a", broker_id=1, acting_master=True)
    assert it.service.registrations.tells_order_topics is True
    before = it.shown()
    it.service.reconfigure(
        NameServerConfig(
            support_acting_master=True,
            delete_topic_with_broker_registration=True,
            return_order_topic_config_to_broker=False,
        )
    )
    after = it.shown()
    assert before is not None
    assert after is not None
    assert (dict(before.brokers[0].addresses), dict(after.brokers[0].addresses)) == (
        {1: address_of("a", 1)},
        {0: address_of("a", 1)},
    )
    assert it.service.registrations.tells_order_topics is False
    finish(
        it.service.route_table.register(
            broker("a", "t", "v", version=2, broker_id=1, acting_master=True), Trigger(Cause.REGISTRATION, 0)
        )
    )
    assert set(it.service.tables.topics()) == {"t", "v"}


@pytest.mark.parametrize(
    ("settings", "ready_at_ms"),
    [
        ({}, 1_000),
        ({"need_wait_for_service": True, "wait_seconds_for_service": 3}, 4_000),
        ({"need_wait_for_service": True, "wait_seconds_for_service": 3, "cluster_test": True}, 1_000),
    ],
    ids=["at once", "after a while", "cluster test"],
)
def test_it_is_ready_when_brokers_had_their_time(settings: dict[str, Any], ready_at_ms: int, tmp_path: Path):
    service = Listeners(tmp_path, **settings).service
    assert service.is_ready(ready_at_ms)
    assert service.is_ready(ready_at_ms - 1) is (ready_at_ms == 1_000)


def test_an_unknown_topic_has_no_route(it: Listeners):
    assert it.service.find_route("nothing") is None
    assert it.service.routes.get("nothing", True) is None


@pytest.mark.parametrize(("work_max", "is_immediate"), [(50, 1), (51, 2), (100, 2), (101, 3)])
def test_silent_brokers_leave_immediately_as_long_as_that_is_little_work(
    work_max: int, is_immediate: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(service_module, "SLICE_TOPICS", work_max)
    monkeypatch.setattr(service_module, "BROKER_WORK", 50)
    it = Listeners(tmp_path)
    for name in "abc":
        finish(it.service.route_table.register(broker(name, lease_ms=10), Trigger(Cause.REGISTRATION, 0), 1))
    it.lease_ms = 11
    gone: list[BrokerKey] = []
    it.service.expire(5, lambda key, lease: gone.append(key))
    assert gone == [key_of(name) for name in "abc"[:is_immediate]]
    assert it.service.queue.concerns_from(1) == frozenset()
    drain(it.service.queue)
    assert gone == [key_of(name) for name in "abc"]


def test_the_topics_of_a_silent_broker_that_are_left_are_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(service_module, "SLICE_TOPICS", 52)
    monkeypatch.setattr(service_module, "BROKER_WORK", 50)
    peers = Peers()
    for number, (name, topics) in enumerate({"a": ("t0", "t1", "t2", "t3"), "b": ("u0", "u1")}.items()):
        peers.ask(number, 1, *registration(name, *topics, heartbeat_timeout_millis=10))
        drain(peers.service.queue)
    peers.now_ms += 1_000
    peers.service.expire(5, lambda key, lease: None)
    assert dict(peers.service.tables.member_group("b")) == {0: address_of("b")}
    drain(peers.service.queue)
    assert peers.service.tables.broker_count == 0


def test_a_broker_with_an_unfinished_change_does_not_expire(tmp_path: Path):
    peers = Peers()
    peers.ask(0, 1, *registration("a", "t0", "t1", heartbeat_timeout_millis=10))
    drain(peers.service.queue)
    peers.now_ms += 1_000
    peers.ask(1, 1, *registration("a", "t0", "t1", "t2", version=2, zone_name="z", heartbeat_timeout_millis=10))
    assert peers.service.queue.jobs
    peers.service.expire(5, lambda key, lease: None)
    assert len(peers.service.queue.jobs) == 1


def test_other_settings_drop_all_that_is_kept(tmp_path: Path):
    peers = Peers()
    service = peers.service
    peers.ask(0, 1, *registration("a", "t0", "t1"))
    drain(service.queue)
    service.reconfigure(service.config)
    assert (len(service.bodies), len(service.registration_fast_path), len(service.route_queries)) == (0, 0, 0)


def test_brokers_have_their_time_from_the_start():
    service = NameServerService(NameServerConfig(need_wait_for_service=True, wait_seconds_for_service=3))
    assert (service.is_ready(2_999), service.is_ready(3_000)) == (False, True)
