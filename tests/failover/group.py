"""One simulated group of brokers and its controller, from a seed: delays, losses, kills, pauses and cut cables, without I/O.

Real are the decisions: `ha.sync_set`, `ha.replica_acks`, `ha.epochs` and the controller's state machine. Logs are lists of
records, messages of the HA connection and of the controller are events with a delay, and either may be lost. After every step
the claims are checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random

from orbitmq.controller.commands import AlterSyncSet, ApplyBrokerId, Command, ElectMaster, encode_command
from orbitmq.controller.replicas import Replicas
from orbitmq.controller.values import LiveMembers, ReplicaGroup, Standing
from orbitmq.ha import epochs as epoch_rules
from orbitmq.ha.epochs import Epochs
from orbitmq.ha.master import ConfirmedRange
from orbitmq.ha.replica_acks import ReplicaAckResult, ReplicaAcks, ReplicatedEnd, SyncMembers
from orbitmq.ha.sync_set import SyncSet

NAME = "a"
TICK_MS = 50
BEAT_TIMEOUT_MS = 1_500
WAIT_MS = 3_000

Record = tuple[int, int]
"""(epoch of the master that wrote it, number): no two are equal."""


class Violation(AssertionError):
    """A claim does not hold."""


@dataclass
class Broker:
    """One member: what its disk has, and what its process knows."""

    id: int
    log: list[Record] = field(default_factory=list)
    epochs: Epochs = ()
    is_up: bool = True
    paused_until_ms: int = 0
    is_complete: bool = True
    """False: its machine stopped, and its log may lack what it acknowledged."""
    follow_from: int = 0
    """Of a slave: where its master's log ended when it began to follow."""
    heard_ms: int = 0
    """When the controller last heard it."""
    standing: Standing = field(default_factory=Standing)
    """What it said then."""
    epoch: int = 0
    """Of its role; 0: none."""
    follows: int | None = None
    """The master that it follows; itself when it leads."""
    sync_set: SyncSet | None = None
    acks: ReplicaAcks | None = None
    readable: ReplicatedEnd | None = None
    reports: dict[int, int] = field(default_factory=dict)
    """Of a master: up to where each connected slave has its log."""
    waiting: list[tuple[int, Record]] = field(default_factory=list)
    unanswered_ms: int = -100_000

    @property
    def leads(self) -> bool:
        return self.follows == self.id

    def as_told(self) -> Standing:
        """What its heartbeats say."""
        end = len(self.log)
        epoch = self.epoch or epoch_rules.epoch_at(self.epochs, end)
        return Standing(epoch, end, is_complete=self.is_complete)

    def lose_role(self) -> None:
        self.epoch, self.follows, self.sync_set, self.acks, self.readable = 0, None, None, None, None
        self.reports.clear()
        self.waiting.clear()


