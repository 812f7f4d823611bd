"""Controllers over a real etcd: who is active, what is written, and what an old one may not write any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from etcd_server import EtcdServer, etcd_server
from orbitmq.clock import monotonic_ms
from orbitmq.controller.commands import ApplyBrokerId, encode_command
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.etcd import consensus as module
from orbitmq.controller.etcd.client import EtcdClient
from orbitmq.controller.etcd.consensus import EtcdConsensus
from orbitmq.controller.etcd.messages import encode
from orbitmq.controller.replicas import Replicas
from orbitmq.errors import EtcdError, EtcdUnreachable, NotLeader, OutcomeUnknown
from waiting import until

pytestmark = pytest.mark.real

PEERS = "n1-127.0.0.1:19871;n2-127.0.0.1:19872;n3-127.0.0.1:19873"
LEADER = b"/orbitmq/controllers/leader"
GROUP = b"/orbitmq/controllers/groups/a"
SHORT = 2
"""Seconds of a lease whose end a test waits for."""


def join(broker_id: int, name: str = "a") -> bytes:
    return encode_command(
        ApplyBrokerId(cluster="c", name=name, broker_id=broker_id, address=f"h:{broker_id}", check_code=str(broker_id))
    )


class Member:
    """One consensus with its state machine; on a busy machine a short lease may end by itself."""

    def __init__(self, endpoints: str, name: str = "n1", lease_seconds: int = 60, **arguments: Any) -> None:
        config = ControllerConfig(
            controller_type="etcd",
            controller_d_leger_peers=PEERS,
            controller_d_leger_self_id=name,
            etcd_endpoints=endpoints,
            etcd_lease_seconds=lease_seconds,
        )
        self.replicas = Replicas()
        self.told: list[bool] = []
        self.consensus = EtcdConsensus(config, self.replicas, self.told.append, **arguments)

    @property
    def leads(self) -> bool:
        return self.consensus.is_leader


class Etcd:
    """The server, members that run, and a client of the test."""

    def __init__(self, server: EtcdServer) -> None:
        self.server = server
        self.members: list[Member] = []
        self.client = EtcdClient([server.endpoint])

    async def start(self, *names: str, endpoints: str = "", **arguments: Any) -> list[Member]:
        started = [Member(endpoints or self.server.endpoint, name, **arguments) for name in names]
        for member in started:
            self.members.append(member)
            await member.consensus.start()
        return started

    async def led(self) -> Member:
        await until(lambda: any(member.leads for member in self.members))
        (leader,) = [member for member in self.members if member.leads]
        return leader

    async def crash(self, member: Member) -> None:
        """End a member without its lease being given back."""
        self.members.remove(member)
        await member.consensus._end_tasks()
        await member.consensus._client.close()

    async def put(self, key: bytes, value: bytes) -> None:
        await self.client.ask("kv/put", {"key": encode(key), "value": encode(value)})

    async def delete(self, key: bytes) -> None:
        await self.client.ask("kv/deleterange", {"key": encode(key)})


@asynccontextmanager
async def etcd(directory: Path) -> AsyncIterator[Etcd]:
    with etcd_server(directory / "etcd") as server:
        running = Etcd(server)
        try:
            async with asyncio.timeout(60):
                yield running
        finally:
            for member in running.members:
                await member.consensus.stop()
            await running.client.close()


async def test_one_of_three_is_active_and_the_others_follow(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        members = await running.start("n1", "n2", "n3")
        leader = await running.led()
        outcome = await leader.consensus.propose(join(1))
        assert (outcome.is_change, outcome.group.next_id) == (True, 2)
        await leader.consensus.read()
        await until(lambda: all(member.replicas.snapshot() == leader.replicas.snapshot() for member in members))
        number = {"n1": 1, "n2": 2, "n3": 3}[
            next(n for n, m in zip(("n1", "n2", "n3"), members, strict=True) if m.leads)
        ]
        await until(lambda: {member.consensus.leader_id for member in members} == {number})
        assert members[0].consensus.peers == {1: "127.0.0.1:19871", 2: "127.0.0.1:19872", 3: "127.0.0.1:19873"}
        follower = next(member for member in members if not member.leads)
        for refused in (follower.consensus.propose(join(2)), follower.consensus.read()):
            with pytest.raises(NotLeader):
                await refused
        assert [member.consensus.warnings for member in members] == [[], [], []]


async def test_another_one_takes_over_with_the_same_state_when_the_active_one_ends(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        await running.start("n1", "n2", lease_seconds=SHORT)
        first = await running.led()
        for number in (1, 2):
            await first.consensus.propose(join(number))
        state = first.replicas.snapshot()
        await running.crash(first)
        second = await running.led()
        assert second.replicas.snapshot() == state
        (third,) = await running.start("n3")
        running.members.remove(second)
        await second.consensus.stop()
        await running.led()
        assert third.replicas.snapshot() == state
        assert second.told[-1] is False


async def test_a_command_that_changes_nothing_is_confirmed(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        await member.consensus.propose(join(1))
        assert not (await member.consensus.propose(join(1))).is_change
        assert await asyncio.gather(*(member.consensus.propose(join(1, f"g{number}")) for number in range(20)))
        assert len(member.replicas.groups) == 21


async def test_commands_of_one_group_at_a_time_are_decided_one_after_the_other(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        outcomes = await asyncio.gather(*(member.consensus.propose(join(number)) for number in (1, 2, 3, 2)))
        assert [outcome.is_change for outcome in outcomes] == [True, True, True, False]
        assert len(member.replicas.groups["a"].replicas) == 3
        assert not member.consensus._turns


async def test_the_transaction_of_an_old_active_controller_is_refused(tmp_path: Path) -> None:
    """The clock of the first one stands still: it believes that it leads, as a process that was stopped would."""
    async with etcd(tmp_path) as running:
        stopped_at = monotonic_ms()
        (first,) = await running.start("n1", clock=lambda: stopped_at, lease_seconds=SHORT)
        await running.led()
        await first.consensus.propose(join(1))
        await first.consensus._end_tasks()
        (second,) = await running.start("n2")
        await until(lambda: second.leads)
        assert first.leads
        with pytest.raises(NotLeader):
            await first.consensus.propose(join(2))
        assert not first.leads
        assert first.told[-1] is False
        assert len(second.replicas.groups["a"].replicas) == 1
        with pytest.raises(NotLeader):
            await first.consensus.read()


async def test_a_read_of_an_old_active_controller_is_refused(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        await member.consensus._end_tasks()
        await running.put(LEADER, b"n2-127.0.0.1:19872")  # a put keeps the revision at which a key was made
        await member.consensus.read()
        await running.delete(LEADER)
        await running.put(LEADER, b"n2-127.0.0.1:19872")
        with pytest.raises(NotLeader, match="node 2"):
            await member.consensus.read()


async def test_a_controller_that_stood_still_knows_by_its_own_clock(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        behind = [0]
        (member,) = await running.start("n1", clock=lambda: monotonic_ms() + behind[0], lease_seconds=SHORT)
        await running.led()
        behind[0] = 2_001
        assert not member.leads
        assert member.consensus.leader_id is None
        with pytest.raises(NotLeader):
            await member.consensus.propose(join(1))
        await until(lambda: member.leads)  # the lease had not ended


async def test_a_lease_that_is_taken_away_ends_the_office(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        office = member.consensus._office
        await running.client.ask("lease/revoke", {"ID": str(member.consensus._lease)})
        await until(lambda: member.told[:2] == [True, False])
        await until(lambda: member.leads)
        assert member.consensus._office != office


async def test_etcd_may_be_killed_and_started_again(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        members = await running.start("n1", "n2", lease_seconds=SHORT)
        leader = await running.led()
        await leader.consensus.propose(join(1))
        running.server.kill()
        with pytest.raises(EtcdError, match=r"cannot be reached|does not answer"):
            await leader.consensus.propose(join(2))
        await until(lambda: not leader.leads)
        with pytest.raises(NotLeader):
            await leader.consensus.propose(join(2))
        await until(lambda: all(member.consensus.leader_id is None for member in members))
        assert all("cannot be reached" in member.consensus.warnings[0] for member in members)
        await asyncio.to_thread(running.server.start)
        leader = await running.led()
        await leader.consensus.propose(join(2))
        assert len(leader.replicas.groups["a"].replicas) == 2
        await until(lambda: not any(member.consensus.warnings for member in members))
        await until(lambda: len({member.replicas.snapshot() for member in members}) == 1)


async def test_an_etcd_that_does_not_answer_leaves_the_outcome_open(tmp_path: Path, monkeypatch: Any) -> None:
    async with etcd(tmp_path) as running:
        monkeypatch.setattr("orbitmq.controller.etcd.client.CHANGE_TIMEOUT_S", 0.3)
        (member,) = await running.start("n1", lease_seconds=SHORT)
        await running.led()
        await member.consensus.propose(join(1))
        running.server.freeze()
        with pytest.raises(OutcomeUnknown):
            await member.consensus.propose(join(2))
        await until(lambda: not member.leads)
        running.server.thaw()
        await until(lambda: member.leads)
        await member.consensus.read()
        outcome = await member.consensus.propose(join(2))  # decided on what came of the first one
        assert len(outcome.group.replicas) == 2


async def test_what_arrived_without_an_answer_is_known_to_the_next_read(tmp_path: Path) -> None:
    class Losing(EtcdClient):
        async def change(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
            await super().change(path, request)
            raise EtcdUnreachable("the answer is lost", was_sent=True)

    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1", client=Losing([running.server.endpoint]))
        await running.led()
        with pytest.raises(OutcomeUnknown, match="lost"):
            await member.consensus.propose(join(1))
        await member.consensus.read()
        assert 1 in member.replicas.groups["a"].replicas
        assert not (await member.consensus.propose(join(1))).is_change


async def test_a_change_by_others_is_decided_on_again(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        await member.consensus.propose(join(1))
        value = await running.client.ask("kv/range", {"key": encode(GROUP)})
        await member.consensus._end_tasks()  # no watch tells it
        await member.consensus.propose(join(2))
        await running.client.ask("kv/put", {"key": encode(GROUP), "value": value["kvs"][0]["value"]})
        refused = await member.consensus.propose(join(3))
        assert not refused.is_change  # the next id is 2 again
        await running.delete(GROUP)
        assert (await member.consensus.propose(join(1))).is_change


def names_the_key(member: Member) -> bool:
    return any(GROUP.decode() in warning for warning in member.consensus.warnings[:1])


async def test_a_value_that_is_no_group_stops_its_group_alone(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (first,) = await running.start("n1")
        await running.led()
        await first.consensus.propose(join(1))
        good = (await running.client.ask("kv/range", {"key": encode(GROUP)}))["kvs"][0]["value"]
        await running.put(GROUP, b'{"v":1,"group":{}}')
        await until(lambda: first.consensus.warnings)
        for member in (first, *(await running.start("n2"))):
            await until(partial(names_the_key, member))
        with pytest.raises(EtcdError, match="groups/a of etcd holds"):
            await first.consensus.propose(join(2))
        assert (await first.consensus.propose(join(1, "b"))).is_change
        assert 1 in first.replicas.groups["a"].replicas
        await running.client.ask("kv/put", {"key": encode(GROUP), "value": good})
        await until(lambda: not first.consensus.warnings)
        assert (await first.consensus.propose(join(2))).is_change


async def test_a_revision_that_is_compacted_is_loaded_again(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        first, second = await running.start("n1", "n2")
        leader = await running.led()
        other = second if leader is first else first
        await until(lambda: other.consensus._is_loaded.is_set())
        other.consensus._watch_task.cancel()
        for number in range(1, 6):
            await leader.consensus.propose(join(number))
        await leader.consensus.propose(join(1, "b"))
        await running.delete(b"/orbitmq/controllers/groups/b")
        revision = (await running.client.ask("kv/range", {"key": encode(LEADER)}))["header"]["revision"]
        await running.client.ask("kv/compaction", {"revision": revision})
        other.consensus._start_watch()
        await until(lambda: other.replicas.snapshot() == leader.replicas.snapshot())
        assert list(other.replicas.groups) == ["a"]


async def test_more_keys_than_a_page_are_loaded(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "PAGE_COUNT", 3)
    async with etcd(tmp_path) as running:
        (first,) = await running.start("n1")
        await running.led()
        for number in range(10):
            await first.consensus.propose(join(1, f"g{number}"))
        (second,) = await running.start("n2")
        await until(lambda: second.replicas.snapshot() == first.replicas.snapshot())


async def test_the_next_endpoint_is_asked_when_one_is_away(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1", endpoints=f"http://127.0.0.1:1;{running.server.endpoint}")
        await running.led()
        member.consensus._client._place = 0
        assert (await member.consensus.propose(join(1))).is_change


async def test_an_etcd_that_went_back_is_taken_as_it_is(tmp_path: Path) -> None:
    """As one whose data were lost, and that was set up again with the same names."""
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        for number in (1, 2, 3):
            await member.consensus.propose(join(number))
        running.server.kill()
        (running.server.directory / "data").rename(running.server.directory / "old")
        await asyncio.to_thread(running.server.start)
        await until(lambda: member.replicas.groups == {} and member.leads)
        await member.consensus.propose(join(1))
        await member.consensus.read()


async def test_an_etcd_that_went_back_is_noticed_by_what_was_put_and_not_yet_watched(tmp_path: Path) -> None:
    """The puts' answers tell of revisions that the watch, which is behind, does not know of."""
    async with etcd(tmp_path) as running:
        (member,) = await running.start("n1")
        await running.led()
        member.consensus._watch_task.cancel()
        for number in (1, 2, 3):
            await member.consensus.propose(join(number))
        running.server.kill()
        (running.server.directory / "data").rename(running.server.directory / "old")
        await asyncio.to_thread(running.server.start)
        await until(lambda: member.replicas.groups == {} and member.leads)
        await member.consensus.propose(join(1))
        assert list(member.replicas.groups) == ["a"]


