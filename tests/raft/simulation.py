"""The lives of groups of Raft nodes on a simulated network, with simulated disks and clocks, each made from one seed.

Messages are lost, doubled, late and overtaken; links break one way and both ways; nodes crash in the middle of a write,
lose what was not synced, and start again. At the end everything heals, and the group has to make progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any

import orbitmq.raft
from orbitmq.errors import NotLeader, ProposalsFull
from raft.checker import Checker, Disk, Node, Violation, claim

TICK_MS = 10
CLIENT_MS = 15
SLOW_MS = 300
EVENTS = 5_000
HEALING_EVENTS = 100_000
HEALING_ELECTIONS = 20
"""Election time-outs in which a healed group has to write or apply something new, until all have applied the last entry."""


@dataclass(frozen=True)
class Weather:
    """The conditions of one life, drawn from its seed: some faults, and not others.

    Probabilities are of each occasion (message, write, round of the client); times are milliseconds.
    """

    nodes: int
    pre_vote: bool
    check_quorum: bool
    election_ticks: int
    batch_size_max: int
    inflight_max: int
    uncommitted_size_max: int
    clock_drift: float
    """Share by which a node's ticks are longer or shorter."""
    delay_max: int
    slow_share: float
    """Messages that take up to 300 ms, so that they are overtaken."""
    drop_share: float
    duplicate_share: float
    sync_max: int
    slow_sync_share: float
    """Writes that take up to 300 ms."""
    crash_in_write_share: float
    crash_after_vote_share: float
    crash_after_commit_share: float
    """Of a leader, as soon as it has applied something."""
    crash_share: float
    down_min: int
    down_max: int
    cut_share: float
    """How often, of the client's rounds, the links change."""
    burst_max: int
    read_share: float
    transfer_share: float
    compact_after: int
    """Applied entries that become a snapshot; 0 is never."""
    compact_keep: int
    report_share: float
    """Lost messages whose sender hears of it."""


def draw_weather(random: Random) -> Weather:
    def sometimes(share: float, value: float) -> float:
        return value if random.random() < share else 0.0

    is_quick = random.random() < 0.3
    election_ticks = random.choice([3, 5, 10])
    return Weather(
        nodes=random.choice([2, 3, 3, 3, 3, 4, 4, 5, 5] if random.random() < 0.95 else [1]),
        pre_vote=random.random() < 0.5,
        check_quorum=random.random() < 0.7,
        election_ticks=election_ticks,
        batch_size_max=random.choice([1, 10, 1 << 20]),
        inflight_max=random.choice([1, 2, 64]),
        uncommitted_size_max=random.choice([30, 1 << 20]),
        clock_drift=random.choice([0.0, 0.05, 0.2]),
        delay_max=random.choice([2, 5, 12] if election_ticks > 3 else [2, 3]),
        slow_share=sometimes(0.5, random.uniform(0.02, 0.2)),
        drop_share=sometimes(0.6, random.choice([0.02, 0.1, 0.2])),
        duplicate_share=sometimes(0.5, random.uniform(0.01, 0.2)),
        sync_max=random.choice([0, 2, 5] if election_ticks > 3 else [0, 2]),
        slow_sync_share=sometimes(0.5, random.uniform(0.01, 0.2)),
        crash_in_write_share=sometimes(0.5, random.uniform(0.0, 0.03)),
        crash_after_vote_share=sometimes(0.5, random.uniform(0.1, 0.9)),
        crash_after_commit_share=sometimes(0.3, random.uniform(0.05, 0.5)),
        crash_share=sometimes(0.6, random.uniform(0.0, 0.02)),
        down_min=1 if is_quick else 60,
        down_max=30 if is_quick else random.choice([200, 1_000, 3_000]),
        cut_share=sometimes(0.8, random.choice([0.02, 0.05, 0.1])),
        burst_max=random.choice([1, 3, 8]),
        read_share=sometimes(0.7, 0.3),
        transfer_share=sometimes(0.5, random.choice([0.02, 0.2])),
        compact_after=random.choice([0, 5, 20]),
        compact_keep=random.choice([0, 0, 3]),
        report_share=random.choice([0.0, 0.0, 0.5]),
    )


