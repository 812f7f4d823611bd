"""Brokers of a controlled group in one process, with a controller that agrees with itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.failover.controlled_broker import ControlledBroker
from orbitmq.broker.groups.offsets import UNKNOWN
from orbitmq.broker.registration.addresses import kept_port, reserved_port
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.clock import Clock, now_ms
from orbitmq.codes import ResponseCode
from orbitmq.controller.app import Controller
from orbitmq.controller.config import ControllerConfig
from orbitmq.errors import StoreError
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import FakeClock
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.command import Command
from orbitmq.wire.headers import (
    CreateTopic,
    DeleteSubscriptionGroup,
    DeleteTopicInBroker,
    GetMinOffset,
    GetRouteInfo,
    UpdateBrokerConfig,
    UpdateConsumerOffset,
    UpdateSubscriptionGroup,
)
from orbitmq.wire.messages.record import iter_records
from unit.controller.local_consensus import LocalConsensus
from waiting import until

from ..conftest import pull_header, send_header

pytestmark = pytest.mark.real


class Group:
    """A NameServer, a controller, and the brokers of one name."""

    def __init__(
        self,
        root: Path,
        name_server: NameServer,
        controller: Controller,
        controller_address: str,
        clock: Clock,
    ) -> None:
        self.controller = controller
        self.name_server = name_server
        self.brokers: dict[str, ControlledBroker] = {}
        self.pool = ConnectionPool()
        self._root = root
        self._controller_address = controller_address
        self._clock = clock

    def build(self, name: str, **settings: Any) -> ControlledBroker:
        fixed: dict[str, Any] = {
            "bind_address": "127.0.0.1", "listen_port": 0, "store_path_root_dir": self._root / name,
            "broker_name": "a", "namesrv_addr": self.name_server.address, "enable_controller_mode": True,
            "controller_addr": self._controller_address, "mapped_file_size_commit_log": 65_536,
            "mapped_file_size_consume_queue": 20_000, "vip_channel_enable": False,
        }  # fmt: skip
        return ControlledBroker(BrokerConfig(**fixed | settings), clock=self._clock)

    async def start(self, *names: str, **settings: Any) -> None:
        for name in names:
            broker = self.brokers[name] = self.build(name, **settings)
            await broker.start()

    async def stop(self, name: str) -> None:
        await self.brokers.pop(name).stop()

    @property
    def master(self) -> str | None:
        """The name of the broker that leads, and whose slaves in the sync set follow."""
        leading = [name for name, broker in self.brokers.items() if broker.role is not None and broker.role.is_master]
        return leading[0] if len(leading) == 1 else None

    def sync_set(self) -> set[int]:
        group = self.controller.replicas.groups["a"]
        return set(group.sync_set)

    async def settled(self) -> str:
        """Wait until one broker leads, and all others are in its sync set, as it knows; return its name."""

        def is_whole() -> bool:
            if self.master is None or len(self.sync_set()) < len(self.brokers):
                return False
            known = self.brokers[self.master].service.slave_listener.sync_set
            return known is not None and len(known.ids) == len(self.brokers)

        await until(is_whole)
        assert self.master is not None
        return self.master

    async def send(self, body: bytes, name: str = "", *, properties: str = "") -> Command:
        address = self.brokers[name or self.master or ""].address
        return await self.pool.request(address, send_header(properties=properties), body, timeout_ms=20_000)

    async def bodies(self, name: str) -> list[bytes]:
        answer = await self.pool.request(self.brokers[name].address, pull_header(), timeout_ms=20_000)
        assert answer.code == ResponseCode.SUCCESS, answer
        return [bytes(record.body) for record in iter_records(bytes(answer.body))]


@asynccontextmanager
async def controlled_group(root: Path, clock: Clock = now_ms) -> AsyncIterator[Group]:
    servers = NameServerConfig(
        bind_address="127.0.0.1", listen_port=0, kv_config_path=root / "kv.json", config_store_path=root / "n.conf"
    )
    name_server = NameServer(servers)
    await name_server.start()
    with reserved_port("127.0.0.1", 0, has_vip=False) as port:
        address = f"127.0.0.1:{port}"
        config = ControllerConfig(
            controller_d_leger_peers=f"n0-{address}",
            controller_store_path=root / "controller",
            config_store_path=root / "controller.properties",
            acl_file=root / "accounts.json",
        )
        controller = Controller(config, LocalConsensus)
        await controller.start()
    group = Group(root, name_server, controller, address, clock)
    try:
        async with asyncio.timeout(60):
            yield group
    finally:
        for broker in group.brokers.values():
            await broker.stop()
        await group.pool.close()
        await controller.stop()
        await name_server.stop()


async def test_the_first_broker_leads_and_the_others_become_copies_that_show_no_message(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x")
        assert (await group.send(b"alone")).code == ResponseCode.SUCCESS
        await group.start("y", "z")
        assert await group.settled() == "x"
        assert (await group.send(b"together")).code == ResponseCode.SUCCESS
        ends = {broker.service.store.max_physical_offset for broker in group.brokers.values()}
        assert len(ends) == 1
        assert [broker.broker_id for broker in group.brokers.values()] == [1, 2, 3]
        # What a slave has may be lost with the master.
        refused = await group.pool.request(group.brokers["y"].address, pull_header(), timeout_ms=20_000)
        assert (refused.code, "ask the master" in (refused.remark or "")) == (ResponseCode.SYSTEM_BUSY, True)


async def test_when_the_master_leaves_another_leads_with_every_acknowledged_message(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", "z")
        await group.settled()
        sent = [b"%d" % number for number in range(20)]
        for body in sent:
            assert (await group.send(body)).code == ResponseCode.SUCCESS
        await group.stop("x")
        new = await group.settled()
        assert await group.bodies(new) == sent
        assert (await group.send(b"after")).code == ResponseCode.SUCCESS
        assert await group.bodies(new) == [*sent, b"after"]
        await group.start("x")
        assert await group.settled() == new
        assert group.brokers["x"].service.store.max_physical_offset == (
            group.brokers[new].service.store.max_physical_offset
        )


async def test_the_next_master_shows_no_message_that_is_older_than_its_topics_time(tmp_path: Path) -> None:
    clock = FakeClock(now_ms())
    async with controlled_group(tmp_path, clock) as group:
        await group.start("x")
        await group.settled()
        header = CreateTopic(
            topic="t", default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
            topic_filter_type="SINGLE_TAG", attributes="+reserve.time=1",
        )  # fmt: skip
        x = group.brokers["x"].address
        assert (await group.pool.request(x, header, timeout_ms=20_000)).code == ResponseCode.SUCCESS
        await group.start("y", "z")
        await group.settled()
        tables = [group.brokers[copy].service.tables.topics.table for copy in ("y", "z")]
        await until(lambda: all("t" in table.all for table in tables))
        assert (await group.send(b"old")).code == ResponseCode.SUCCESS
        clock.advance(7_200_000)
        assert (await group.send(b"new")).code == ResponseCode.SUCCESS
        await group.stop("x")
        master = group.brokers[await group.settled()].address
        answer = await group.pool.request(master, GetMinOffset(topic="t", queue_id=0), timeout_ms=20_000)
        assert answer.ext_fields == {"offset": "1"}
        answer = await group.pool.request(master, pull_header(queue_offset=1), timeout_ms=20_000)
        assert [bytes(record.body) for record in iter_records(bytes(answer.body))] == [b"new"]


async def test_what_was_changed_or_read_in_one_role_counts_in_the_next_one(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        listed, settings = tmp_path / "name-servers", tmp_path / "y.conf"
        listed.write_text(group.name_server.address)
        settings.write_text("")
        await group.start("x")
        elsewhere = {"fetch_namesrv_addr_by_address_server": True, "address_server": str(listed)}
        await group.start("y", namesrv_addr="", broker_config_path=str(settings), **elsewhere)
        assert await group.settled() == "x"
        y = group.brokers["y"]
        changes = b"maxMessageSize=77777\nforwardTimeout=2222"
        asked = await group.pool.request(y.address, UpdateBrokerConfig(), changes, timeout_ms=20_000)
        assert asked.code == ResponseCode.SUCCESS
        listed.unlink()
        await group.stop("x")
        assert await group.settled() == "y"
        assert y.service.config.max_message_size == 77_777
        assert y.service.settings.next_start == {"forwardTimeout": "2222"}
        assert (
            await group.pool.request(group.name_server.address, GetRouteInfo(topic="TBW102"), timeout_ms=20_000)
        ).code == 0


def stop_following(broker: ControlledBroker) -> None:
    """Let a slave follow no more, though it lives."""
    follower = broker.service.following.log
    follower.master = ""
    assert follower._writer is not None
    follower._writer.close()


async def test_a_member_that_does_not_follow_leaves_the_set_before_sends_go_on_without_it(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", slave_timeout=60_000)
        await group.settled()
        stop_following(group.brokers["y"])
        assert (await group.send(b"alone")).code == ResponseCode.SUCCESS
        assert group.sync_set() == {1}


async def test_a_master_names_the_members_that_the_controllers_do_not_hear_until_they_are_back(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", controller_heart_beat_timeout_mills=1_000)
        master = await group.settled()
        other = "y" if master == "x" else "x"
        address = group.brokers[other].address
        await group.stop(other)
        members = group.brokers[master].service.slave_listener.members
        await until(lambda: members.issue is not None and address in members.issue and members.lacking == 1)
        assert group.brokers[master].service.monitoring.health()["alerts"][0]["rule"] == "RocketmqBrokerFewMembers"
        await group.start(other)
        await until(lambda: members.issue is None)


async def test_what_no_slave_has_is_neither_acknowledged_nor_read_nor_kept_by_its_old_master(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", slave_timeout=100)
        await group.settled()
        assert (await group.send(b"both")).code == ResponseCode.SUCCESS
        stop_following(group.brokers["y"])
        assert (await group.send(b"alone")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert group.sync_set() == {1, 2}
        assert await group.bodies("x") == [b"both"]
        await group.stop("x")
        await until(lambda: group.master == "y")
        assert (await group.send(b"new")).code == ResponseCode.SUCCESS
        await group.start("x")
        assert await group.settled() == "y"
        assert await group.bodies("y") == [b"both", b"new"]
        old, new = (group.brokers[name].service.store for name in "xy")
        await until(lambda: old.max_physical_offset == new.max_physical_offset)
        assert old.read_raw(0, 10_000) == new.read_raw(0, 10_000)
        assert old.quarantine_size


async def test_the_last_member_of_a_set_leads_again_when_it_returns(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        await group.settled()
        await group.stop("y")
        await until(lambda: group.sync_set() == {1})
        assert (await group.send(b"x alone")).code == ResponseCode.SUCCESS
        await group.stop("x")
        starting = asyncio.create_task(group.start("y"))
        await until(lambda: "y" in group.brokers and "Failed to elect" in (group.brokers["y"]._failure.text or ""))
        assert group.master is None  # x has a message that y lacks
        await group.start("x")
        await starting
        assert await group.settled() == "x"
        assert await group.bodies("x") == [b"x alone"]


def lose_power(root: Path, disk: Path) -> None:
    """Put in place of a stopped broker's files what its disk had at some moment before, under another boot of the machine."""
    shutil.rmtree(root)
    shutil.copytree(disk, root)
    (root / "completeLog").write_text("running another-boot\n")


