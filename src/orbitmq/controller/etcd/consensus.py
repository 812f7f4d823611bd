"""The consensus of controllers that keep what they agree upon in etcd: one of them is active, and each of its writes proves it.

`<prefix><group>/leader` is the active controller's: it is made under that controller's lease, and ends with it. A group of brokers is
written by a transaction that compares two revisions: the one at which the key `leader` was made, and the one of the group that was
decided on. So a controller that stood still, and has lost its lease meanwhile, changes nothing, however late its request comes.
Its own clock says so as well: it does not lead once its last keep-alive is older than the lease. Reads ask etcd whether the key
still is this controller's, and for what has changed since, in one transaction.

The others watch the prefix, and try for the key every half second. Who gets it loads all groups before it leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from orbitmq.clock import Clock, monotonic_ms
from orbitmq.controller.commands import decode_command
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.etcd.client import REFUSALS, EtcdClient, make_client
from orbitmq.controller.etcd.groups import Groups
from orbitmq.controller.etcd.messages import (
    Ended,
    KeyValue,
    get,
    is_created_at,
    is_modified_at,
    put,
    range_end,
    read_lease,
    read_range,
    read_transaction,
    read_watch,
    transaction,
    watch,
)
from orbitmq.controller.replicas import Replicas, encode_group
from orbitmq.controller.values import ReplicaGroup
from orbitmq.errors import EtcdAnswerTooLarge, EtcdError, EtcdRefused, EtcdUnreachable, NotLeader, OutcomeUnknown
from orbitmq.monitoring.alerts import Alert
from orbitmq.wire.headers import RaftMessages

log = logging.getLogger(__name__)

TURN_S = 0.5
"""Between two keep-alives, and two tries for the key of the active controller."""
PAGE_COUNT = 200
"""Keys that are loaded with one request."""
TRIES_MAX = 5
"""Of a change whose group is changed by others meanwhile."""
REQUESTS_MAX = 32
"""Reads and changes under way at a time: many must not keep the keep-alive of the lease waiting."""
WARNINGS_MAX = 10


class Office(NamedTuple):
    """That this controller is active: the lease that its key ends with, and the revision at which that was made."""

    lease: int
    created: int


class EtcdConsensus:
    """The consensus of controllers over etcd (`controller.app.RunningConsensus`).

    Args:
        replicas: the state machine.
        on_leadership: told whenever this controller begins, or ceases, to be the active one.
        clock: a monotonic clock, by which the lease is measured.

    Raises:
        ConfigError: httpx is not installed, or a file of the settings cannot be used.
    """

    def __init__(
        self,
        config: ControllerConfig,
        replicas: Replicas,
        on_leadership: Callable[[bool], None],
        *,
        client: EtcdClient | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._client = client or make_client(config)
        self._replicas = replicas
        self._on_leadership = on_leadership
        self._clock = clock
        names = sorted(config.peers)
        self._numbers = {f"{name}-{config.peers[name]}": number for number, name in enumerate(names, 1)}
        self._addresses = {number: config.peers[name] for number, name in enumerate(names, 1)}
        self._self = f"{config.controller_d_leger_self_id}-{config.address}"
        self._prefix = f"{config.etcd_prefix}{config.controller_d_leger_group}/".encode()
        self._leader_key = self._prefix + b"leader"
        self._groups = Groups(self._prefix + b"groups/", replicas)
        self._lease_seconds = config.etcd_lease_seconds
        self._lease = 0
        self._lease_until = 0
        self._office: Office | None = None
        self._leader: KeyValue | None = None
        self._leader_until = 0
        self._was_leader = False
        self._is_loaded = asyncio.Event()
        self._wake = asyncio.Event()
        self._failure: str | None = "etcd was not asked yet"
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Held while a group is changed: the next change is decided on its outcome."""
        self._places = asyncio.Semaphore(REQUESTS_MAX)
        self._turn_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None

    @property
    def is_leader(self) -> bool:
        """True at the active controller, once it knows all groups, and as long as its lease cannot have ended."""
        office = self._office
        return office is not None and office.lease == self._lease and self._clock() < self._lease_until

    @property
    def leader_id(self) -> int | None:
        """The active controller; None while unknown."""
        if self._office is not None:
            return self._numbers[self._self] if self.is_leader else None
        leader = self._leader
        if leader is None or self._clock() >= self._leader_until or leader.lease == self._lease:
            return None
        return self._numbers.get(leader.value.decode(errors="replace"))

    @property
    def peers(self) -> Mapping[int, str]:
        """Where clients reach each controller, as host:port."""
        return self._addresses

    @property
    def alerts(self) -> list[Alert]:
        """The rule about etcd, while it holds."""
        return [Alert("etcd", warning) for warning in self.warnings[:1]]

    @property
    def warnings(self) -> list[str]:
        """What an operator should know."""
        said = [] if self._failure is None else [self._failure]
        leader = self._leader
        if leader is not None and (text := leader.value.decode(errors="replace")) not in self._numbers:
            said.append(
                f"{text!r:.200} is the active controller, and none of controllerDLegerPeers here: the lists differ"
            )
        return said + list(self._groups.unreadable.values())[:WARNINGS_MAX]

    async def start(self) -> None:
        """Begin to ask etcd; while it cannot be reached, `warnings` says so."""
        self._turn_task = asyncio.create_task(self._run())
        self._start_watch()

    async def stop(self) -> None:
        """Give the lease back, so that another controller takes over immediately."""
        await self._end_tasks()
        self._leave_office()
        if self._lease:
            with suppress(EtcdError):
                await self._client.ask("lease/revoke", {"ID": str(self._lease)})
        await self._client.close()

    async def propose(self, command: bytes) -> Any:
        """Return the outcome of a command that is decided on what etcd has.

        Raises:
            NotLeader: it changed nothing.
            OutcomeUnknown: it may have been carried out, or not.
            EtcdError: it changed nothing, for etcd refuses it or the group's value cannot be read.
        """
        decoded = decode_command(command)
        turn = self._turns.setdefault(decoded.name, asyncio.Lock())
        async with turn:
            for _ in range(TRIES_MAX):
                office = self._own_office()
                self._groups.check(decoded.name)
                outcome = self._replicas.decide(decoded)
                if not outcome.is_change or outcome.group is None:
                    await self.read()
                    again = self._replicas.decide(decoded)
                    if not again.is_change:
                        return again
                elif await self._save(office, outcome.group):
                    return outcome
        raise EtcdError(f"the group {decoded.name} was changed in etcd by others {TRIES_MAX} times meanwhile")

    async def read(self) -> None:
        """Return when this controller, still the active one, knows all that was changed before the call.

        Raises:
            NotLeader: it is not.
            EtcdError: etcd does not say.
        """
        office, newest = self._own_office(), self._groups.newest
        request = transaction(
            [is_created_at(self._leader_key, office.created)],
            then=self._changed_since(self._groups.revision),
            otherwise=[get(self._leader_key)],
        )
        async with self._places:
            ended = read_transaction(await self._client.ask("kv/txn", request))
        if not ended.has_held:
            self._lose_office(ended)
            raise NotLeader(self.leader_id)
        self._check_time(ended.revision, newest)
        for pair in _pairs(ended):
            self._groups.take(pair)
        if ended.found[-1].total != self._groups.count:
            await self._load()  # a key is deleted, which no range tells
        if self._office != office or self._clock() >= self._lease_until:
            raise NotLeader(self.leader_id)

    def receive(self, header: RaftMessages, body: bytes) -> str | None:
        """Refuse another controller's messages of Raft: it is set up differently."""
        return "this controller keeps its state in etcd (controllerType=etcd), and takes no messages of Raft"

    # Changes.

    def _own_office(self) -> Office:
        if self._office is None or not self.is_leader:
            raise NotLeader(self.leader_id)
        return self._office

    async def _save(self, office: Office, group: ReplicaGroup) -> bool:
        """Put a group; return False when another value of it was there, which is known then."""
        key, known = self._groups.key(group.name), self._groups.revision_of(group.name)
        request = transaction(
            [is_created_at(self._leader_key, office.created), is_modified_at(key, known)],
            then=[put(key, encode_group(group))],
            otherwise=[get(self._leader_key), get(key)],
        )
        try:
            async with self._places:
                ended = read_transaction(await self._client.change("kv/txn", request))
        except EtcdRefused as error:
            if error.code in REFUSALS:
                raise
            raise OutcomeUnknown(str(error)) from None
        except EtcdUnreachable as error:
            if not error.was_sent:
                raise
            raise OutcomeUnknown(str(error)) from None
        except EtcdError as error:
            raise OutcomeUnknown(str(error)) from None
        if ended.has_held:
            self._groups.saved(group, ended.revision)
            return True
        leader, *rest = ended.found
        if not leader.pairs or leader.pairs[0].created != office.created:
            self._lose_office(ended)
            raise NotLeader(self.leader_id)
        found = [pair for one in rest for pair in one.pairs]
        for pair in found:
            self._groups.take(pair)
        if not found:
            self._groups.forget(key, ended.revision + 1)
        return False

    def _changed_since(self, revision: int) -> list[dict[str, Any]]:
        """Return ranges of what was put since, and of how many keys there are."""
        prefix, end = self._groups.prefix, range_end(self._groups.prefix)
        return [get(prefix, end=end, min_mod_revision=revision + 1), get(prefix, end=end, count_only=True)]

    def _check_time(self, revision: int, newest: int) -> None:
        """Raise EtcdError when etcd, asked when `newest` was known of, is at an older revision."""
        if revision < newest:
            self._leave_office()
            self._is_loaded.clear()
            self._groups.restart()
            if self._watch_task is not None:
                self._start_watch()  # the one under way may wait for a revision that is far ahead now
            self._wake.set()
            raise EtcdError(f"etcd has gone back from revision {newest} to {revision}, as one that was restored has")

    # The lease, and the key of the active controller.

    async def _run(self) -> None:
        """Keep the lease, and try for the key, until this controller is stopped."""
        while True:
            self._wake.clear()
            try:
                await self._take_turn()
                if self._failure is not None:
                    log.info("etcd answers")
                self._failure = None
            except EtcdError as error:
                if str(error) != self._failure:
                    log.warning("%s", error)
                self._failure = str(error)
            except Exception as error:
                self._leave_office()
                self._failure = f"this controller failed at etcd's answer: {error!r:.200}"
                log.exception("a turn with etcd failed")
            self._note_leadership()
            with suppress(TimeoutError):
                async with asyncio.timeout(TURN_S):
                    await self._wake.wait()

    async def _take_turn(self) -> None:
        await self._keep_lease()
        newest = self._groups.newest
        mine = put(self._leader_key, self._self.encode(), self._lease)
        request = transaction([is_created_at(self._leader_key, 0)], then=[mine], otherwise=[get(self._leader_key)])
        asked_at = self._clock()
        ended = read_transaction(await self._client.ask("kv/txn", request))
        self._check_time(ended.revision, newest)
        if ended.has_held:
            created = ended.revision
            self._leader = KeyValue(self._leader_key, self._self.encode(), created, created, self._lease)
        else:
            self._leader = next(iter(_pairs(ended)), None)
        self._leader_until = asked_at + max(self._lease_seconds, 2) * 1000
        leader = self._leader
        if leader is None or leader.lease != self._lease:
            self._leave_office()
            if not self._is_loaded.is_set():
                await self._load()
            return
        office = Office(self._lease, leader.created)
        if self._office != office:
            self._leave_office()
            await self._load()
            self._office = office
        elif not self._is_loaded.is_set():
            await self._load()

    async def _keep_lease(self) -> None:
        """Lengthen the lease, or get one."""
        asked_at = self._clock()
        if self._lease:
            _, seconds = read_lease(await self._client.ask("lease/keepalive", {"ID": str(self._lease)}))
            if seconds > 0:
                self._lease_until = asked_at + seconds * 1000
                return
            log.warning("the lease of this controller has ended: it was silent for too long")
            self._lease = 0
            self._leave_office()
            asked_at = self._clock()
        lease, seconds = read_lease(await self._client.ask("lease/grant", {"TTL": str(self._lease_seconds)}))
        if lease == 0 or seconds <= 0:
            raise EtcdError("etcd grants a lease without an id or a time")
        self._lease, self._lease_until = lease, asked_at + seconds * 1000

    async def _load(self) -> None:
        """Take over all groups, as they are at one revision."""
        prefix, end = self._groups.prefix, range_end(self._groups.prefix)
        start, revision, limit = prefix, 0, PAGE_COUNT
        pairs: list[KeyValue] = []
        while True:
            at = {"revision": revision} if revision else {}
            try:
                found = read_range(await self._client.ask("kv/range", get(start, end=end, limit=limit, **at)))
            except EtcdAnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // 8)
                continue
            revision = revision or found.revision
            pairs += found.pairs
            if not found.has_more or not found.pairs:
                break
            start = found.pairs[-1].key + b"\0"
        self._groups.load(pairs, revision)
        self._is_loaded.set()

    def _lose_office(self, ended: Ended) -> None:
        """Take it that the key is another one's."""
        found = ended.found[0].pairs if ended.found else ()
        self._leader = found[0] if found else None
        self._leave_office()
        self._wake.set()

    def _leave_office(self) -> None:
        self._office = None
        self._note_leadership()

    def _note_leadership(self) -> None:
        if self.is_leader is not self._was_leader:
            self._was_leader = self.is_leader
            self._on_leadership(self._was_leader)

    # What others change.

    def _start_watch(self) -> None:
        if self._watch_task is not None:
            self._watch_task.cancel()
        self._watch_task = asyncio.create_task(self._watch())

    async def _end_tasks(self) -> None:
        tasks = [task for task in (self._turn_task, self._watch_task) if task is not None]
        self._turn_task = self._watch_task = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """Hear of changes, and begin again when the watch breaks or its beginning is gone."""
        while True:
            await self._is_loaded.wait()
            try:
                request = watch(self._prefix, range_end(self._prefix), self._groups.revision + 1)
                async with aclosing(self._client.watch(request)) as messages:
                    async for message in messages:
                        self._hear(message)
                        if not self._is_loaded.is_set():
                            break
            except EtcdError as error:
                log.debug("%s", error)
            except Exception:
                self._is_loaded.clear()
                log.exception("a watch of etcd failed")
            await asyncio.sleep(TURN_S)

    def _hear(self, message: dict[str, Any]) -> None:
        told = read_watch(message)
        for pair, is_deletion in told.changes:
            if pair.key == self._leader_key:
                office = self._office
                if office is not None and pair.modified > office.created:
                    self._leave_office()
                self._wake.set()
            elif pair.key.startswith(self._groups.prefix):
                if is_deletion:
                    self._groups.forget(pair.key, pair.modified)
                else:
                    self._groups.take(pair)
            self._groups.reached(pair.modified)
        if told.is_over:
            self._is_loaded.clear()
            self._wake.set()


def _pairs(ended: Ended) -> list[KeyValue]:
    return [pair for one in ended.found for pair in one.pairs]
