"""The service of a controller, as its handlers see it: broker groups, agreed upon by a majority, and their living members.

A command is decided here first. When it changes something, it is proposed, and decided again when its turn has come; when
it does not, this node makes sure that it still leads, and no entry of the log is spent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.controller.commands import Command, ElectMaster, encode_command
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.liveness import BrokerKey, Liveness
from orbitmq.controller.replicas import Replicas
from orbitmq.controller.values import CommandResult, LiveMembers, ReplicaGroup, Standing
from orbitmq.errors import NotLeader, ProposalsFull, RaftError, Rejected
from orbitmq.monitoring.alerts import Alert
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.wire.headers import RaftMessages

log = logging.getLogger(__name__)

AGREEMENT_TIMEOUT_S = 5
"""How long a command may wait for a majority, as in Java."""
NOT_LEADER = "The controller is not in leader state"


class Consensus(Protocol):
    """What the service needs of the replicated log."""

    @property
    def is_leader(self) -> bool:
        """True at the leader, once it has applied all of the terms before its own."""
        ...

    @property
    def leader_id(self) -> int | None:
        """The node that leads; None while unknown."""
        ...

    @property
    def peers(self) -> Mapping[int, str]:
        """Where clients reach each node, as host:port."""
        ...

    async def propose(self, command: bytes) -> Any:
        """Return what the state machine of this node made of a command."""
        ...

    async def read(self) -> None:
        """Return when this node has applied all that was committed before the call."""
        ...

    def receive(self, header: RaftMessages, body: bytes) -> str | None:
        """Take another node's messages; return why they are not believed, None when they are."""
        ...

    @property
    def warnings(self) -> list[str]:
        """What an operator should know."""
        ...

    @property
    def alerts(self) -> list[Alert]:
        """The rules about this log, and about those that have a part in it, that hold now."""
        ...


