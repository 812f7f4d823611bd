"""Our core and etcd-io/raft play the same script, and are equal after every step: what they say, and what they are.

The script has a group of one to five nodes twice: ours here, etcd's in the program of `tests/raft/etcd`. A step is a tick, a
message that arrives (in any order, twice, or never), a wish of the application, a crash, or a compaction. After each, the
node's term, vote, role, leader, hand-over, commit, applied and last index have to be equal, its messages field by field,
what it applied, the reads that it confirmed, and whether its disk has to sync; the whole logs are compared every 100 steps. A crash may come before
anything of the step is on the disk.

Chance is the script's alone: etcd draws its time-outs by itself, and the program replaces each one before a tick.

Where the two differ by intent, the script does not go, or looks away:

- A snapshot that has no answer is given up by our leader after one to two election time-outs; etcd's waits until its driver
  reports it. Our leader's own look is switched off, and the script reports.
- Without `check_quorum`, too, our leader notes at each election time-out who has been silent, and sends a snapshot only to
  those that answer again; etcd's then takes all for present that ever answered. Our leader's look is switched off.
- A leader of an older term that sends a snapshot is told of the newer one by our node, and by etcd's only when it sends
  entries or a heartbeat. This one answer is taken out.
- etcd leaves it to the driver to sync a leader's snapshot; ours asks for it. The program says that it is synced.
- A second hand-over replaces one that is under way in etcd, and is refused by ours. There is one at a time.
- A follower of etcd's sends reads and hand-overs on to its leader, ours refuses them. They are asked of leaders.
- Reads before the first commit of a term wait in both, but etcd starts a round of heartbeats for each and forgets none when
  the leader loses its office. They are not asked.
- etcd counts the answers to one round of heartbeats, ours also those to later ones: from four voters on, ours may confirm a
  read earlier. Groups of more than three do not read.
- etcd counts the bytes of an encoded entry, ours those of its data. A message has all entries or, in some lives, one: the
  limit is then so small that ours, too, is made to count the marks of leaders, which have no data.
- `report_ended` is ours alone.

A run: `make proof ARGS="--only raft/differential"`; `python -m raft.differential --steps 1000 --seed 7` begins with life 7.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter
from types import ModuleType
from typing import Any
from unittest import mock

import orbitmq.raft
from orbitmq.errors import NotLeader

PROGRAM = Path(__file__).parent / "etcd"
STEPS_OF_A_LIFE = 1_000
PENDING_MAX = 60
"""Messages under way; with more, nothing but arrivals happens."""


class Difference(Exception):
    """The two are not equal."""


class Disk:
    """What one of our nodes has saved."""

    def __init__(self, core: ModuleType) -> None:
        self._core = core
        self.hard_state = core.HardState()
        self.snapshot = None
        self.entries: list[Any] = []

    def save(self, ready) -> None:
        """Save what a Ready has."""
        if ready.snapshot is not None:
            self.snapshot, self.entries = ready.snapshot, []
        if ready.entries:
            first = ready.entries[0].index
            self.entries = [entry for entry in self.entries if entry.index < first] + list(ready.entries)
        self.hard_state = ready.hard_state or self.hard_state

    def load(self):
        """Return what a node begins with."""
        return self._core.Saved(self.hard_state, self.snapshot, tuple(self.entries))


class Etcd:
    """The program with etcd's nodes."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return its answer."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(command).encode() + b"\n")
        stdin.flush()
        answer = stdout.readline()
        assert answer, "the program with etcd's nodes has ended"
        return json.loads(answer)

    def close(self) -> None:
        """End it."""
        self._process.communicate()