class Group:
    """The brokers, the controller and the time."""

    def __init__(self, seed: int, members: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0
        self.replicas = Replicas()
        self.brokers = {number: Broker(number) for number in range(1, members + 1)}
        self.acknowledged: dict[int, Record] = {}
        """Place in the log -> the record that was acknowledged there."""
        self.read: dict[int, Record] = {}
        self.counts = dict.fromkeys(("acknowledged", "elections", "cuts", "alters", "power cuts"), 0)
        self.cut: set[frozenset[int]] = set()
        """Pairs that cannot reach one another; 0 is the controller."""
        self.loss = self.random.choice((0.0, 0.05, 0.3))
        self.delay_ms = self.random.choice((20, 200, 800))
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = count()
        for number in self.brokers:
            code = f"10.0.0.{number}:1;1"
            self._decide(
                ApplyBrokerId(cluster="c", name=NAME, broker_id=number, address=f"10.0.0.{number}:1", check_code=code)
            )

    @property
    def group(self) -> ReplicaGroup:
        return self.replicas.groups[NAME]

    def run(self, steps: int) -> None:
        """Let so many ticks pass. Raises Violation."""
        for _ in range(steps):
            self.now_ms += TICK_MS
            while self._events and self._events[0][0] <= self.now_ms:
                heappop(self._events)[2]()
                self.check()
            self._hurt()
            for broker in self.brokers.values():
                if broker.is_up and broker.paused_until_ms <= self.now_ms:
                    self._act(broker)
                    self.check()
            self._control()
            self.check()

    def heal(self) -> None:
        """Repair everything; then the group has to acknowledge something new. Raises Violation."""
        self.cut.clear()
        self.loss, self.delay_ms = 0.0, 20
        for broker in self.brokers.values():
            self._restart(broker)
            broker.paused_until_ms = 0
        before = self.counts["acknowledged"]
        self._hurt = lambda: None  # type: ignore[method-assign]
        self.run(600)
        is_whole = all(broker.is_complete for broker in self.brokers.values())
        if self.counts["acknowledged"] == before or len(self.group.sync_set) != len(self.brokers) or not is_whole:
            raise Violation(
                f"after healing the group has the sync set {sorted(self.group.sync_set)}, and acknowledges nothing"
            )

    # What goes wrong

    def _hurt(self) -> None:
        broker = self.random.choice(list(self.brokers.values()))
        chance = self.random.random()
        if chance < 0.004:
            self._end(broker)
        elif chance < 0.005:
            self._lose_power([broker])
        elif chance < 0.0057:
            self._lose_power(list(self.brokers.values()))
        elif chance < 0.008:
            broker.paused_until_ms = self.now_ms + self.random.randrange(100, 6_000)
        elif chance < 0.014:
            other = self.random.choice([0, *(self.brokers.keys() - {broker.id})])
            pair = frozenset({broker.id, other})
            self.cut.add(pair)
            self._later(lambda: self.cut.discard(pair), self.random.randrange(100, 6_000))

    def _end(self, broker: Broker) -> None:
        """End a process, and start it again some time later."""
        broker.is_up = False
        broker.lose_role()
        self._later(lambda: self._restart(broker), self.random.randrange(100, 8_000))

    def _lose_power(self, brokers: list[Broker]) -> None:
        """End machines: of each log only a part is on the disk."""
        self.counts["power cuts"] += 1
        for broker in brokers:
            self._end(broker)
            if self.random.random() < 0.8:
                del broker.log[len(broker.log) - self.random.randrange(min(30, len(broker.log)) + 1) :]
            broker.is_complete = False
        self._give_up()

    def _give_up(self) -> None:
        """Expect no longer what no member of the sync set has."""
        left = max((self.brokers[member].log for member in self.group.sync_set), key=_rank_of_log, default=[])
        for known in (self.acknowledged, self.read):
            for place in list(known)[-100:]:
                if place >= len(left):
                    del known[place]

    def _restart(self, broker: Broker) -> None:
        broker.is_up = True

    def _reaches(self, one: int, two: int) -> bool:
        return frozenset({one, two}) not in self.cut

    def _send(self, one: int, two: int, what: Callable[[], None]) -> None:
        """Let something happen at the other side, if the message arrives."""
        if self._reaches(one, two) and self.random.random() >= self.loss:
            self._later(what, self.random.randrange(1, self.delay_ms))

    def _later(self, what: Callable[[], None], delay_ms: int) -> None:
        heappush(self._events, (self.now_ms + delay_ms, next(self._number), what))

    # The controller

    def _decide(self, command: Command) -> None:
        self.counts["alters"] += isinstance(command, AlterSyncSet)
        self.replicas.apply(encode_command(command))

    def _living(self) -> LiveMembers:
        heard = [broker for broker in self.brokers.values() if self.now_ms - broker.heard_ms < BEAT_TIMEOUT_MS]
        return LiveMembers({broker.id: broker.standing for broker in heard})

    def _control(self) -> None:
        master, before = self.group.master, self.group.master_epoch
        living = self._living()
        is_lost = master is None or master not in living.alive
        if is_lost and (self.group.was_led or living.alive):
            asker = None if self.group.was_led else min(living.alive)
            self._decide(ElectMaster(name=NAME, asker=asker, living=living, now_ms=self.now_ms))
        self.counts["elections"] += self.group.master_epoch != before and self.group.master is not None

    def _alter(self, broker: Broker, epoch: int, wanted: frozenset[int], set_epoch: int) -> None:
        command = AlterSyncSet(
            name=NAME,
            master=broker.id,
            master_epoch=epoch,
            sync_set=wanted,
            sync_set_epoch=set_epoch,
            living=self._living(),
        )
        is_definite_no = bool(self.replicas.decide(command).code)
        self._decide(command)
        if not broker.is_complete:
            self._give_up()  # a last word of a master that lost power: it was giving up the members that have more now
        group = self.group
        self._send(0, broker.id, lambda: self._answered(broker, epoch, wanted, set_epoch, is_definite_no, group))

    # A broker

    def _act(self, broker: Broker) -> None:
        standing = broker.as_told()

        def heard() -> None:
            broker.heard_ms, broker.standing = self.now_ms, standing

        self._send(broker.id, 0, heard)
        if self.random.random() < 0.3:
            group_at = lambda: self._tell(broker)  # noqa: E731
            self._send(broker.id, 0, group_at)
        if broker.leads:
            self._lead(broker)
        elif broker.follows is not None:
            self._follow(broker, self.brokers[broker.follows])

    def _tell(self, broker: Broker) -> None:
        group = self.group
        self._send(0, broker.id, lambda: self._told(broker, group))

    def _told(self, broker: Broker, group: ReplicaGroup) -> None:
        if not broker.is_up or broker.paused_until_ms > self.now_ms or group.master is None:
            return
        if group.master_epoch <= broker.epoch:
            if group.master_epoch == broker.epoch and broker.sync_set is not None:
                broker.sync_set.told(group.sync_set, group.sync_set_epoch, self.now_ms)
                self._need(broker)
            return
        if group.master == broker.id and not broker.is_complete:
            self._send(broker.id, 0, lambda: self._resign(broker))
            return
        if group.master == broker.id and group.sync_set != {broker.id}:
            alone = frozenset({broker.id})
            self._send(broker.id, 0, lambda: self._alter(broker, group.master_epoch, alone, group.sync_set_epoch))
            return
        broker.lose_role()
        if group.master == broker.id:
            self._begin(broker, group)
        else:
            self._join(broker, self.brokers[group.master], group.master_epoch)

    def _resign(self, broker: Broker) -> None:
        """As `ControlledBroker._ask_leadership` of a master whose log may be incomplete."""
        before = self.group.master_epoch
        self._decide(ElectMaster(name=NAME, asker=broker.id, living=self._living(), now_ms=self.now_ms))
        if self.group.master == broker.id and self.group.master_epoch != before:
            group = self.group
            self._send(0, broker.id, lambda: self._elected(broker, group))

    def _elected(self, broker: Broker, group: ReplicaGroup) -> None:
        if broker.is_up and broker.paused_until_ms <= self.now_ms and group.master_epoch > broker.epoch:
            broker.is_complete = True
            self._told(broker, group)

    def _begin(self, broker: Broker, group: ReplicaGroup) -> None:
        broker.is_complete = True
        broker.epochs = epoch_rules.begin_epoch(broker.epochs, group.master_epoch, 0, len(broker.log))
        broker.epoch, broker.follows = group.master_epoch, broker.id
        broker.sync_set = SyncSet(broker.id, group.sync_set, group.sync_set_epoch, self.now_ms)
        quorum = SyncMembers(broker.sync_set.needed)
        broker.acks = ReplicaAcks(quorum, WAIT_MS, 1 << 30)
        broker.readable = ReplicatedEnd(len(broker.log), quorum, WAIT_MS, 1 << 30)

    def _join(self, broker: Broker, master: Broker, epoch: int) -> None:
        """Become a slave, if the master can be asked and leads in this epoch; else it is tried again with the next news."""
        is_there = master.is_up and master.paused_until_ms <= self.now_ms and self._reaches(broker.id, master.id)
        if not is_there or not master.leads or master.epoch != epoch:
            return
        place = epoch_rules.common_end(broker.epochs, master.epochs, len(master.log))
        if place is None and broker.log:
            raise Violation(f"{broker.id} has nothing in common with its master {master.id}")
        if place is not None and place < len(broker.log):
            self.counts["cuts"] += 1
            del broker.log[place:]
        broker.epochs = master.epochs
        broker.epoch, broker.follows, broker.follow_from = epoch, master.id, len(master.log)

    def _follow(self, broker: Broker, master: Broker) -> None:
        """Take some records of the master's log, and report what there is."""
        is_there = master.is_up and master.paused_until_ms <= self.now_ms and self._reaches(broker.id, master.id)
        if not is_there or not master.leads or master.epoch != broker.epoch:
            master.reports.pop(broker.id, None) if master.epoch == broker.epoch else None
            return
        end = len(broker.log)
        if master.log[:end] != broker.log:
            raise Violation(
                f"the log of {broker.id} is not a beginning of its master's, {master.id}, in epoch {broker.epoch}"
            )
        if self.random.random() < 0.8:
            broker.log += master.log[end : end + self.random.randrange(1, 6)]
        if len(broker.log) >= broker.follow_from:
            broker.is_complete = True
        reported, epoch = len(broker.log), broker.epoch
        self._send(broker.id, master.id, lambda: self._reported(master, epoch, broker.id, reported))

    def _reported(self, master: Broker, epoch: int, slave: int, end: int) -> None:
        if not master.is_up or not master.leads or master.epoch != epoch or master.paused_until_ms > self.now_ms:
            return
        master.reports[slave] = max(end, master.reports.get(slave, 0))
        self._answer(master)

    def _lead(self, broker: Broker) -> None:
        assert broker.sync_set is not None
        assert broker.acks is not None
        assert broker.readable is not None
        for slave in tuple(broker.reports):
            if (
                not self._reaches(slave, broker.id)
                or not self.brokers[slave].is_up
                or self.brokers[slave].follows != broker.id
            ):
                del broker.reports[slave]
        if self.random.random() < 0.7:
            record = (broker.epoch, len(broker.log))
            broker.log.append(record)
            self._wait(broker, record)
        self._answer(broker)
        proposal = broker.sync_set.decide(broker.reports, len(broker.log), broker.readable.end, self.now_ms)
        self._need(broker)
        if proposal is not None or (broker.sync_set.proposed is not None and self.random.random() < 0.2):
            wanted, epoch, set_epoch = broker.sync_set.proposed, broker.epoch, broker.sync_set.epoch
            if proposal is None:
                broker.unanswered_ms = self.now_ms
            assert wanted is not None
            self._send(broker.id, 0, lambda: self._alter(broker, epoch, wanted, set_epoch))
        broker.acks.expire(self.now_ms)

    def _answered(
        self, broker: Broker, epoch: int, wanted: frozenset[int], set_epoch: int, is_no: bool, group: ReplicaGroup
    ) -> None:
        """As `ControlledBroker._propose`: a refusal while an older attempt may be under way settles nothing."""
        is_deaf = not broker.is_up or broker.paused_until_ms > self.now_ms
        if is_deaf or broker.sync_set is None or broker.epoch != epoch or group.master_epoch != epoch:
            return
        is_settled = self.now_ms - broker.unanswered_ms >= 10_000
        if is_no and group.sync_set_epoch == set_epoch and not is_settled:
            return
        broker.sync_set.settled(wanted, group.sync_set, group.sync_set_epoch, self.now_ms)
        self._need(broker)

    def _need(self, broker: Broker) -> None:
        assert broker.sync_set is not None
        assert broker.acks is not None
        assert broker.readable is not None
        broker.acks.quorum = broker.readable.quorum = SyncMembers(broker.sync_set.needed)
        self._answer(broker)

    def _confirmed(self, broker: Broker) -> list[ConfirmedRange]:
        return [ConfirmedRange(-1, end, slave) for slave, end in broker.reports.items()]

    def _wait(self, broker: Broker, record: Record) -> None:
        assert broker.acks is not None
        end = len(broker.log)

        def waiter(result: ReplicaAckResult) -> None:
            if result is ReplicaAckResult.DONE:
                self._acknowledge(end - 1, record)

        if broker.acks.wait(end, self._confirmed(broker), self.now_ms, waiter) is ReplicaAckResult.DONE:
            self._acknowledge(end - 1, record)

    def _answer(self, broker: Broker) -> None:
        assert broker.acks is not None
        assert broker.readable is not None
        before = broker.readable.end
        end = broker.readable.advance(len(broker.log), self._confirmed(broker), self.now_ms)
        for place in range(before, end):
            self._note(self.read, place, broker.log[place], "read")
        for waiter in broker.acks.advance(self._confirmed(broker)):
            waiter(ReplicaAckResult.DONE)

    def _acknowledge(self, place: int, record: Record) -> None:
        self._note(self.acknowledged, place, record, "acknowledged")
        self.counts["acknowledged"] += 1

    def _note(self, known: dict[int, Record], place: int, record: Record, what: str) -> None:
        if known.setdefault(place, record) != record:
            raise Violation(f"{record} was {what} at {place}, where {known[place]} was before")

    # The claims

    def check(self) -> None:
        """I1, I4, I6: what was acknowledged, or read, is at its place on every member of the controller's set."""
        for member in self.group.sync_set:
            if not self.brokers[member].is_complete:
                continue
            log = self.brokers[member].log
            for known, what in ((self.acknowledged, "acknowledged"), (self.read, "read")):
                for place in list(known)[-20:]:
                    if place >= len(log) or log[place] != known[place]:
                        raise Violation(f"{known[place]} was {what} at {place}, and {member} of the sync set lacks it")

    def check_all(self) -> None:
        """The same for all records, once."""
        for member in self.group.sync_set:
            log = self.brokers[member].log
            if not self.brokers[member].is_complete:
                continue
            for place, record in (self.acknowledged | self.read).items():
                if place >= len(log) or log[place] != record:
                    raise Violation(
                        f"{record} was acknowledged or read at {place}, and {member} of the sync set lacks it"
                    )


def _rank_of_log(log: list[Record]) -> tuple[int, int]:
    return (log[-1][0] if log else 0), len(log)


def live(seed: int, steps: int = 1_200) -> Group:
    """Let one group live through faults, and heal. Raises Violation."""
    group = Group(seed, members=Random(seed).choice((2, 3, 3, 5)))
    group.run(steps)
    group.check_all()
    group.heal()
    group.check_all()
    return group