class ControllerService:
    """What the handlers of a controller work on.

    Args:
        clock: the wall clock.
        pause_aware_clock: what heartbeats are measured on.
        on_election: is told of a group whose master has changed, with the members that are alive.
        on_newcomer: is told the address of a broker that was not alive before.
        on_decision: is told how each election ended.
    """

    def __init__(
        self,
        config: ControllerConfig,
        consensus: Consensus,
        replicas: Replicas,
        *,
        clock: Clock,
        pause_aware_clock: Clock,
        on_election: Callable[[ReplicaGroup, LiveMembers], None] = lambda group, living: None,
        on_newcomer: Callable[[str], None] = lambda address: None,
        on_decision: Callable[[CommandResult], None] = lambda outcome: None,
        health: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.config = config
        self.consensus = consensus
        self.replicas = replicas
        self.liveness = Liveness(pause_aware_clock())
        self.health = health
        self.config_lock = asyncio.Lock()
        """Held while settings are saved: two changes at the same time would lose one."""
        self._clock = clock
        self._pause_aware_clock = pause_aware_clock
        self._on_election = on_election
        self._on_newcomer = on_newcomer
        self._on_decision = on_decision
        self._electing: set[str] = set()
        self._waits_since_ms: dict[str, int] = {}
        """Groups whose living members of the sync set all may lack what they acknowledged, and since when."""
        self._tasks: set[asyncio.Task[None]] = set()

    # What handlers use.

    def answer(self, call: Call[Any], work: Coroutine[Any, Any, Reply]) -> Later:
        """Answer a call when `work` is done; what goes wrong becomes an answer, too."""
        self._run(self._answer(call, work))
        return LATER

    async def change(self, command: Command) -> CommandResult:
        """Carry a command out, on a majority when it changes something.

        Raises:
            Rejected: this controller does not lead, or no majority answered in time.
        """
        if not await self._decide_now(command):
            return self.replicas.decide(command)
        async with _Agreement():
            outcome: CommandResult = await self.consensus.propose(encode_command(command))
        return outcome

    async def read(self) -> None:
        """Return when `replicas` has all that was agreed upon before.

        Raises:
            Rejected: as `change`.
        """
        if not self.consensus.is_leader:
            raise Rejected(ResponseCode.CONTROLLER_NOT_LEADER, NOT_LEADER)
        async with _Agreement():
            await self.consensus.read()

    async def elect(self, name: str, *, asker: int | None = None, designated: int | None = None) -> CommandResult:
        """Elect a group's master, for a broker, an administrator or (without either) because the old one is lost.

        Raises:
            Rejected: as `change`.
        """
        group = self.replicas.find(name)
        living = self.living(group) if group is not None else LiveMembers()
        command = ElectMaster(
            name=name,
            asker=asker,
            designated=designated,
            is_unclean=self.config.enable_elect_unclean_master,
            is_late=group is not None and self._is_late(group, living),
            living=living,
            now_ms=self._clock(),
        )
        outcome = await self.change(command)
        self._on_decision(outcome)
        if outcome.is_change and outcome.group is not None:
            log.info(
                "the broker-set %s has the master %s since epoch %d",
                name,
                outcome.group.master,
                outcome.group.master_epoch,
            )
            if outcome.group.master is not None and self.config.notify_broker_role_changed:
                self._on_election(outcome.group, living)
        return outcome

    def living(self, group: ReplicaGroup) -> LiveMembers:
        """Return the members of a group that are alive."""
        return self.liveness.living(group, self._pause_aware_clock())

    def is_led(self, group: ReplicaGroup) -> bool:
        """Return True if a group's master is alive, or may be: this controller has not listened for long enough to say."""
        living = self.living(group)
        return group.master in living.alive or group.master in living.unheard

    def _is_late(self, group: ReplicaGroup, living: LiveMembers) -> bool:
        """Return True if members that are away were waited for long enough, while those that are here may lack something."""
        here = [standing for broker_id, standing in living.alive.items() if broker_id in group.sync_set]
        if not here or any(standing.is_complete is not False for standing in here):
            self._waits_since_ms.pop(group.name, None)
            return False
        now_ms = self._pause_aware_clock()
        since_ms = self._waits_since_ms.setdefault(group.name, now_ms)
        return now_ms - since_ms >= self.config.incomplete_election_wait_ms

    def heartbeat_received(
        self, key: BrokerKey, standing: Standing, connection_id: int, timeout_ms: int | None
    ) -> None:
        """Take a heartbeat; of brokers that are not members, as far as this node knows, nothing is kept."""
        group = self.replicas.find(key.name)
        if group is None or group.cluster != key.cluster or key.broker_id not in group.replicas:
            return
        if self.liveness.heartbeat_received(key, standing, connection_id, self._pause_aware_clock(), timeout_ms):
            log.info("the broker %s of the broker-set %s is alive", key.broker_id, key.name)
            self._on_newcomer(group.replicas[key.broker_id].address)

    def reconfigure(self, config: ControllerConfig) -> None:
        """Work with other settings from now on."""
        self.config = config

    # What the program calls.

    def disconnect(self, connection_id: int) -> None:
        """Take note that a connection is closed: its brokers are lost, and where one led, another one is elected."""
        for key in self.liveness.disconnect(connection_id):
            self._lose(key, "has closed its connection")

    def expire(self, close: Callable[[int], None]) -> None:
        """Take note of the brokers that were silent for too long; `close` is called with their connections."""
        for key, connection_id in self.liveness.expire(self._pause_aware_clock()):
            self._lose(key, "was silent for too long")
            close(connection_id)

    def scan(self) -> None:
        """Elect where no living member leads, and one could: when this node begins to lead, and ever again."""
        if self.consensus.is_leader:
            for group in tuple(self.replicas.groups.values()):
                self._elect_if_needed(group)

    async def close(self) -> None:
        """End what is under way."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _lose(self, key: BrokerKey, how: str) -> None:
        log.warning("the broker %d of the broker-set %s %s", key.broker_id, key.name, how)
        group = self.replicas.find(key.name)
        if group is not None and group.master == key.broker_id and self.consensus.is_leader:
            self._elect_if_needed(group)

    def _elect_if_needed(self, group: ReplicaGroup) -> None:
        if not group.was_led or group.name in self._electing:
            return
        living = self.living(group)
        if group.master in living.alive or group.master in living.unheard:
            return
        candidates = group.replicas.keys() if self.config.enable_elect_unclean_master else group.sync_set
        # Java does nothing while no member at all is alive: the old master may be the first that returns.
        if living.alive and (group.master is not None or not candidates.isdisjoint(living.alive)):
            self._electing.add(group.name)
            self._run(self._replace_master(group.name))

    async def _replace_master(self, name: str) -> None:
        try:
            outcome = await self.elect(name)
        except Rejected as refusal:
            log.warning("no master could be elected for the broker-set %s: %s", name, refusal.remark)
        else:
            if outcome.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
                log.warning("the broker-set %s has no master: %s", name, outcome.remark)
        finally:
            self._electing.discard(name)

    async def _decide_now(self, command: Command) -> bool:
        """Return True if a command changes something; when it does not, everything that was agreed upon is known here."""
        if not self.consensus.is_leader:
            raise Rejected(ResponseCode.CONTROLLER_NOT_LEADER, NOT_LEADER)
        if self.replicas.decide(command).is_change:
            return True
        await self.read()
        return self.replicas.decide(command).is_change

    async def _answer(self, call: Call[Any], work: Coroutine[Any, Any, Reply]) -> None:
        try:
            reply = await work
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except Exception as error:
            log.exception("request %d from %s failed", call.command.code, call.connection.remote)
            reply = Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        call.answer(reply)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Agreement:
    """Waits for a majority, and says in an answer's words why there was none."""

    def __init__(self) -> None:
        self._timeout = asyncio.timeout(AGREEMENT_TIMEOUT_S)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Rejected(
                ResponseCode.SYSTEM_ERROR, f"no majority of the controllers within {AGREEMENT_TIMEOUT_S} s"
            ) from None
        if isinstance(error, NotLeader):
            raise Rejected(ResponseCode.CONTROLLER_NOT_LEADER, NOT_LEADER) from error
        if isinstance(error, ProposalsFull):
            raise Rejected(ResponseCode.SYSTEM_BUSY, str(error)) from error
        if isinstance(error, RaftError):
            raise Rejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
