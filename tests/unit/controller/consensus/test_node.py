"""Three controllers over real connections, each with a node of Raft and a disk of its own."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from orbitmq.broker.registration.addresses import kept_port
from orbitmq.codes import ResponseCode
from orbitmq.controller.app import Controller
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.consensus import node, peers
from orbitmq.controller.consensus.log_file import RaftLogFile
from orbitmq.controller.consensus.node import RaftNode
from orbitmq.controller.consensus.peers import Disks
from orbitmq.net.pool import ConnectionPool
from orbitmq.raft import HardState
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.command import Command
from orbitmq.wire.headers import ApplyBrokerId, GetHealth, GetNextBrokerId, GetReplicaInfo, RaftMessages
from waiting import until

pytestmark = pytest.mark.real


class Group:
    """The controllers that run, by name."""

    def __init__(self, root: Path, peers: dict[str, str]) -> None:
        self.running: dict[str, Controller] = {}
        self.disks: dict[str, FakeDisk] = {}
        """Of controllers that have one in memory."""
        self.pool = ConnectionPool()
        self.peers = peers
        self.root = root

    async def start(self, *names: str, order: Callable[[list[str]], list[str]] = sorted, **settings: Any) -> None:
        for name in names:
            listed = [f"{peer}-{self.peers[peer]}" for peer in order(list(self.peers))]
            fixed: dict[str, Any] = {
                "bind_address": "127.0.0.1",
                "controller_d_leger_peers": ";".join(listed),
                "controller_d_leger_self_id": name,
                "controller_store_path": self.root / name,
                "config_store_path": self.root / name / "controller.properties",
                "acl_file": self.root / "accounts.json",
            }
            make = partial(RaftNode, disk=self.disks.get(name))
            controller = self.running[name] = Controller(ControllerConfig(**fixed | settings), make)
            await controller.start()

    async def stop(self, name: str) -> None:
        await self.running.pop(name).stop()

    async def lose_disk(self, name: str) -> None:
        """Put a new machine in the place of one that is lost for good."""
        await self.stop(name)
        (self.root / name).rename(self.root / f"lost-{name}")
        await self.start(name)

    @property
    def leader(self) -> str | None:
        leading = [name for name, controller in self.running.items() if controller.consensus.is_leader]
        return leading[0] if len(leading) == 1 else None

    async def led(self) -> str:
        await until(lambda: self.leader)
        return self.leader or ""

    async def ask(self, header: object, name: str = "") -> Command:
        return await self.pool.request(self.peers[name or self.leader or ""], header, timeout_ms=10_000)

    async def apply(self, broker_id: int) -> int:
        code = f"10.0.0.{broker_id}:1;7"
        header = ApplyBrokerId(cluster_name="c", broker_name="a", applied_broker_id=broker_id, register_check_code=code)
        return (await self.ask(header)).code

    async def next_id(self) -> str:
        answer = await self.ask(GetNextBrokerId(cluster_name="c", broker_name="a"))
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return (answer.ext_fields or {})["nextBrokerId"]


@asynccontextmanager
async def controllers(root: Path, count: int = 3) -> AsyncIterator[Group]:
    with ExitStack() as ports:
        sockets = [ports.enter_context(kept_port("127.0.0.1", 0)) for _ in range(count)]
        peers = {f"n{number}": f"127.0.0.1:{socket.getsockname()[1]}" for number, socket in enumerate(sockets)}
        group = Group(root, peers)
        try:
            async with asyncio.timeout(60):
                yield group
        finally:
            for controller in group.running.values():
                await controller.stop()
            await group.pool.close()


async def test_one_of_three_leads_and_the_others_say_so(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        leader = await group.led()
        (follower, *_) = sorted(group.peers.keys() - {leader})
        assert await group.apply(1) == ResponseCode.SUCCESS
        assert (await group.ask(GetReplicaInfo(broker_name="a"), follower)).code == ResponseCode.CONTROLLER_NOT_LEADER
        await until(lambda: group.running[follower].replicas.groups)


async def test_a_decision_survives_the_leader_and_a_restart_of_all(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        assert await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        await group.stop(group.leader or "")
        assert await group.led()
        assert await group.next_id() == "2"
        assert await group.apply(2) == ResponseCode.SUCCESS
        for name in list(group.running):
            await group.stop(name)
        await group.start("n0", "n1", "n2")
        assert await group.led()
        assert await group.next_id() == "3"


async def test_a_minority_decides_nothing(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        leader = await group.led()
        for name in sorted(group.peers.keys() - {leader}):
            await group.stop(name)
        await until(lambda: group.leader is None)
        assert (await group.ask(GetNextBrokerId(cluster_name="c", broker_name="a"), leader)).code == (
            ResponseCode.CONTROLLER_NOT_LEADER
        )


async def test_a_long_log_is_shortened_and_a_late_member_gets_the_state(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(node, "COMPACT_COUNT", 5)
    monkeypatch.setattr(node, "KEPT_COUNT", 2)
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1")
        await group.led()
        for broker_id in range(1, 21):
            assert await group.apply(broker_id) == ResponseCode.SUCCESS
        await group.start("n2")
        await until(
            lambda: group.running["n2"].replicas.groups and group.running["n2"].replicas.groups["a"].next_id == 21
        )
        await group.stop("n2")
        await group.start("n2")
        assert group.running["n2"].replicas.groups["a"].next_id > 15


async def test_a_thousand_reads_are_a_few_rounds_of_heartbeats(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        consensus: Any = group.running[await group.led()].consensus
        reads: list[object] = []
        plain = consensus._raft.read

        def read(context: object) -> None:
            reads.append(context)
            plain(context)

        consensus._raft.read = read
        await asyncio.gather(*(consensus.read() for _ in range(1_000)))
        assert len(reads) <= 2


async def test_the_order_of_the_list_does_not_matter_and_another_list_is_refused(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0")
        await group.start("n1", order=partial(sorted, reverse=True))
        leader = await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        group.peers["n2"], kept = "127.0.0.1:1", group.peers["n2"]
        wrong = dict(group.peers)
        group.peers["n2"] = kept
        listed = ";".join(f"{name}-{address}" for name, address in wrong.items() if name != "n2")
        await group.start("n2", controller_d_leger_peers=f"{listed};n2-{kept};n3-127.0.0.1:2")
        await until(lambda: group.running["n2"].consensus.warnings)
        assert "its list of controllers is" in group.running["n2"].consensus.warnings[0]
        health = await group.ask(GetHealth(), leader)
        assert b"list of controllers" in bytes(health.body)
        assert group.leader == leader


async def test_a_controller_with_an_empty_disk_under_its_old_name_takes_no_part(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        await group.lose_disk("n2")
        await until(lambda: group.running["n2"].consensus.warnings)
        assert "has another disk than before" in group.running["n2"].consensus.warnings[0]
        assert not group.running["n2"].replicas.groups


async def test_a_controller_is_added_and_another_removed_by_a_new_list_on_one_after_the_other(tmp_path: Path) -> None:
    async with controllers(tmp_path, 4) as group:
        added = {"n0": group.peers.pop("n0")}  # the first by name, so that all of Raft's numbers change
        await group.start("n1", "n2", "n3")
        await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        group.peers |= added
        for name in ("n1", "n2", "n3"):
            await group.stop(name)
            await group.start(name)
        await group.led()
        await group.start("n0")
        await until(lambda: group.running["n0"].replicas.groups)
        assert await group.apply(2) == ResponseCode.SUCCESS
        await group.stop("n3")
        del group.peers["n3"]
        for name in ("n0", "n1", "n2"):
            await group.stop(name)
            await group.start(name)
        await group.led()
        assert await group.next_id() == "3"


async def test_a_vote_under_another_list_of_controllers_is_one_for_none_of_them(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        disk = group.disks["n0"] = FakeDisk()
        directory = tmp_path / "n0" / "raft-n0"
        RaftLogFile(disk, directory).save(HardState(7, 2, 0), ())
        await group.start("n0")
        consensus: Any = group.running["n0"].consensus
        assert (consensus._raft.term, consensus._raft.vote in consensus.peers) == (7, False)
        await group.stop("n0")
        file = RaftLogFile(disk, directory)
        file.load()
        file.save(HardState(7, 2, 0), ())
        await group.start("n0")
        again: Any = group.running["n0"].consensus
        assert (again._raft.term, again._raft.vote) == (7, 2), "the list is the same"


async def test_a_stranger_that_was_met_first_is_named_with_both_disks_on_both_sides(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1")
        leader = await group.led()
        listed = ";".join(f"{name}-{address}" for name, address in sorted(group.peers.items()))
        name = ControllerConfig().controller_d_leger_group
        stranger = RaftMessages(group=name, sender="n2", controllers=listed, disk="stranger")
        assert (await group.ask(stranger, leader)).code == ResponseCode.SUCCESS
        await group.start("n2")

        def said(name: str) -> str:
            return " ".join(group.running[name].consensus.warnings)

        await until(lambda: "with stranger" in said(leader) and "with stranger" in said("n2"))
        assert (await group.ask(stranger, leader)).code == ResponseCode.SUCCESS
        assert "with stranger" in said(leader)
        assert f"remove peers.json of {leader} while it is stopped" in said(leader)
        assert group.leader == leader


async def test_a_lost_disk_is_replaced_as_the_page_says_without_another_restart(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        leader = await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        lost, other = sorted(group.peers.keys() - {leader})
        await until(lambda: group.running[lost].replicas.groups)
        await group.lose_disk(lost)
        await until(lambda: group.running[lost].consensus.warnings and group.running[leader].consensus.warnings)
        for name in (other, leader):
            await group.stop(name)
            (tmp_path / name / f"raft-{name}" / "peers.json").unlink()
            await group.start(name)
            await group.led()
        await until(lambda: group.running[lost].replicas.groups)
        await group.stop(leader)
        await group.led()
        assert await group.apply(2) == ResponseCode.SUCCESS


async def test_a_leader_whose_disk_is_full_steps_down_and_serves_again_when_it_takes_writes(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(node, "DISK_PAUSE_S", 0.05)
    async with controllers(tmp_path) as group:
        group.disks = {name: FakeDisk() for name in group.peers}
        await group.start("n0", "n1", "n2")
        first = await group.led()
        assert await group.apply(1) == ResponseCode.SUCCESS
        full = OSError(errno.ENOSPC, "No space left on device")
        group.disks[first].failures = dict.fromkeys(("open", "pwrite", "write"), full)
        assert await group.apply(2) == ResponseCode.SYSTEM_ERROR
        second = await until(lambda: group.leader not in (None, first) and group.leader)
        assert "No space left on device" in group.running[first].health()["alerts"][-1]["reason"]
        assert await group.apply(2) == ResponseCode.SUCCESS
        group.disks[first].failures = {}
        await until(lambda: not group.running[first].consensus.warnings)
        await group.stop(second)
        await group.led()
        assert await group.next_id() == "3"


async def test_the_leader_and_then_the_last_one_name_the_controllers_that_are_missing(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(peers, "MISSING_MS", 0)
    async with controllers(tmp_path) as group:
        await group.start("n0", "n1", "n2")
        leader = await group.led()
        one, two = sorted(group.peers.keys() - {leader})

        def missing() -> list[str]:
            alerts = group.running[leader].health()["alerts"]
            return [alert["reason"] for alert in alerts if alert["rule"] == "controller_missing"]

        await until(lambda: not missing())
        await group.stop(one)
        (said,) = await until(missing)
        assert f"{one} ({group.peers[one]}) since 2" in said
        assert "2 of 3 are there, one more and no master can be elected; start it again" in said
        await group.stop(two)
        await until(lambda: missing() and "1 of 3 are there, no master can be elected" in missing()[0])
        await group.start(one)
        await until(lambda: missing() and one not in missing()[0])


async def test_a_peer_that_a_full_disk_does_not_keep_is_refused_and_met_later(tmp_path: Path) -> None:
    async with controllers(tmp_path) as group:
        group.disks["n0"] = FakeDisk()
        await group.start("n0")
        group.disks["n0"].failures["move"] = OSError(errno.ENOSPC, "No space left on device")
        await group.start("n1")
        await until(lambda: group.running["n0"].consensus.warnings)
        group.disks["n0"].failures.clear()
        await group.led()
        await until(lambda: not group.running["n0"].consensus.warnings)


def test_a_directory_without_its_disk_is_not_taken_for_an_empty_log() -> None:
    disk = FakeDisk()
    disks = Disks(disk, Path("/raft"))
    disks.load()
    disks.check()
    disk.files.clear()
    with pytest.raises(OSError, match="is it mounted"):
        disks.check()


def test_the_first_disk_of_a_controller_is_the_one_that_is_believed() -> None:
    disk = FakeDisk()
    disks = Disks(disk, Path("/raft"))
    disks.load()
    assert disks.is_known("n1", "first")
    assert not disks.is_known("n1", "second")
    again = Disks(disk.after_kill(), Path("/raft"))
    again.load()
    assert again.own == disks.own
    assert not again.is_known("n1", "second")
    assert again.is_known("n1", "first")
