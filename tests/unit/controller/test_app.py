"""A running controller: brokers that come, fall silent and leave, and what they are told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from orbitmq.address import parse_address
from orbitmq.controller import app
from orbitmq.controller.app import Controller
from orbitmq.controller.config import ControllerConfig
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.controller import SyncSet, encode_sync_set
from orbitmq.wire.headers import (
    AlterSyncStateSet,
    ApplyBrokerId,
    BrokerHeartbeat,
    ElectMaster,
    GetHealth,
    NotifyBrokerRoleChanged,
)
from unit.controller.local_consensus import LocalConsensus
from waiting import until

pytestmark = pytest.mark.real

_notified: Handlers[Any] = Handlers()


@_notified.on(NotifyBrokerRoleChanged)
def _note(broker: Any, call: Call[NotifyBrokerRoleChanged]) -> Reply:
    broker.told.append((call.header.master_broker_id, call.header.master_epoch))
    return Reply()


class Broker:
    """A port that hears who leads, and a connection that heartbeats leave by."""

    def __init__(self, controller, broker_id):
        self.told = []
        self.id = broker_id
        self._controller = controller
        self._server: Server[Any] = Server(_notified, self, name="broker")
        self.pool = ConnectionPool()

    async def start(self):
        await self._server.start("127.0.0.1", 0)
        names = {"cluster_name": "c", "broker_name": "orders"}
        code = f"{self._server.address};1"
        await self.ask(ApplyBrokerId(**names, applied_broker_id=self.id, register_check_code=code))
        await self.beat()

    async def stop(self):
        await self.pool.close()
        await self._server.close()

    async def ask(self, header, body=b""):
        return await self.pool.request(self._controller.address, header, body)

    async def beat(self, timeout_ms=60_000):
        await self.ask(
            BrokerHeartbeat(
                cluster_name="c",
                broker_name="orders",
                broker_addr=self._server.address,
                broker_id=self.id,
                heartbeat_timeout_mills=timeout_ms,
            )
        )


@contextlib.asynccontextmanager
async def running(tmp_path, **settings) -> AsyncIterator[Any]:
    config = ControllerConfig(
        controller_d_leger_peers="n0-127.0.0.1:0",
        bind_address="127.0.0.1",
        controller_store_path=tmp_path,
        config_store_path=tmp_path / "controller.properties",
        **settings,
    )
    controller = Controller(config, LocalConsensus)
    await controller.start()
    try:
        yield controller
    finally:
        await controller.stop()


@contextlib.asynccontextmanager
async def group_of_two(controller):
    brokers = [Broker(controller, broker_id) for broker_id in (1, 2)]
    for broker in brokers:
        await broker.start()
    await brokers[0].ask(ElectMaster(broker_name="orders", broker_id=1))
    both = encode_sync_set(SyncSet(frozenset([1, 2]), 1))
    answer = await brokers[0].ask(AlterSyncStateSet(broker_name="orders", master_broker_id=1, master_epoch=1), both)
    assert answer.code == 0
    try:
        yield brokers
    finally:
        for broker in brokers:
            await broker.stop()


async def test_brokers_are_told_who_leads_when_it_is_new_and_when_the_master_has_left(tmp_path):
    async with running(tmp_path) as controller, group_of_two(controller) as (first, second):
        await until(lambda: first.told == second.told == [(1, 1)])
        await first.stop()
        await until(lambda: second.told[1:] == [(2, 2)])
        assert controller.monitor.elections == {"new_master_elected": 2}


async def test_a_silent_master_is_replaced_and_its_connection_is_cut(tmp_path):
    async with running(tmp_path, scan_not_active_broker_interval=10) as controller, group_of_two(controller) as brokers:
        await brokers[0].beat(timeout_ms=1)
        await until(lambda: controller.replicas.groups["orders"].master == 2)
        await until(lambda: not brokers[0].pool.addresses)
        assert brokers[1].pool.addresses


async def test_a_controller_that_was_stopped_for_a_while_counts_no_broker_as_silent(tmp_path, monkeypatch, caplog):
    clock = FakeClock(0)
    monkeypatch.setattr(app, "monotonic_ms", clock)
    settings = {"scan_not_active_broker_interval": 10}
    async with running(tmp_path, **settings) as controller, group_of_two(controller):
        clock.advance(100_000)
        await until(lambda: "heard no broker" in caplog.text)
        controller.service.expire(print)
        assert controller.service.liveness.count == 2


async def test_a_new_leader_looks_for_lost_masters_immediately(tmp_path):
    slow = {"scan_not_active_broker_interval": 600_000, "scan_inactive_master_interval": 600_000}
    async with running(tmp_path, **slow) as controller, group_of_two(controller) as (first, _):
        controller.consensus.lead(False)
        await first.stop()
        await until(lambda: controller.service.liveness.count == 1)
        assert controller.replicas.groups["orders"].master == 1
        controller.consensus.lead(True)
        await until(lambda: controller.replicas.groups["orders"].master == 2)


async def test_the_end_of_a_controller_is_not_the_end_of_its_brokers(tmp_path):
    async with running(tmp_path) as controller, group_of_two(controller):
        await controller.stop()
        assert controller.replicas.groups["orders"].master == 1


async def test_health_says_who_leads_and_which_groups_have_no_master(tmp_path):
    async with running(tmp_path) as controller, group_of_two(controller) as (first, second):
        document = orjson.loads((await first.ask(GetHealth())).body)
        assert document == {
            "healthy": True,
            "groupNames": ["orders"],
            "needed": 1,
            "ready": True,
            "notReady": [],
            "isLeader": True,
            "brokersAlive": 2,
            "groups": 1,
            "groupsWithoutMaster": [],
            "elections": {"new_master_elected": 1},
            "warnings": [],
            "alerts": [],
        }
        assert second.told is not None
        controller.consensus.lead(False)
        document = controller.health()
        assert (document["ready"], document["notReady"]) == (False, ["no controller leads"])


async def test_pages_for_supervisors_and_prometheus(tmp_path):
    async with running(tmp_path, metrics_port=0) as controller:
        host, port = parse_address(controller.metrics_address)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = (await reader.read()).decode()
        writer.close()
        assert "rocketmq_controller_leader 1.0" in page


async def test_a_timer_that_fails_is_set_again(tmp_path, caplog):
    async with running(tmp_path, scan_inactive_master_interval=10) as controller:
        calls = []

        def scan():
            calls.append(1)
            raise RuntimeError("broken")

        controller._every(lambda: 1, scan)
        await until(lambda: len(calls) > 1)
    assert "a timer failed" in caplog.text


async def test_a_port_that_is_taken_ends_the_start(tmp_path):
    async with running(tmp_path) as controller:
        config = ControllerConfig(
            controller_d_leger_peers=f"n0-{controller.address}",
            bind_address="127.0.0.1",
            controller_store_path=tmp_path,
        )
        other = Controller(config, LocalConsensus)
        with pytest.raises(OSError, match="in use"):
            await other.start()
        await other.stop()
