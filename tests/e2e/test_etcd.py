"""Controllers and brokers in processes of their own over a real etcd, with kill -9 of each kind of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from children import freeze
from e2e.test_cli import run_command, serving
from etcd_server import EtcdServer, etcd_server
from orbitmq.broker.registration.addresses import kept_port
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.controller import SyncState, decode_sync_states, encode_broker_names
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ApplyBrokerId,
    GetControllerMetadata,
    GetControllerMetadataResponse,
    GetNextBrokerId,
    GetSyncStates,
)
from waiting import until

NAMES = ("n1", "n2", "n3")


class Controllers:
    """Three controllers as processes, and what is asked of them."""

    def __init__(self, stack: ExitStack, server: EtcdServer, directory: Path) -> None:
        self.pool = ConnectionPool()
        self.running: dict[str, Any] = {}
        self._stack, self._server, self._directory = stack, server, directory
        with ExitStack() as ports:
            sockets = [ports.enter_context(kept_port("127.0.0.1", 0)) for _ in NAMES]
            self.addresses = {
                name: f"127.0.0.1:{kept.getsockname()[1]}" for name, kept in zip(NAMES, sockets, strict=True)
            }

    def start(self, name: str) -> None:
        peers = ";".join(f"{one}-{address}" for one, address in self.addresses.items())
        file = self._directory / f"{name}.conf"
        file.write_text(
            f"controllerType=etcd\netcdEndpoints=http://127.0.0.1:1;{self._server.endpoint}\nbindAddress=127.0.0.1\n"
            f"controllerDLegerGroup=cg\ncontrollerDLegerPeers={peers}\ncontrollerDLegerSelfId={name}\n"
            f"controllerStorePath={self._directory / name}\nmetricsPort=0\n"
        )
        self.running[name] = self._stack.enter_context(serving("controller", "-c", file, "-o", "json"))
        assert self.running[name].ready

    def kill(self, name: str) -> None:
        self.running.pop(name).process.kill()

    def metadata(self, name: str) -> Any:
        return self.pool.request(self.addresses[name], GetControllerMetadata(), timeout_ms=2_000)

    async def leader(self, *but: str) -> str:
        """Wait for one that leads, and return its name."""

        async def found() -> str | None:
            for name in self.running.keys() - set(but):
                with suppress(ClientError):
                    answer = decode_header(GetControllerMetadataResponse, (await self.metadata(name)).ext_fields)
                    if answer.is_leader:
                        assert answer.controller_leader_id == name
                        assert answer.controller_leader_address == self.addresses[name]
                        return name
            return None

        name: str = await until(found, 0.05)
        return name

    async def apply(self, name: str, broker_id: int) -> int:
        header = ApplyBrokerId(
            cluster_name="c", broker_name="x", applied_broker_id=broker_id, register_check_code=f"h:{broker_id};1"
        )
        return (await self.pool.request(self.addresses[name], header, timeout_ms=10_000)).code

    async def next_id(self, name: str) -> str | None:
        header = GetNextBrokerId(cluster_name="c", broker_name="x")
        answer = await self.pool.request(self.addresses[name], header, timeout_ms=10_000)
        return (answer.ext_fields or {}).get("nextBrokerId")

    async def state(self, group: str) -> SyncState | None:
        """Return what the active controller says of a group; None while none does."""
        for name in self.running:
            with suppress(ClientError):
                body = encode_broker_names([group])
                answer = await self.pool.request(self.addresses[name], GetSyncStates(), body, timeout_ms=2_000)
                if answer.code == ResponseCode.SUCCESS:
                    return decode_sync_states(bytes(answer.body)).get(group)
        return None

    def page(self, name: str, path: str) -> tuple[int, dict[str, Any]]:
        address = self.running[name].ready["metrics"]
        try:
            with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
                text = answer.read().decode()
                return answer.status, json.loads(text) if text.startswith("{") else {"said": text}
        except urllib.error.HTTPError as error:
            return error.code, {"said": error.read().decode()}


@asynccontextmanager
async def controllers(directory: Path) -> AsyncIterator[tuple[Controllers, EtcdServer]]:
    with ExitStack() as stack:
        server = stack.enter_context(etcd_server(directory / "etcd"))
        found = Controllers(stack, server, directory)
        for name in NAMES:
            found.start(name)
        try:
            async with asyncio.timeout(120):
                yield found, server
        finally:
            await found.pool.close()


async def test_controllers_survive_each_other_and_etcd(tmp_path: Path) -> None:
    async with controllers(tmp_path) as (group, server):
        first = await group.leader()
        assert await group.apply(first, 1) == ResponseCode.SUCCESS
        follower = next(name for name in NAMES if name != first)
        assert await group.apply(follower, 2) == ResponseCode.CONTROLLER_NOT_LEADER
        group.kill(first)
        second = await group.leader()
        assert await group.next_id(second) == "2"
        assert await group.apply(second, 2) == ResponseCode.SUCCESS
        group.start(first)

        server.kill()
        assert await group.apply(second, 3) != ResponseCode.SUCCESS

        async def is_unready() -> bool:
            return (await asyncio.to_thread(group.page, second, "/readyz"))[0] == 503

        await until(is_unready, 0.1)
        assert await group.apply(second, 3) == ResponseCode.CONTROLLER_NOT_LEADER
        _, health = await asyncio.to_thread(group.page, second, "/healthz")
        assert "etcd" in health["warnings"][0]
        assert {"no_leader", "etcd"} <= {alert["rule"] for alert in health["alerts"]}

        await asyncio.to_thread(server.start)
        third = await group.leader()
        assert await group.next_id(third) == "3"
        assert await group.apply(third, 3) == ResponseCode.SUCCESS
        assert (await asyncio.to_thread(group.page, third, "/readyz"))[0] == 200


@pytest.mark.interop
async def test_an_active_controller_that_stood_still_changes_nothing(tmp_path: Path) -> None:
    async with controllers(tmp_path) as (group, _):
        first = await group.leader()
        assert await group.apply(first, 1) == ResponseCode.SUCCESS
        pid = group.running[first].process.pid
        freeze(pid)
        late = asyncio.ensure_future(group.apply(first, 2))  # it is there as soon as the process goes on
        second = await group.leader(first)
        os.kill(pid, signal.SIGCONT)
        assert await late == ResponseCode.CONTROLLER_NOT_LEADER
        assert await group.next_id(second) == "2"
        answer = decode_header(GetControllerMetadataResponse, (await group.metadata(first)).ext_fields)
        assert not answer.is_leader


@pytest.mark.interop
async def test_a_master_that_is_killed_is_replaced_and_sends_go_on(tmp_path: Path) -> None:
    async with controllers(tmp_path) as (group, _):
        with ExitStack() as stack:
            nameserver_file = tmp_path / "namesrv.conf"
            nameserver_file.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kv.json\n")
            nameserver = stack.enter_context(serving("nameserver", "-c", nameserver_file, "-o", "json"))
            name_servers = nameserver.name_servers
            brokers: dict[str, Any] = {}
            for number in (1, 2, 3):
                file = tmp_path / f"broker-{number}.conf"
                file.write_text(
                    "brokerName=broker-a\nlistenPort=0\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nhaListenPort=0\n"
                    "enableControllerMode=true\nmappedFileSizeCommitLog=16777216\n"
                    f"controllerAddr={';'.join(group.addresses.values())}\nstorePathRootDir={tmp_path}/broker-{number}\n"
                )
                broker = stack.enter_context(serving("broker", "-c", file, "-n", name_servers, "-o", "json"))
                brokers[broker.ready["broker"]] = broker

            async def is_whole() -> bool:
                state = await group.state("broker-a")
                return state is not None and state.master is not None and len(state.in_sync) == 3

            async def send(text: str) -> int:
                done = await asyncio.to_thread(run_command, "send", "orders", text, name_servers=name_servers)
                return done.returncode

            await until(is_whole, 0.1)
            assert await send("before") == 0
            state = await group.state("broker-a")
            assert state is not None
            assert state.master_address
            brokers[state.master_address].process.kill()
            assert await send("after") == 0
            after = await group.state("broker-a")
            assert after is not None
            assert after.master_epoch > state.master_epoch
            assert after.master_address not in (None, state.master_address)
            # The controllers' own failure takes no master away.
            group.kill(await group.leader())
            assert await send("later") == 0
            await group.leader()
            kept = await group.state("broker-a")
            assert kept is not None
            assert (kept.master, kept.master_epoch) == (after.master, after.master_epoch)
            consumed = await asyncio.to_thread(run_command, "consume", "orders", name_servers=name_servers)
            assert sorted(consumed.stdout.splitlines()) == ["after", "before", "later"]