async def test_after_a_power_cut_of_all_the_member_leads_whose_disk_has_the_most(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        assert await group.settled() == "x"
        sent = [b"%d" % number for number in range(20)]
        for body in sent[:10]:
            assert (await group.send(body)).code == ResponseCode.SUCCESS
        shutil.copytree(tmp_path / "x", tmp_path / "disk of x")
        for body in sent[10:]:
            assert (await group.send(body)).code == ResponseCode.SUCCESS
        shutil.copytree(tmp_path / "y", tmp_path / "disk of y")
        await asyncio.gather(group.stop("y"), group.stop("x"))
        for name in "xy":
            lose_power(tmp_path / name, tmp_path / f"disk of {name}")
        starting = asyncio.create_task(group.start("x"))
        await until(lambda: "x" in group.brokers and "are waited for" in (group.brokers["x"]._failure.text or ""))
        await group.start("y")
        await starting
        assert await group.settled() == "y"
        assert await group.bodies("y") == sent
        await until(lambda: all("running " in (tmp_path / name / "completeLog").read_text() for name in "xy"))


async def test_a_member_whose_machine_stopped_is_not_elected_while_one_that_went_on_is_alive(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", "z")
        assert await group.settled() == "x"
        shutil.copytree(tmp_path / "y", tmp_path / "disk of y")
        assert (await group.send(b"acknowledged")).code == ResponseCode.SUCCESS
        await asyncio.gather(*map(group.stop, "yxz"))
        lose_power(tmp_path / "y", tmp_path / "disk of y")
        await asyncio.gather(group.start("y"), group.start("z"))
        await until(lambda: group.master and len(group.sync_set()) == 2)
        assert group.master == "z"
        assert await group.bodies("z") == [b"acknowledged"]


async def test_a_master_whose_machine_stopped_leads_alone_when_the_others_were_waited_for(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        await group.settled()
        assert (await group.send(b"1")).code == ResponseCode.SUCCESS
        epoch = group.controller.replicas.groups["a"].master_epoch
        shutil.copytree(tmp_path / "x", tmp_path / "disk of x")
        await asyncio.gather(group.stop("y"), group.stop("x"))
        lose_power(tmp_path / "x", tmp_path / "disk of x")
        group.controller.service.reconfigure(replace(group.controller.service.config, incomplete_election_wait_ms=0))
        await group.start("x")
        assert group.master == "x"
        assert group.controller.replicas.groups["a"].master_epoch > epoch
        assert await group.bodies("x") == [b"1"]


async def test_a_member_that_cannot_open_its_store_leaves_the_lead_to_the_others(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        assert await group.settled() == "x"
        assert (await group.send(b"1")).code == ResponseCode.SUCCESS
        assert (await group.send(b"2", properties="DELAY\x0118\x02")).code == ResponseCode.SUCCESS
        await asyncio.gather(group.stop("y"), group.stop("x"))
        assert group.sync_set() == {1, 2}
        for missing in ("commitlog", "config"):
            (tmp_path / "x" / missing).rename(tmp_path / missing)
            with pytest.raises(StoreError, match="missing"):
                await group.start("x")
            del group.brokers["x"]
            assert group.sync_set() == {1, 2}
            shutil.rmtree(tmp_path / "x" / missing, ignore_errors=True)
            (tmp_path / missing).rename(tmp_path / "x" / missing)
        await group.start("y")
        assert group.master == "y"
        assert await group.bodies("y") == [b"1"]


async def test_a_member_that_is_elected_and_cannot_open_its_store_makes_way_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: set[int] = set()
    start = Broker.start

    async def fail_once_elected(broker: Broker) -> None:
        number = broker.config.listen_port
        if len(group.brokers) == 2 and not broker.config.is_slave and (not failed or number in failed):
            failed.add(number)
            raise OSError(ENOSPC, "no space left on device")
        await start(broker)

    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", "z", controller_heart_beat_timeout_mills=1_000)
        assert await group.settled() == "x"
        assert (await group.send(b"1")).code == ResponseCode.SUCCESS
        monkeypatch.setattr(Broker, "start", fail_once_elected)
        await group.stop("x")
        await until(lambda: group.master and failed)
        assert await group.bodies(group.master or "") == [b"1"]


async def test_a_member_whose_log_was_shortened_does_not_lead_before_one_with_a_whole_log(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        assert await group.settled() == "x"
        sent = [b"%d" % number for number in range(20)]
        for body in sent:
            assert (await group.send(body)).code == ResponseCode.SUCCESS
        end = group.brokers["x"].service.store.max_physical_offset
        for name in "xy":  # as kill -9 leaves them
            shutil.copytree(tmp_path / name, tmp_path / f"killed {name}")
        await asyncio.gather(group.stop("y"), group.stop("x"))
        for name in "xy":
            shutil.rmtree(tmp_path / name)
            (tmp_path / f"killed {name}").rename(tmp_path / name)
        (file,) = (tmp_path / "x" / "commitlog").iterdir()
        (tmp_path / "x" / "checkpoint").unlink()
        with file.open("r+b") as log:
            log.seek(end - 1_000)
            log.write(bytes(1_000))
        starting = asyncio.create_task(group.start("x"))
        await until(lambda: "x" in group.brokers and "are waited for" in (group.brokers["x"]._failure.text or ""))
        await group.start("y")
        await starting
        assert await group.settled() == "y"
        assert await group.bodies("y") == sent


async def test_with_fewer_copies_than_asked_for_messages_are_refused_and_not_read(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", min_in_sync_replicas=2, slave_timeout=100)
        await group.settled()
        assert (await group.send(b"both")).code == ResponseCode.SUCCESS
        await group.stop("y")
        await until(lambda: group.sync_set() == {1})
        await group.settled()  # the master knows it, too
        refused = await group.send(b"alone")
        assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "the sync set of this group is [1], and minInSyncReplicas=2" in (refused.remark or "")
        assert await group.bodies("x") == [b"both"]
        await group.start("y")
        await group.settled()
        assert (await group.send(b"both again")).code == ResponseCode.SUCCESS


async def test_a_topic_that_was_deleted_and_made_again_has_its_new_messages_after_a_failover(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        assert await group.settled() == "x"
        for number in range(3):
            assert (await group.send(b"%d" % number)).code == ResponseCode.SUCCESS
        deletion = DeleteTopicInBroker(topic="t")
        assert (await group.pool.request(group.brokers["x"].address, deletion, timeout_ms=20_000)).code == 0
        await until(lambda: group.brokers["y"].service.tables.topics.get("t") is None)
        assert (await group.send(b"again")).code == ResponseCode.SUCCESS
        await group.stop("x")
        await until(lambda: group.master == "y")
        assert await group.bodies("y") == [b"again"]


async def test_a_group_that_was_deleted_while_a_member_was_away_does_not_return_with_it(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y")
        await group.settled()
        assert (await group.send(b"1")).code == ResponseCode.SUCCESS

        async def ask(header: object, body: bytes = b"") -> int:
            address = group.brokers[group.master or ""].address
            return (await group.pool.request(address, header, body, timeout_ms=20_000)).code

        assert await ask(UpdateSubscriptionGroup(), encode_group_config(GroupConfig(group="g"))) == 0
        offset = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1)
        assert await ask(offset) == 0
        tables = group.brokers["y"].service.tables
        await until(lambda: tables.groups.configs.get("g") and tables.offsets.query("g", "t", 0) == 1)
        await group.stop("y")
        await until(lambda: group.sync_set() == {1})
        assert await ask(DeleteSubscriptionGroup(group_name="g", clean_offset=True)) == 0
        await group.start("y")
        await group.settled()
        await group.stop("x")
        await until(lambda: group.master == "y")
        tables = group.brokers["y"].service.tables
        assert (tables.groups.configs.get("g"), tables.offsets.query("g", "t", 0)) == (None, UNKNOWN)


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.proof)])
async def test_a_killed_master_that_leads_again_delivers_no_waiting_message_twice(tmp_path: Path, times: int) -> None:
    settings = {"timer_precision_ms": 100}
    sent: list[bytes] = []
    async with controlled_group(tmp_path) as group:

        async def deliver(count: int) -> None:
            for _ in range(count):
                waits = "DELAY\x011\x02" if len(sent) % 2 else "TIMER_DELAY_MS\x01300\x02"
                properties = f"UNIQ_KEY\x01{len(sent):032}\x02{waits}"
                sent.append(b"%03d" % len(sent))
                assert (await group.send(sent[-1], properties=properties)).code == ResponseCode.SUCCESS
            store = group.brokers[group.master or ""].service.store
            await until(lambda: store.max_offset("t", 0) >= len(sent))

        async def has_taken_over() -> None:
            slave, master = group.brokers["x"].service.sends, group.brokers["y"].service.sends
            read_ms = master.timers.timers.read_ms
            await until(lambda: slave.timers.checkpoint.read_ms >= read_ms)
            await until(lambda: slave.delays.progress() == master.delays.progress())

        await group.start("x", "y", **settings)
        assert await group.settled() == "x"
        for _ in range(times):
            await deliver(3)
            shutil.copytree(tmp_path / "x", tmp_path / "killed x")
            # The kill came before the last write.
            (tmp_path / "killed x" / "config" / "delayOffset.json").unlink(missing_ok=True)
            await group.stop("x")
            await until(lambda: group.master == "y")
            shutil.rmtree(tmp_path / "x")
            (tmp_path / "killed x").rename(tmp_path / "x")
            await deliver(4)
            assert sorted(await group.bodies("y")) == sent[-32:]
            await group.start("x", **settings)
            assert await group.settled() == "y"
            await has_taken_over()
            await group.stop("y")
            await until(lambda: group.master == "x")
            await deliver(2)
            assert sorted(await group.bodies("x")) == sent[-32:]
            await group.start("y", **settings)
            assert await group.settled() == "x"


async def test_name_servers_know_the_topic_at_each_moment_of_a_failover_and_then_the_new_master(tmp_path: Path) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x", "y", "z")
        await group.settled()
        assert (await group.send(b"1")).code == ResponseCode.SUCCESS
        codes: list[int] = []

        async def watch() -> None:
            while True:
                answer = await group.pool.request(group.name_server.address, GetRouteInfo(topic="t"))
                codes.append(answer.code)

        await until(lambda: all(broker.service.tables.topics.get("t") for broker in group.brokers.values()))
        watching = asyncio.create_task(watch())
        await group.stop("x")
        new = await group.settled()
        watching.cancel()
        assert set(codes) == {ResponseCode.SUCCESS}
        answer = await group.pool.request(group.name_server.address, GetRouteInfo(topic="t"))
        assert f'"0":"{group.brokers[new].address}"'.encode() in bytes(answer.body), answer.body


async def test_a_stop_while_the_role_changes_leaves_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with controlled_group(tmp_path) as group:
        await group.start("x")
        broker, is_changing = group.brokers["x"], asyncio.Event()

        async def register(registrar: Registrar) -> None:
            is_changing.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(Registrar, "wait_registered", register)
        broker.role = None  # as it is while the role changes
        await is_changing.wait()
        await group.stop("x")
        host, _, port = broker.address.rpartition(":")
        kept_port(host, int(port)).close()  # OSError next to a server