async def test_a_watch_that_waits_for_revisions_of_an_etcd_that_went_back_begins_again(tmp_path: Path) -> None:
    class Client(EtcdClient):
        """Keeps all requests but watches waiting, while told to."""

        async def ask(self, *arguments: Any, **options: Any) -> dict[str, Any]:
            await may_ask.wait()
            return await super().ask(*arguments, **options)

        async def watch(self, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
            async for message in super().watch(request):
                begun.append(request)
                yield message

    may_ask, begun = asyncio.Event(), list[dict[str, Any]]()
    may_ask.set()
    async with etcd(tmp_path) as running:
        (leader,) = await running.start("n1")
        await running.led()
        for number in range(1, 10):
            await leader.consensus.propose(join(number))
        (follower,) = await running.start("n2", client=Client([running.server.endpoint]))
        await until(lambda: begun and follower.replicas.snapshot() == leader.replicas.snapshot())
        may_ask.clear()
        begun.clear()
        running.server.kill()
        (running.server.directory / "data").rename(running.server.directory / "old")
        await asyncio.to_thread(running.server.start)
        await until(lambda: leader.replicas.groups == {} and leader.leads)
        await until(lambda: begun)
        may_ask.set()
        await until(lambda: follower.replicas.groups == {})
        await leader.consensus.propose(join(1, "b"))
        await until(lambda: follower.replicas.snapshot() == leader.replicas.snapshot())


async def test_users_have_a_password(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        for path, request in {
            "auth/user/add": {"name": "root", "password": "secret"},
            "auth/role/add": {"name": "root"},
            "auth/user/grant": {"user": "root", "role": "root"},
            "auth/enable": {},
        }.items():
            await running.client.ask(path, request)
        client = EtcdClient([running.server.endpoint], user="root", password="secret")
        (member,) = await running.start("n1", client=client)
        await running.led()
        assert (await member.consensus.propose(join(1))).is_change
        client._token = "expired.1"
        assert (await member.consensus.propose(join(2))).is_change
        wrong = EtcdClient([running.server.endpoint], user="root", password="wrong")
        with pytest.raises(EtcdError, match="authentication failed"):
            await wrong.ask("kv/range", {"key": encode(LEADER)})
        await wrong.close()
        (stranger,) = await running.start("n2")
        await until(lambda: "refuses" in stranger.consensus.warnings[0])


async def test_controllers_with_another_list_are_told_of(tmp_path: Path) -> None:
    async with etcd(tmp_path) as running:
        await running.put(LEADER, b"x-10.0.0.1:1")
        (member,) = await running.start("n1")
        await until(lambda: member.consensus.warnings and "x-10.0.0.1:1" in member.consensus.warnings[0])
        assert member.consensus.leader_id is None
        assert not member.leads


async def test_messages_of_raft_are_refused(tmp_path: Path) -> None:
    member = Member("http://127.0.0.1:1")
    assert "controllerType=etcd" in (member.consensus.receive(None, b"") or "")  # type: ignore[arg-type]
    await member.consensus.stop()
