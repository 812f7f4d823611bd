"""Members of a group that fails over are killed or stand still, under load: `python -m crash.failover_kills`.

Whatever happens to one member at a time, or to all of them, what was acknowledged or read stays, and all logs are the same.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from statistics import quantiles

from crash.failover_group import MEMBERS, FailoverGroup
from crash.failover_hosts import HostCluster
from crash.failover_load import ALL_COMMITS_LOST_S, READERS, TOPIC, WORKERS, FailoverLoad, Notes
from crash.replica_load import QUEUES, Place
from crash.replicas import WAIT_S, Lost, read, until
from orbitmq.errors import OrbitError

ROUNDS = 50
FREEZE_S = (2.0, 6.0)
RESTART_S_MAX = 3.0
BUSY_S = 60.0
SEND_S_MAX = 10.0
"""No send of a producer takes longer: its own timeout is 3 s for each of its attempts."""


class Kills:
    """The rounds, and what is claimed after each.

    Args:
        pace: messages that are acknowledged before something happens, at most.
        kinds: names of what happens, in the order of the first rounds; later ones are chosen.
        only: nothing else happens.
        has_hosts: each member has a host, whose cable is cut as well.
    """

    def __init__(
        self,
        home: Path,
        random: Random,
        *,
        pace: int = 300,
        kinds: tuple[str, ...] = (),
        only: str = "",
        has_hosts: bool = False,
    ) -> None:
        self.notes = Notes()
        self.current = "the start"
        """What happens now."""
        self.outages: dict[tuple[str, str], list[float]] = {}
        """Seconds from a failure of the master to the next SEND_OK, by kind, and by who was answered."""
        self._random = random
        self._pace = pace
        self._all: dict[str, Callable[[], Awaitable[None]]] = {
            "master": self._kill_master,
            "slave": self._kill_slave,
            "master stands still": self._freeze_master,
            "slave stands still": self._freeze_slave,
            "one after the other": self._kill_one_after_the_other,
            "controller": self._kill_controller,
            "all": self._kill_all,
        }
        if has_hosts:
            self._all = {
                "master is cut off": partial(self._cut, "master", HostCluster.cut),
                "master is not heard": partial(self._cut, "master", HostCluster.mute),
                "master hears nothing": partial(self._cut, "master", HostCluster.deafen),
                "slave is cut off": partial(self._cut, "slave", HostCluster.cut),
                "slave is not heard": partial(self._cut, "slave", HostCluster.mute),
                "slave hears nothing": partial(self._cut, "slave", HostCluster.deafen),
                "controller is cut off": partial(self._cut, "controller", HostCluster.cut),
            }
        if only == "busy core":
            self._all["busy core"] = self._keep_a_core_busy
        if only:
            self._all = {kind: happens for kind, happens in self._all.items() if kind == only}
        self._first = kinds or tuple(random.sample([*self._all], len(self._all)))
        disk = random.choice(["ASYNC_FLUSH", "SYNC_FLUSH"])
        self._group = FailoverGroup(home, (TOPIC,), (WORKERS, READERS), has_hosts=has_hosts, flush_disk_type=disk)
        self._load = FailoverLoad(self._group, self.notes, random)
        self._checked = dict.fromkeys(QUEUES, 0)
        self._size = 0

    async def run(self, rounds: int, say: Callable[[str], None] = lambda text: None) -> None:
        """Let something happen in so many rounds. Raises Lost."""
        async with self._group, self._load.running():
            for number in range(rounds):
                began_s = time.monotonic()
                kind = self._first[number] if number < len(self._first) else self._random.choice([*self._all])
                self.current = f"round {number + 1}, {kind}"
                kind, outages = await self._round(kind)
                shown = ", ".join(f"{who} {outage_s:.2f} s" for who, outage_s in outages.items())
                say(
                    f"round {number + 1}: {kind}, {time.monotonic() - began_s:.1f} s"
                    + (f" (away for {shown})" if shown else "")
                    + f"; {self.told}"
                )
            self._checked = dict.fromkeys(QUEUES, 0)
            await self._check_places()

    @property
    def told(self) -> str:
        """What has happened so far, for people."""
        counts = ", ".join(f"{number} {name}" for name, number in sorted(self.notes.counts.items()))
        return f"{counts}, {len(self.notes.seen)} read, log {self._size}"

    def figures(self) -> list[str]:
        """Return a line for each kind of outage."""
        lines = []
        for (kind, who), found in sorted(self.outages.items()):
            p50, p99 = _percentiles(found)
            lines.append(f"{kind}, {who}: {len(found)} outages, p50 {p50:.2f}, p99 {p99:.2f}, max {max(found):.2f} s")
        return lines

    def too_long(self, p50_max_s: float, p99_max_s: float) -> list[str]:
        """Return the kinds of failures after which producers waited for longer."""
        waits = {kind: _percentiles(found) for (kind, who), found in self.outages.items() if who == "producers"}
        return [kind for kind, (p50, p99) in waits.items() if p50 > p50_max_s or p99 > p99_max_s]

    async def _round(self, kind: str) -> tuple[str, dict[str, float]]:
        notes, group = self.notes, self._group
        self._load.may_send.set()
        await self._more(self._random.randrange(20, self._pace))
        if kind == "controller":
            kind += " with" if await group.leading_controller() == await group.master() else " without"
        before, first = await group.state(), len(notes.failures_s)
        master_port = int((before.master_address or ":0").rpartition(":")[2])
        await self._all[kind.partition(" with")[0]]()
        await self._until_whole(kind)
        await self._more(20)
        self._load.may_send.clear()
        await until(lambda: not notes.in_flight, "every send is answered")
        outages = self._outages(notes.failures_s[first], master_port) if len(notes.failures_s) > first else {}
        for who, outage_s in outages.items():
            self.outages.setdefault((kind, who), []).append(outage_s)
        self._size = await group.check_copies()
        await self._check_places()
        notes.check_order()
        if notes.longest_send_s > SEND_S_MAX:
            raise Lost(f"a send took {notes.longest_send_s:.1f} s")
        return kind, outages

    async def _until_whole(self, kind: str) -> None:
        group = self._group
        try:
            await until(group.is_whole, f"after {kind!r} one leads, and all are in the sync set")
        except Lost as lost:
            raise Lost(f"{lost}: {await group.state()}, {[await group.epochs(member) for member in MEMBERS]}") from None

    def _outages(self, failed_s: float, master_port: int) -> dict[str, float]:
        """Return how long after the failure no producer, and no probe of a member, was answered SEND_OK."""
        found = {}
        for who, by_producer in (("producers", True), ("members", False)):
            later = [
                ack.answered_s - failed_s
                for ack in self.notes.acks
                if ack.by_producer is by_producer
                and ack.answered_s > failed_s
                and (ack.port != master_port or ack.began_s > failed_s)
            ]
            if later:
                found[who] = min(later)
        return found

    async def _more(self, enough: int) -> None:
        enough += self.notes.counts["acknowledged"]
        await until(lambda: self.notes.counts["acknowledged"] >= enough, "messages are acknowledged")

    async def _check_places(self) -> None:
        """Check that what was acknowledged or read, since the last time, is where it was, and commits. Raises Lost."""
        notes, group = self.notes, self._group
        master = await group.master()
        there: dict[Place, tuple[bytes, int]] = {}
        for queue_id, first in self._checked.items():
            records = await read(group.pool, group.cluster.brokers[master], TOPIC, queue_id, first)
            there |= {
                Place(TOPIC, queue_id, record.queue_offset): (bytes(record.body), record.physical_offset)
                for record in records
            }
        kept = [place for place in notes.kept if place.queue_offset >= self._checked[place.queue_id]]
        missing = [place for place in kept if there.get(place) != notes.kept[place]]
        if missing:
            raise Lost(f"{len(missing)} of {len(kept)} acknowledged messages are missing, as {missing[0]}")
        seen = [place for place in notes.seen if place.queue_offset >= self._checked[place.queue_id]]
        lost = [place for place in seen if place not in there or there[place][0] != notes.seen[place]]
        if lost:
            raise Lost(f"{len(lost)} of {len(seen)} messages that were read are missing, as {lost[0]}")
        for queue_id in QUEUES:
            known = await self._load.committed(master, queue_id)
            if known is not None:
                notes.is_committed(queue_id, *known)
            self._checked[queue_id] = max(
                (place.queue_offset for place in there if place.queue_id == queue_id), default=self._checked[queue_id]
            )

    async def _restart(self, *members: str) -> None:
        await asyncio.sleep(self._random.random() * RESTART_S_MAX)
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*map(self._group.cluster.start_broker, members))

    async def _a_slave(self) -> str:
        master = await self._group.master()
        return self._random.choice([member for member in MEMBERS if member != master])

    async def _kill(self, member: str) -> None:
        if member == await self._group.master():
            self.notes.fails()
        await self._group.cluster.kill_broker(member)

    async def _kill_master(self) -> None:
        master = await self._group.master()
        await self._kill(master)
        await self._restart(master)

    async def _kill_slave(self) -> None:
        slave = await self._a_slave()
        await self._kill(slave)
        await self._restart(slave)

    async def _kill_one_after_the_other(self) -> None:
        """Kill the master, start it again, and kill the next master or a slave soon after, maybe before all is well."""
        await self._kill_master()
        await asyncio.sleep(self._random.random())
        master = ""

        async def is_led() -> bool:
            nonlocal master
            master = await self._group.master()
            return True

        await until(is_led, "one leads")
        member = self._random.choice([master, *MEMBERS])
        await self._kill(member)
        await self._restart(member)

    async def _kill_controller(self) -> None:
        member = await self._group.leading_controller()
        await self._kill(member)
        await self._restart(member)

    async def _kill_all(self) -> None:
        self.notes.fails(ALL_COMMITS_LOST_S)
        await asyncio.gather(*map(self._group.cluster.kill_broker, MEMBERS))
        await self._restart(*MEMBERS)

    async def _freeze_master(self) -> None:
        master = await self._group.master()
        self.notes.fails()
        await self._freeze(master)

    async def _freeze_slave(self) -> None:
        await self._freeze(await self._a_slave())

    async def _keep_a_core_busy(self) -> None:
        """Let a program next to the brokers take all of a core that it can: the master has to stay."""
        before = await self._group.state()
        busy = await asyncio.create_subprocess_exec(sys.executable, "-c", "while True: pass")
        try:
            await asyncio.sleep(BUSY_S)
        finally:
            busy.kill()
            await busy.wait()
        after = await self._group.state()
        if (before.master, before.master_epoch) != (after.master, after.master_epoch):
            raise Lost(f"a failover without a failure: {before} became {after}")
        self.notes.counts["sets that changed"] += before.sync_set_epoch != after.sync_set_epoch

    async def _cut(self, who: str, cut: Callable[[HostCluster, str], Callable[[], None]]) -> None:
        """Let packets of a member be lost for some seconds."""
        group = self._group
        assert isinstance(group.cluster, HostCluster)
        master = await group.master()
        found = {"master": group.master, "slave": self._a_slave, "controller": group.leading_controller}
        member = await found[who]()
        if member == master:
            self.notes.fails()
        repair = cut(group.cluster, member)
        try:
            await asyncio.sleep(self._random.uniform(*FREEZE_S))
        finally:
            repair()

    async def _freeze(self, member: str) -> None:
        self._group.freeze(member)
        try:
            await asyncio.sleep(self._random.uniform(*FREEZE_S))
        finally:
            self._group.thaw(member)


def _percentiles(found: list[float]) -> tuple[float, float]:
    steps = quantiles(found, n=100, method="inclusive") if len(found) > 1 else found * 99
    return steps[49], steps[98]


def main() -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m crash.failover_kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="what happens in every round, such as 'master'")
    parser.add_argument("--hosts", action="store_true", help="a host for each member, whose cables are cut; needs root")
    parser.add_argument("--p50-s", type=float, default=inf, help="longer outages of producers are a failure")
    parser.add_argument("--p99-s", type=float, default=inf)
    parser.add_argument("--keep", type=Path, help="a directory where the stores and logs are left")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # brokers that are away are what this is about
    is_interrupted = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        kills = Kills(options.keep or Path(directory), Random(options.seed), only=options.only, has_hosts=options.hosts)
        try:
            asyncio.run(kills.run(options.rounds, lambda text: print(text, flush=True)))
        except (Lost, OrbitError, TimeoutError, KeyboardInterrupt) as lost:
            if is_interrupted:  # what was starting then may say that it died
                print("interrupted", file=sys.stderr)
                return 130
            print(f"seed {options.seed}, {kills.current}: {lost!r}")
            return 1
        finally:
            print("\n".join(kills.figures()), flush=True)
    print(f"{options.rounds} rounds, 0 lost: {'; '.join([*kills.figures(), kills.told])}")
    if kinds := kills.too_long(options.p50_s, options.p99_s):
        print(
            f"longer than p50 {options.p50_s} s, p99 {options.p99_s} s: {', '.join(kinds)}; {'; '.join(kills.figures())}"
        )
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