class Script:
    """One life of one group, in both; the seed decides all of it."""

    def __init__(self, seed: int, etcd: Etcd, core: ModuleType = orbitmq.raft) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self._etcd = etcd
        self._core = core
        self._random = random = Random(seed)
        voters = random.choice((1, 2, 3, 3, 3, 4, 5, 5))
        self._settings: dict[str, Any] = {
            "voters": list(range(1, voters + 1)),
            "election": random.randint(3, 10),
            "heartbeat": random.choice((1, 1, 2)),
            "inflight": random.choice((1, 2, 4, 64)),
            "is_single": random.random() < 0.4,
            "pre_vote": random.random() < 0.75,
            "check_quorum": random.random() < 0.75,
        }
        self._loss = random.choice((0, 0, 0.02, 0.1))
        self._doubles = random.choice((0, 0.02, 0.1))
        self._overtakes = random.choice((0, 0.1, 1))
        self._unrest = random.choice((0.2, 1, 3))
        self._extra = dict.fromkeys(self._settings["voters"], 0)
        self._disks = {id: Disk(core) for id in self._settings["voters"]}
        self._nodes = {id: self._begin(id) for id in self._settings["voters"]}
        self._pending: list[tuple[Any, int]] = []
        """Messages under way: ours, and the number of etcd's."""
        self._late: list[tuple[Any, int]] = []
        """Copies of messages, which arrive when time has passed."""
        self._forgotten: list[int] = []
        self._cut: set[int] = set()
        self._reads: Counter[tuple[int, int]] = Counter()
        self._proposed = 0
        self._steps = 0
        self._trace: list[str] = []

    def run(self, steps: int = STEPS_OF_A_LIFE) -> None:
        """Live for a number of steps.

        Raises:
            Difference: the two are not equal after one of them.
        """
        leadership = import_module(f"{self._core.__name__}.leadership").Leadership
        log = import_module(f"{self._core.__name__}.log").RaftLog
        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(leadership, "recheck_snapshots", return_value=None))
            patches.enter_context(mock.patch.object(log, "between", singly(log.between)))
            if not self._settings["check_quorum"]:
                patches.enter_context(mock.patch.object(leadership, "is_majority_active", return_value=True))
            self._etcd({"op": "group", **self._settings})
            for id in self._nodes:
                self._do(id, op="start", extra=self._draw_extra(id))
            for self._steps in range(1, steps + 1):
                self._step()
                if self._steps % 100 == 0 or self._steps == steps:
                    self._compare_logs()
        self.counts["committed"] = max(node.log.commit for node in self._nodes.values())

    # What happens

    def _step(self) -> None:
        random = self._random
        if self._pending and (len(self._pending) > PENDING_MAX or random.random() < 0.75):
            return self._deliver()
        id = random.choice(self._settings["voters"])
        node = self._nodes[id]
        leaders = [found for found in self._nodes.values() if found.role.value == "leader"]
        leader = random.choice(leaders) if leaders else node
        is_leader = bool(leaders)
        unrest = self._unrest
        peers = [peer for peer in self._settings["voters"] if peer != leader.id]
        full = random.choice((node, leader))
        first = full.log.snapshot.position.index + 1 if full.log.snapshot else 1
        is_read_possible = is_leader and len(peers) < 3 and leader.log.position(leader.log.commit).term == leader.term
        choices: dict[str, float] = {
            "tick": 60,
            "propose": 25,
            "stray-proposal": 1,
            "read": 5 * is_read_possible,
            "transfer": unrest * bool(is_leader and peers and leader.transferee is None),
            "campaign": unrest,
            "start": 2 * unrest,
            "compact": 8 * (full.log.applied >= first),
            "snapshot": 2 * bool(peers),
            "unreachable": 1 * bool(peers),
            "cut": 2 * unrest,
            "late": 5 * bool(self._late),
        }
        what = random.choices(list(choices), list(choices.values()))[0]
        self.counts[what] += 1
        match what:
            case "tick" | "campaign":
                self._do(id, op=what)
            case "propose" | "stray-proposal":
                self._proposed += 1
                self._do(leader.id if what == "propose" else id, op="propose", data=f"p{self._proposed}")
            case "read":
                self._reads[leader.id, leader.term] += 1
                self._do(leader.id, op=what, data=str(self._reads[leader.id, leader.term]))
            case "transfer" | "unreachable":
                self._do(leader.id, op=what, to=random.choice(peers))
            case "snapshot":
                self._do(leader.id, op=what, to=random.choice(peers), good=random.random() < 0.5)
            case "start":
                self._do(id, op=what, extra=self._draw_extra(id))
            case "late":
                message, theirs = self._late.pop(random.randrange(len(self._late)))
                self._do(message.receiver, message, op="step", message=theirs)
                self._forgotten.append(theirs)
            case "compact":
                index = random.choice((full.log.applied, random.randint(first, full.log.applied)))
                self._do(full.id, op=what, index=index, keep=random.choice((0, 0, 2)), data=f"s{index}")
            case "cut":
                count = random.choice((0, 0, 1, 1, 2))
                self._cut = set(random.sample(self._settings["voters"], min(count, len(peers))))
        return None

    def _deliver(self) -> None:
        random = self._random
        number = random.randrange(len(self._pending)) if random.random() < self._overtakes else 0
        message, theirs = self._pending[number]
        is_doubled = random.random() < self._doubles * (5 if type(message).__name__ == "InstallSnapshot" else 1)
        self._pending.pop(number)
        if random.random() < self._loss:
            self.counts["lost"] += 1
        else:
            self.counts["arrived"] += 1
            is_crash = random.random() < 0.003 * self._unrest
            more = {"lost": True, "extra": self._draw_extra(message.receiver)} if is_crash else {}
            self._do(message.receiver, message, op="step", message=theirs, **more)
        if is_doubled:
            self._late.append((message, theirs))
        else:
            self._forgotten.append(theirs)

    def _draw_extra(self, id: int) -> int:
        self._extra[id] = self._random.randrange(self._settings["election"])
        return self._extra[id]

    # Both

    def _do(self, id: int, message=None, /, **command: Any) -> None:
        """Let both do a command, and compare."""
        command["node"] = id
        self._trace = [*self._trace[-20:], f"{self._steps}: {command} {message or ''}"]
        theirs = self._etcd({**command, "forget": self._forgotten})
        self._forgotten = []
        if theirs["panic"]:
            raise self._difference("etcd panics", None, theirs["panic"])
        before = self._nodes[id].role
        try:
            is_refused, is_extra = self._ask(id, message, command)
            if command.get("lost"):
                self.counts["crashes"] += 1
                self._nodes[id] = self._begin(id)
            sent, applied, reads, is_synced = self._settle(id)
        except (AssertionError, IndexError, self._core_errors) as error:
            raise self._difference("ours fails", repr(error), theirs["state"]) from error
        if is_extra and not command.get("lost"):
            sent.pop()
        self._compare("sync", is_synced, theirs["synced"])
        self._compare("refusal", is_refused, theirs["refused"])
        self._compare("messages", [told(message) for message in sent], theirs["messages"] or [])
        self._compare("applied", applied, theirs["applied"] or [])
        self._compare("reads", reads, theirs["reads"] or [])
        self._compare("state", state_of(self._nodes[id]), theirs["state"])
        self.counts["messages"] += len(sent)
        self.counts["reads"] += len(reads)
        self.counts["snapshots"] += sum(found[0] == "snapshot" for found in applied)
        self.counts["elections"] += before is not self._nodes[id].role and self._nodes[id].role.value == "leader"
        for number, message in enumerate(sent, theirs["first"]):
            if {message.sender, message.receiver} & self._cut:
                self._forgotten.append(number)
            else:
                self._pending.append((message, number))

    def _ask(self, id: int, message, command: dict[str, Any]) -> tuple[bool, bool]:
        """Let ours do a command; say whether it was refused, and whether its last message is one that etcd does not send."""
        node = self._nodes[id]
        match command["op"]:
            case "step":
                is_old = type(message).__name__ == "InstallSnapshot" and message.term < node.term
                node.step(message)
                return False, is_old and (self._settings["pre_vote"] or self._settings["check_quorum"])
            case "start":
                self._nodes[id] = self._begin(id)
            case "tick":
                node.tick()
            case "campaign":
                node.campaign()
            case "propose":
                try:
                    node.propose(command["data"].encode())
                except NotLeader:
                    return True, False
            case "read":
                node.read(command["data"])
            case "transfer":
                node.transfer(command["to"])
            case "unreachable":
                node.report_unreachable(command["to"])
            case "snapshot":
                node.report_snapshot(command["to"], is_delivered=command["good"])
            case "compact":
                disk = self._disks[id]
                disk.snapshot = node.compact(command["index"], command["data"].encode(), command["keep"])
        return False, False

    def _begin(self, id: int):
        settings = self._core.Settings(
            id=id,
            voters=frozenset(self._settings["voters"]),
            election_ticks=self._settings["election"],
            heartbeat_ticks=self._settings["heartbeat"],
            batch_size_max=1 if self._settings["is_single"] else 1 << 40,
            inflight_max=self._settings["inflight"],
            pre_vote=self._settings["pre_vote"],
            check_quorum=self._settings["check_quorum"],
        )
        return self._core.Raft(settings, self._disks[id].load(), lambda _: self._extra[id])

    def _settle(self, id: int) -> tuple[list[Any], list[list[Any]], list[list[Any]], bool]:
        """Do all that our node asks for; return what it said, applied and confirmed, and whether the disk had to sync."""
        node = self._nodes[id]
        sent: list[Any] = []
        applied: list[list[Any]] = []
        reads: list[list[Any]] = []
        is_synced = False
        while (ready := node.take_ready()) is not None:
            self._disks[id].save(ready)
            is_synced = is_synced or ready.must_sync
            sent += ready.messages
            if ready.snapshot is not None:
                position = ready.snapshot.position
                applied.append(["snapshot", position.index, position.term, ready.snapshot.data.decode()])
            applied += [listed(entry) for entry in ready.committed]
            reads += [[read.context, read.index] for read in ready.reads]
            node.advance()
        return sent, applied, reads, is_synced

    # Comparing

    @property
    def _core_errors(self) -> type[Exception]:
        return import_module("orbitmq.errors").LogDiverged

    def _compare_logs(self) -> None:
        for id, node in self._nodes.items():
            log = node.log
            ours = [[log.base.index, log.base.term], *map(listed, log.between(log.base.index + 1, log.last.index))]
            self._compare(f"log of {id}", ours, self._etcd({"op": "log", "node": id})["log"])

    def _compare(self, what: str, ours: Any, theirs: Any) -> None:
        if ours != theirs:
            raise self._difference(what, ours, theirs)

    def _difference(self, what: str, ours: Any, theirs: Any) -> Difference:
        story = "\n  ".join(self._trace)
        return Difference(
            f"seed {self.seed}, step {self._steps}: {what}\n ours  {ours}\n etcd's {theirs}\n"
            f" {self._settings}\n  {story}"
        )


