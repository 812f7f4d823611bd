"""kill -9 of a SYNC_MASTER or of its slave under a mixed load, and promotion of the slave: `python -m crash.replica_kills`.

A slave that was killed follows again. When the master was killed, the slave's store serves in its stead, and has everything that
was promised; the old master's store is put away, or comes back as a slave, and follows only if its log is a copy.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from children import freeze
from crash.replica_claims import check_prefix, check_repeated
from crash.replica_load import (
    DECIDED,
    GROUP,
    KEYED,
    LATER,
    POP_RETRY,
    POPPED,
    QUEUES,
    READERS,
    RETRY,
    TOPICS,
    Load,
    Place,
    Promises,
)
from crash.replicas import AUDITORS, WAIT_S, Lost, Node, Replicas, until
from orbitmq import Decision
from orbitmq.broker.sending.answers import UNIQUE_KEY
from orbitmq.clock import now_ms
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import OffsetResponse, QueryConsumerOffset
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import Record

T = TypeVar("T")

ROUNDS = 50
KINDS = ("slave", "master", "both", "frozen")
"""Who is killed: both is first the slave and a little later the master; frozen: the slave stands still, and both are killed."""
LONG_SHARE = 0.3
FROZEN_S = 0.4
"""Less than slaveTimeout: all sends of that time wait for the slave still when the master is killed."""
TORN_SIZE = 4_096
"""Bytes of a record that a kill may have torn: recovery takes them off the log."""
NO_COPY = re.compile(r"this log (ends|has another record) at \d+")


class Kills:
    """The rounds, and what is claimed after each.

    Args:
        pace: messages that are acknowledged between two kills, at most, without those of long rounds.
        long_share: of the rounds, those in which delayed messages are delivered for longer than a slave takes to ask its master.
    """

    def __init__(
        self,
        home: Path,
        random: Random,
        *,
        pace: int = 300,
        long_share: float = LONG_SHARE,
    ) -> None:
        self.promises = Promises()
        self.counts: Counter[str] = self.promises.counts
        self._random = random
        self._pace = pace
        self._long_share = long_share
        self._numbers = count(1)
        self._promotions: list[int] = []
        """Of each: since when the master was away, or the slave before it."""
        self._replicas = Replicas(
            home,
            (*TOPICS, RETRY, POP_RETRY),
            (AUDITORS, GROUP, READERS),
            flush_disk_type=random.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
        )

    async def run(self, rounds: int, say=lambda text: None) -> None:
        """Kill in so many rounds, the slave in the first, a master in the second. Raises Lost."""
        async with self._replicas as replicas:
            await replicas.new_slave()
            for number in range(rounds):
                began_s = time.monotonic()
                kind = "slave" if number == 0 else self._random.choice(KINDS[number == 1 :])
                await self._round(kind)
                self.counts[f"{kind} killed"] += 1
                say(f"round {number + 1}: {kind} killed, {time.monotonic() - began_s:.1f} s; {self.told}")
            await self._finish()

    @property
    def told(self) -> str:
        """What has happened so far, for people."""
        promises = self.promises
        sizes = {
            "delayed": len(promises.later),
            "popped": len(promises.done),
            "transactions": len(promises.decisions),
            "returned": len(promises.returned),
        }
        return ", ".join(f"{number} {name}" for name, number in (self.counts + Counter(sizes)).items())

    async def _round(self, kind: str) -> None:
        replicas = self._replicas
        async with Load(replicas, self.promises, self._random, self._numbers).running():
            await self._more("acknowledged", self._random.randrange(20, self._pace))
            if self._random.random() < self._long_share:
                await self._some_deliveries_are_old()
            away_ms = now_ms()
            if kind == "master":
                await replicas.master.kill()
            elif kind == "frozen":
                freeze(replicas.slave.pid)
                await asyncio.sleep(FROZEN_S)
                await replicas.master.kill()
                await replicas.slave.kill()
            else:
                await replicas.slave.kill()
                await self._more("on the master alone", self._random.randrange(1, 20))
            read_until_ms = away_ms if kind == "both" else now_ms()
            if kind == "both":
                await replicas.master.kill()
            if kind == "slave":
                await replicas.slave.start("SLAVE")
                await replicas.wait_in_sync()
                await self._more("acknowledged", 20)
        if kind == "slave":
            await replicas.wait_in_sync()
            check_prefix(replicas.slave.log(), replicas.master.log())
        else:
            await self._promote(away_ms, read_until_ms)

    async def _some_deliveries_are_old(self) -> None:
        """Let the load run until the reader has had a delayed message for longer than a slave takes to ask its master."""
        began_ms = now_ms()

        def is_old() -> bool:
            since_ms = now_ms() - 5_000
            return any(began_ms <= at_ms < since_ms for at_ms in self.promises.delivered_ms.values())

        await until(is_old, "a delayed message is delivered")
        self.counts["long rounds"] += 1

    async def _more(self, what: str, enough: int) -> None:
        enough += self.counts[what]
        await until(lambda: self.counts[what] >= enough, f"{enough} messages {what}")

    async def _promote(self, away_ms: int, read_until_ms: int) -> None:
        replicas = self._replicas
        old = await replicas.promote()
        self._promotions.append(away_ms)
        await self._check_offsets()
        await self._check_places(read_until_ms)
        if not (self._random.random() < 0.5 and await self._comes_back(old)):
            await replicas.put_away(old)
            await replicas.new_slave()

    async def _check_offsets(self) -> None:
        """Check that no group is beyond the end of a queue. Raises Lost."""
        for group, topic in ((READERS, KEYED), (READERS, POPPED), (READERS, LATER), (GROUP, POPPED)):
            for queue_id in QUEUES:
                ask = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue_id)
                answer = await self._replicas.ask(self._replicas.master, ask)
                if answer.code != 0:
                    continue  # it has none yet
                offset, end = (
                    decode_header(OffsetResponse, answer.ext_fields).offset,
                    await self._replicas.end(topic, queue_id),
                )
                self.counts["offsets compared"] += 1
                if offset > end:
                    raise Lost(f"group {group} is at {offset} of {topic} {queue_id}, which ends at {end}")

    async def _check_places(self, read_until_ms: int) -> None:
        """Check that what was acknowledged, and what was read, is where it was. Raises Lost."""
        promises = self.promises
        there = {
            Place(topic, queue_id, record.queue_offset): bytes(record.body)
            for topic in (KEYED, POPPED)
            for queue_id in QUEUES
            for record in await self._replicas.read(topic, queue_id)
        }
        missing = [place for place, body in promises.kept.items() if there.get(place) != body]
        if missing:
            raise Lost(f"{len(missing)} of {len(promises.kept)} acknowledged messages are missing, as {missing[0]}")
        lost = [
            place
            for place, (body, at_ms) in promises.seen.items()
            if at_ms < read_until_ms and body not in promises.alone and there.get(place) != body
        ]
        if lost:
            raise Lost(f"{len(lost)} of {len(promises.seen)} messages that were read are missing, as {lost[0]}")
        promises.seen.clear()

    async def _comes_back(self, old: Node) -> bool:
        """Start the old master's store as a slave; say whether it follows. Raises Lost: it does so, and is not a copy."""
        replicas, before, size = self._replicas, old.log(), len(old.said())
        await old.start("SLAVE")

        async def is_decided() -> bool:
            end = (await replicas.status(replicas.master))["masterCommitLogMaxOffset"]
            return NO_COPY.search(old.said()[size:]) is not None or await replicas.is_followed_to(end)

        await until(is_decided, f"the old master in {old.home} follows, or says why not")
        if NO_COPY.search(old.said()[size:]):
            after = old.log()
            if not before.startswith(after) or len(before) - len(after) > TORN_SIZE:
                raise Lost(f"the old master in {old.home} is not a copy, and has changed its log")
            self.counts["old masters refused"] += 1
            return False
        replicas.slave = old
        await replicas.wait_in_sync()
        check_prefix(old.log(), replicas.master.log())
        self.counts["old masters followed"] += 1
        return True

    async def _finish(self) -> None:
        """Wait until all that is to come has come, and compare it. Raises Lost."""
        promises = self.promises
        load = Load(self._replicas, promises, self._random, self._numbers)
        committed = {id_ for id_, decision in promises.decisions.items() if decision is Decision.COMMIT}
        async with load.deciding():
            await self._wait_for(POPPED, load.pop(is_last=True))
            await self._until_there(DECIDED, committed, _message_id)
            await self._until_there(RETRY, promises.returned, _body)
            await self._until_there(LATER, promises.later, _body)
        came = Counter(map(_message_id, await self._all_of(DECIDED)))
        wrong, twice = came.keys() - committed, [id_ for id_, times in came.items() if times > 1]
        if wrong or twice:
            raise Lost(
                f"{len(twice)} of {len(committed)} transactions came twice, {len(wrong)} that were not committed"
            )
        deliveries = [(_body(record), record.stored_at_ms) for record in await self._all_of(LATER)]
        self.counts["deliveries lost and repeated"] = check_repeated(
            deliveries, promises.delivered_ms, self._promotions
        )

    async def _wait_for(self, what: str, job: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(job, WAIT_S)
        except TimeoutError:
            promises = self.promises
            left = promises.to_pop - promises.done - promises.maybe_done
            raise Lost(
                f"{len(left)} of {len(promises.to_pop)} messages of {what} are not popped: {sorted(left)[:5]}"
            ) from None

    async def _until_there(self, topic: str, wanted: set[T], key: Callable[[Record], T]) -> None:
        """Wait until a topic has all that it is to have. Raises Lost."""
        left = wanted

        async def has_all() -> bool:
            nonlocal left
            left = wanted - set(map(key, await self._all_of(topic)))
            return not left

        try:
            await until(has_all, topic)
        except Lost:
            raise Lost(f"{len(left)} of {len(wanted)} messages have not come to {topic}: {list(left)[:5]}") from None

    async def _all_of(self, topic: str) -> list[Record]:
        return [record for queue_id in QUEUES for record in await self._replicas.read(topic, queue_id)]


def _body(record: Record) -> bytes:
    return bytes(record.body)


def _message_id(record: Record) -> str:
    return (find_property(record.properties, UNIQUE_KEY) or b"").decode()


def main() -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m crash.replica_kills", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # brokers that are away are what this is about
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        load = Kills(Path(directory), Random(options.seed))
        try:
            asyncio.run(load.run(options.rounds, lambda text: print(text, flush=True)))
        except Lost as lost:
            print(f"seed {options.seed}: {lost}")
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
    print(f"{options.rounds} rounds, 0 lost: {load.told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
