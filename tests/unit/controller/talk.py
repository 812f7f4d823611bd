"""A controller's service in memory, and requests to it as its handlers get them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orbitmq.codes import ResponseCode
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.handlers import handlers
from orbitmq.controller.replicas import Replicas
from orbitmq.controller.service import ControllerService
from orbitmq.controller.values import CommandResult, LiveMembers, ReplicaGroup
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import LATER, Call, Reply
from orbitmq.net.session import make_request
from orbitmq.wire.header import code_of
from orbitmq.wire.headers import ApplyBrokerId, BrokerHeartbeat, ElectMaster
from unit.controller.local_consensus import LocalConsensus


class Talk:
    """One controller that leads, on a clock that a test moves."""

    def __init__(self, folder: Path = Path("nowhere"), **settings: Any) -> None:
        self.now_ms = 0
        self.told: list[tuple[ReplicaGroup, LiveMembers]] = []
        self.newcomers: list[str] = []
        self.decisions: list[int] = []
        self.replicas = Replicas()
        config = ControllerConfig(config_store_path=folder / "controller.properties", **settings)
        self.consensus = LocalConsensus(config, self.replicas, lambda _: None)
        self.consensus.lead(True)
        self.service = ControllerService(
            config,
            self.consensus,
            self.replicas,
            clock=lambda: self.now_ms,
            pause_aware_clock=lambda: self.now_ms,
            on_election=lambda group, living: self.told.append((group, living)),
            on_newcomer=self.newcomers.append,
            on_decision=self._note,
            health=lambda: {"ready": True},
        )
        self._handlers = handlers.bind(self.service)

    async def ask(self, header: object, body: bytes = b"", *, connection_id: int = 1) -> Reply:
        answers: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        peer: Any = SimpleNamespace(
            id=connection_id,
            remote="10.0.0.9:5",
            answer_later=lambda _command, reply, was_pending: answers.set_result(reply),
        )
        _, handler, part, _ = self._handlers[code_of(type(header))]
        try:
            reply = handler(part, Call(header, make_request(header, body), peer, self.now_ms))
        except Rejected as refusal:
            return Reply(refusal.code, refusal.remark)
        return await answers if reply is LATER else reply

    async def join(self, *broker_ids: int, name: str = "orders") -> None:
        """Make brokers members, and let them be heard through connections of their own numbers."""
        for broker_id in broker_ids:
            names = {"cluster_name": "c", "broker_name": name}
            code = f"10.0.0.{broker_id}:1;7"
            await self.ask(ApplyBrokerId(**names, applied_broker_id=broker_id, register_check_code=code))
            await self.heartbeat_received(broker_id, name=name)

    async def heartbeat_received(self, broker_id: int, *, name: str = "orders", **values: Any) -> Reply:
        address = f"10.0.0.{broker_id}:1"
        header = BrokerHeartbeat(cluster_name="c", broker_name=name, broker_addr=address, broker_id=broker_id, **values)
        return await self.ask(header, connection_id=broker_id)

    async def led(self, *broker_ids: int) -> ReplicaGroup:
        """Make brokers members, of which the first leads and all are in the sync set."""
        from orbitmq.controller.commands import AlterSyncSet, encode_command

        await self.join(*broker_ids)
        await self.ask(ElectMaster(broker_name="orders", broker_id=broker_ids[0]))
        if len(broker_ids) > 1:
            group = self.group
            wanted = AlterSyncSet(
                name="orders",
                master=broker_ids[0],
                master_epoch=group.master_epoch,
                sync_set=frozenset(broker_ids),
                sync_set_epoch=group.sync_set_epoch,
                living=self.service.living(group),
            )
            assert self.replicas.apply(encode_command(wanted)).code == ResponseCode.SUCCESS
        self.told.clear()
        self.decisions.clear()
        return self.group

    @property
    def group(self) -> ReplicaGroup:
        """The group of all tests."""
        return self.replicas.groups["orders"]

    async def settle(self) -> None:
        """Let everything end that is under way."""
        while self.service._tasks:
            await asyncio.gather(*self.service._tasks)
            await asyncio.sleep(0)  # from 3.12 on, tasks that have ended let nothing else run

    def _note(self, outcome: CommandResult) -> None:
        self.decisions.append(outcome.code)