def singly(between):
    """Return `RaftLog.between` so that the smallest limit always means one entry."""
    return lambda log, first, last, size_max=None: between(log, first, last, size_max)[: 1 if size_max == 1 else None]


def state_of(node) -> list[Any]:
    """Return what a node is, as the program says it of etcd's."""
    last = node.log.last
    return [
        *(node.term, node.vote, node.log.commit, node.log.applied, node.role.value),
        *(node.leader or 0, node.transferee or 0, last.index, last.term),
    ]


def listed(entry) -> list[Any]:
    """Return an entry as the program says it."""
    return [entry.index, entry.term, entry.data.decode()]


def told(message) -> list[Any]:
    """Return a message as the program says it of etcd's."""
    kind = type(message).__name__
    head = [kind, message.sender, message.receiver, message.term]
    match kind:
        case "PreVoteRequest":
            return [*head, message.last.index, message.last.term]
        case "VoteRequest":
            return [*head, message.last.index, message.last.term, message.is_transfer]
        case "PreVoteAnswer" | "VoteAnswer":
            return [*head, message.is_granted]
        case "Append":
            entries = [listed(entry) for entry in message.entries]
            return [*head, message.previous.index, message.previous.term, message.commit, entries]
        case "Appended":
            return [*head, message.index]
        case "AppendRejected":
            return [*head, message.index, message.hint.index, message.hint.term]
        case "Heartbeat":
            return [*head, message.commit, message.read_round]
        case "HeartbeatAnswer":
            return [*head, message.read_round]
        case "InstallSnapshot":
            position = message.snapshot.position
            return [*head, position.index, position.term, message.snapshot.data.decode()]
    return head


