"""A consensus of one node in memory: what is proposed is agreed upon immediately. For tests alone: it forgets everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.replicas import Replicas
from orbitmq.errors import NotLeader
from orbitmq.monitoring.alerts import Alert


class LocalConsensus:
    """Node 1 of one, which leads from its start on, or when the test says so."""

    def __init__(self, config: ControllerConfig, replicas: Replicas, on_leadership: Callable[[bool], None]) -> None:
        self.is_leader = False
        self.leader_id: int | None = None
        self.peers = dict(enumerate(config.peers.values(), start=1))
        self.proposed: list[bytes] = []
        self.reads = 0
        self.failure: Exception | None = None
        self._replicas = replicas
        self._on_leadership = on_leadership

    async def start(self) -> None:
        self.lead(True)

    async def stop(self) -> None:
        self.is_leader = False

    def lead(self, is_leader: bool) -> None:
        self.is_leader = is_leader
        self.leader_id = 1 if is_leader else None
        self._on_leadership(is_leader)

    async def propose(self, command: bytes) -> Any:
        self._fail()
        self.proposed.append(command)
        return self._replicas.apply(command)

    async def read(self) -> None:
        self._fail()
        self.reads += 1

    def receive(self, header: object, body: bytes) -> str | None:
        return "this controller is alone"

    @property
    def warnings(self) -> list[str]:
        return []

    @property
    def alerts(self) -> list[Alert]:
        return []

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.is_leader:
            raise NotLeader(None)