class Life:
    """A group and all that happens to it. `core` is the package that is tested: `orbitmq.raft`, or a broken copy of it."""

    def __init__(self, seed: int, core: Any = orbitmq.raft, weather: Weather | None = None) -> None:
        self.random = Random(seed)
        self.weather = weather or draw_weather(self.random)
        self.core = core
        self.now = 0
        self.events = 0
        self.trace: list[str] | None = None
        self._queue: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        self._arrival = 0
        self._is_healed = False
        self._cut: set[tuple[int, int]] = set()
        self._proposed = 0
        self.voters = frozenset(range(1, self.weather.nodes + 1))
        self.disks = {id: Disk(core) for id in sorted(self.voters)}
        self.nodes = {id: Node(id, disk) for id, disk in self.disks.items()}
        self.checker = Checker(self.disks)
        drift = self.weather.clock_drift
        self._tick_ms = {id: TICK_MS * self.random.uniform(1 - drift, 1 + drift) for id in self.disks}
        for id, node in self.nodes.items():
            self._start(node)
            self._at(self._tick_ms[id], self._tick, node)
        self._at(CLIENT_MS, self._act)

    def run(self, events: int = EVENTS) -> None:
        """Live through faults, then heal.

        Raises:
            Violation: something happened that never may.
        """
        try:
            while self.events < events:
                self._next()
            self._heal()
        except Violation:
            raise
        except Exception as error:
            raise Violation(f"{type(error).__name__}: {error}") from error

    # Events

    def _at(self, delay: float, action: Any, *arguments: Any) -> None:
        self._arrival += 1
        heappush(self._queue, (self.now + int(delay), self._arrival, action, arguments))

    def _next(self) -> None:
        self.now, _, action, arguments = heappop(self._queue)
        self.events += 1
        action(*arguments)

    def _say(self, *words: Any) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.now:>6} " + " ".join(map(str, words)))

    def _chance(self, share: float) -> bool:
        return not self._is_healed and share > 0 and self.random.random() < share

    def _tick(self, node: Node) -> None:
        self._at(self._tick_ms[node.id], self._tick, node)
        if node.raft is not None:
            node.raft.tick()
            self._after(node)

    def _deliver(self, message: Any) -> None:
        node = self.nodes[message.receiver]
        if node.raft is None:
            return
        self._say("got", message)
        node.raft.step(message)
        self._after(node)

    def _after(self, node: Node) -> None:
        """Check a node that has done something, and do what it asks."""
        if node.raft is not None:
            self.checker.check(node)
        while node.raft is not None and node.writing is None and (ready := node.raft.take_ready()) is not None:
            self.checker.check(node)
            self.checker.check_ready(node, ready)
            node.writing = ready
            delay = self._sync_ms() if ready.must_sync else 0
            if delay:
                self._at(delay, self._written, node, node.incarnation)
            else:
                self._finish(node, ready)

    def _sync_ms(self) -> int:
        if self._chance(self.weather.slow_sync_share):
            return self.random.randint(1, SLOW_MS)
        return self.random.randint(0, 1 if self._is_healed else self.weather.sync_max)

    def _written(self, node: Node, incarnation: int) -> None:
        if node.raft is not None and node.incarnation == incarnation:
            self._finish(node, node.writing)
            self._after(node)

    def _finish(self, node: Node, ready: Any) -> None:
        """Do what a Ready asks for, in its order, and perhaps crash between any two parts of it."""
        if ready.must_sync and self._chance(self.weather.crash_in_write_share):
            if self.random.random() < 0.5:
                node.disk.save(ready)
            self._crash(node)
            return
        is_vote = ready.hard_state is not None and ready.hard_state.vote != node.disk.hard_state.vote
        node.disk.save(ready)
        for message in ready.messages:
            self._send(message)
        if is_vote and self._chance(self.weather.crash_after_vote_share):
            self._crash(node, self.random.randint(1, 30))
            return
        self._apply(node, ready)
        if ready.committed and node.raft.role.value == "leader" and self._chance(self.weather.crash_after_commit_share):
            self._crash(node)
            return
        node.writing = None
        node.raft.advance()
        self.checker.check(node)
        self._compact(node)

    def _apply(self, node: Node, ready: Any) -> None:
        if ready.snapshot is not None:
            node.restore(ready.snapshot)
            self.checker.check_applied(node.applied, node.digest)
        for entry in ready.committed:
            node.apply(entry)
            self.checker.check_applied(node.applied, node.digest)
        for read in ready.reads:
            self.checker.check_read(read.index, read.context)

    def _compact(self, node: Node) -> None:
        base = node.raft.log.snapshot.position.index if node.raft.log.snapshot else 0
        if self.weather.compact_after and node.applied - base >= self.weather.compact_after:
            keep = self.weather.compact_keep
            snapshot = node.raft.compact(node.applied, b"%d %d" % (node.applied, node.digest), keep)
            node.disk.compact(snapshot, keep)

    # The network

    def _send(self, message: Any) -> None:
        weather = self.weather
        if (message.sender, message.receiver) in self._cut or self._chance(weather.drop_share):
            if self._chance(weather.report_share):
                self._at(0, self._report, message)
            return
        for _ in range(2 if self._chance(weather.duplicate_share) else 1):
            delay = self.random.randint(1, 2 if self._is_healed else weather.delay_max)
            if self._chance(weather.slow_share):
                delay = self.random.randint(1, SLOW_MS)
            self._at(delay, self._deliver, message)

    def _report(self, message: Any) -> None:
        node = self.nodes[message.sender]
        if node.raft is not None:
            if isinstance(message, self.core.InstallSnapshot):
                node.raft.report_snapshot(message.receiver, is_delivered=False)
            else:
                node.raft.report_unreachable(message.receiver)
            self._after(node)

    def _change_links(self) -> None:
        """Cut the group in one of the shapes that have hurt others, or mend it."""
        ids = sorted(self.voters)
        links = [(a, b) for a in ids for b in ids if a != b]
        one = self._any_node().id if self.random.random() < 0.7 else self.random.choice(ids)
        other = self.random.choice(ids)
        side = set(self.random.sample(ids, self.random.randint(0, len(ids))))
        cuts = [
            set(),
            {(a, b) for a, b in links if (a in side) != (b in side)},
            {(a, b) for a, b in links if one in (a, b)},
            {(a, b) for a, b in links if a == one},  # It receives, and is not heard.
            {(a, b) for a, b in links if one not in (a, b)},  # All reach one node only.
            {(a, b) for a, b in links if one in (a, b) and other not in (a, b)},  # One reaches one other only.
            {link for link in links if self.random.random() < 0.3},
        ]
        self._cut = self.random.choice(cuts)
        self._say("cut", sorted(self._cut))

    # Crashes

    def _start(self, node: Node) -> None:
        if node.raft is not None:
            return
        weather = self.weather
        settings = self.core.Settings(
            id=node.id,
            voters=self.voters,
            election_ticks=weather.election_ticks,
            pre_vote=weather.pre_vote,
            check_quorum=weather.check_quorum,
            batch_size_max=weather.batch_size_max,
            inflight_max=weather.inflight_max,
            uncommitted_size_max=weather.uncommitted_size_max,
        )
        raft = self.core.Raft(settings, node.disk.load(), self.random.randrange)
        node.start(raft)
        self._say("start", node.id, raft.term, raft.log.last)
        self._after(node)

    def _crash(self, node: Node, down_ms: int | None = None) -> None:
        self._say("crash", node.id)
        node.raft = node.writing = None
        if self.random.random() < 0.5:
            node.disk.sync()
        node.disk.forget()
        if down_ms is None:
            down_ms = self.random.randint(self.weather.down_min, self.weather.down_max)
        self._at(down_ms, self._start, node)
        for other in self.nodes.values():
            if self.random.random() < 0.5:
                self._at(self.random.randint(1, 20), self._report_ended, other, node.id)

    def _report_ended(self, node: Node, peer: int) -> None:
        """Let a node take a peer's process for ended, which it may be, or not any more."""
        if node.raft is not None:
            node.raft.report_ended(peer)

    # The client, who is the fate as well

    def _act(self) -> None:
        if self._is_healed:
            return
        self._at(CLIENT_MS, self._act)
        weather, random = self.weather, self.random
        if self._chance(weather.cut_share):
            self._change_links()
        node = self.nodes[random.choice(sorted(self.voters))]
        if node.raft is not None and self._chance(weather.crash_share):
            self._crash(node)
        for node in self.nodes.values():
            if node.raft is not None and node.raft.role.value == "leader" and self._chance(weather.read_share):
                node.raft.read(self.checker.last_committed)
                self._after(node)
        node = self._any_node()
        if node.raft is None:
            return
        for _ in range(random.randint(0, weather.burst_max)):
            self._propose(node)
        if self._chance(weather.transfer_share) and node.raft.role.value == "leader" and node.raft.transferee is None:
            others = sorted(self.voters - {node.id})
            if others:
                node.raft.transfer(random.choice(others))
        self._after(node)

    def _any_node(self) -> Node:
        """Return a leader, as a client that knows one would, or any node."""
        leaders = [node for node in self.nodes.values() if node.raft is not None and node.raft.role.value == "leader"]
        if leaders and self.random.random() < 0.9:
            return self.random.choice(leaders)
        return self.nodes[self.random.choice(sorted(self.voters))]

    def _propose(self, node: Node) -> bool:
        self._proposed += 1
        try:
            node.raft.propose(b"%d" % self._proposed)
        except (NotLeader, ProposalsFull):
            return False
        return True

    # The end

    def _heal(self) -> None:
        self._say("heal")
        self._is_healed = True
        self._cut = set()
        for node in self.nodes.values():
            self._start(node)
        election_ms = 2 * self.weather.election_ticks * TICK_MS
        rest = self.now + 5 * election_ms
        while self.now < rest:
            self._next()
        goal = None
        done, done_at = -1, self.now
        last_event = self.events + HEALING_EVENTS
        while self.now - done_at < HEALING_ELECTIONS * election_ms and self.events < last_event:
            self._next()
            leader = max(self.nodes.values(), key=lambda node: (node.raft.role.value == "leader", node.raft.term))
            if goal is None and self._propose(leader):
                goal = leader.raft.log.last.index
                self._after(leader)
            applied = [node.applied for node in self.nodes.values()]
            if goal is not None and min(applied) >= goal:
                return
            so_far = sum(applied) + sum(node.raft.log.stable for node in self.nodes.values())
            if so_far > done:
                done, done_at = so_far, self.now
        states = [(node.id, node.raft.role.value, node.raft.term, node.applied) for node in self.nodes.values()]
        claim(False, "no progress after healing:", goal, states)


def live(seed: int, core: Any = orbitmq.raft, events: int = EVENTS) -> Life:
    """Run the life of one seed; an error of it names the seed."""
    life = Life(seed, core)
    try:
        life.run(events)
    except Violation as violation:
        raise Violation(f"seed {seed}, event {life.events}: {violation}") from violation
    return life