# The program


@cache
def why_unavailable() -> str | None:
    """Say in one sentence what is missing for etcd's nodes; None when nothing is."""
    go = find_go()
    if go is None:
        return "the comparison with etcd's Raft needs Go, and there is no `go` on the PATH"
    found = subprocess.run(
        [go, "build", "-o", os.devnull, "."], cwd=PROGRAM, capture_output=True, text=True, check=False
    )
    if found.returncode:
        return f"the comparison with etcd's Raft needs its program to build: {' '.join(found.stderr.split())[:200]}"
    return None


def find_go() -> str | None:
    """Return Go's path, also where it is installed without being on the PATH."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")


@contextmanager
def etcd_nodes() -> Iterator[Etcd]:
    """Provide the program, built from its sources."""
    go = find_go()
    assert go is not None, why_unavailable()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "nodes"
        subprocess.run([go, "build", "-o", path, "."], cwd=PROGRAM, check=True)
        etcd = Etcd(path)
        try:
            yield etcd
        finally:
            etcd.close()


def main() -> int:
    """Compare for a number of steps; return 1 when there is a difference, 2 when nothing can be compared."""
    parser = argparse.ArgumentParser(prog="raft.differential", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first life; each has 1,000 steps")
    arguments = parser.parse_args()
    if (reason := why_unavailable()) is not None:
        print(reason)
        return 2
    began_at = perf_counter()
    counts: Counter[str] = Counter()
    differences = done = 0
    with etcd_nodes() as etcd:
        for seed in range(arguments.seed, arguments.seed + -(-arguments.steps // STEPS_OF_A_LIFE)):
            script = Script(seed, etcd)
            steps = min(STEPS_OF_A_LIFE, arguments.steps - done)
            try:
                script.run(steps)
            except Difference as difference:
                print(difference, flush=True)
                differences += 1
            done += steps
            counts += script.counts
            if done % (20 * STEPS_OF_A_LIFE) == 0 and done < arguments.steps:
                print(f"{done} steps, {differences} differences", flush=True)
    print(
        f"{done} steps, {differences} differences: {counts['messages']} messages, {counts['elections']} elections, "
        f"{counts['committed']} committed entries, {counts['snapshots']} snapshots, {counts['reads']} reads, "
        f"{counts['start'] + counts['crashes']} restarts, {perf_counter() - began_at:.0f} s"
    )
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
