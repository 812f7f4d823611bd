"""Attacks on the port where slaves follow: none makes a master answer a send with 0 that no slave has.

`python -m crash.replica_adversary` sends bytes of no slave, lets an old master with another history come back, and forges reports
of a true slave.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

from children import freeze
from crash.forging_proxy import Proxy
from crash.replicas import Lost, Node, Replicas, background, until
from orbitmq import ClientError, Message, Producer, SendStatus
from orbitmq.ha.slave import REPORT

CONNECTIONS = 10_000
BATCH_COUNT = 50
TOPIC = "orders"
BODY_SIZE = 200
NO_COPY = re.compile(r"this log (?:ends at|has another record at) (\d+)")
Say = Callable[[str], None]


class Sends:
    """Messages of one size that are sent to the master until the block ends, and how they are answered."""

    def __init__(self, replicas: Replicas) -> None:
        self.answers: Counter[SendStatus] = Counter()
        self.kept: set[bytes] = set()
        self._replicas = replicas

    async def send(self, count: int, mark: bytes, size: int = BODY_SIZE) -> None:
        """Send so many messages."""
        async with Producer("makers", self._replicas.name_servers, retries=0) as producer:
            for number in range(count):
                await self._send(producer, b"%s%06d" % (mark, number) + b"x" * size)

    @asynccontextmanager
    async def running(self, mark: bytes):
        """Send messages until the block ends."""
        async with background(self._go_on(mark, 0), self._go_on(mark, 1)):
            yield self

    async def more(self, count: int, status: SendStatus | None = None) -> None:
        """Wait until so many more sends are answered, or answered so."""

        def so_far() -> int:
            return self.answers.total() if status is None else self.answers[status]

        enough = so_far() + count
        await until(lambda: so_far() >= enough, f"{count} answers more")

    async def _go_on(self, mark: bytes, sender: int) -> None:
        number = sender
        async with Producer("makers", self._replicas.name_servers, retries=0) as producer:
            while True:
                number += 2
                with suppress(ClientError):
                    await self._send(producer, b"%s%06d" % (mark, number) + b"x" * BODY_SIZE)
                await asyncio.sleep(0.005)

    async def _send(self, producer: Producer, body: bytes) -> None:
        status = (await producer.send(Message(TOPIC, body))).status
        self.answers[status] += 1
        if status is SendStatus.SEND_OK:
            self.kept.add(body)

    def check_none_kept(self, while_what: str) -> None:
        """Raises Lost: a send was answered 0."""
        if self.kept:
            raise Lost(f"{len(self.kept)} of {self.answers.total()} sends were answered 0 while {while_what}")


async def strangers(home: Path, random: Random, connections: int) -> str:
    """Connect as no slave does, first to a master without a slave, and then while its slave stands still."""
    counts: Counter[SendStatus] = Counter()
    async with Replicas(home, (TOPIC,), slave_timeout=200) as replicas:
        for has_slave in (False, True):
            if has_slave:
                await replicas.new_slave()
                freeze(replicas.slave.pid)
            async with Sends(replicas).running(b"s") as sends:
                await sends.more(5)
                sockets = _sockets(replicas.master)
                # Of a slave that stands still, what came before it did may be confirmed yet.
                sends.kept.clear()
                await _attack(replicas, random, connections // 2)
                await sends.more(5)
                sends.check_none_kept("others than slaves have connected")
                await until(lambda: _sockets(replicas.master) <= sockets, "the connections are closed")  # noqa: B023
            counts += sends.answers
        os.kill(replicas.slave.pid, signal.SIGCONT)
        async with Sends(replicas).running(b"t") as sends:
            await sends.more(5, SendStatus.SEND_OK)
    return f"{connections:,} connections, 0 of {counts.total():,} sends answered 0"


def _sockets(node: Node) -> int:
    """Count a broker's open sockets: files of its store come and go."""
    count, folder = 0, Path(f"/proc/{node.pid}/fd")
    for descriptor in folder.iterdir():
        with suppress(OSError):  # it is closed by now
            count += os.readlink(descriptor).startswith("socket:")
    return count


async def _attack(replicas: Replicas, random: Random, connections: int) -> None:
    """Open so many connections to the port of slaves, and close them."""
    host, port = await replicas.ha_address(replicas.master)

    async def connect() -> None:
        end = (await replicas.status(replicas.master))["masterCommitLogMaxOffset"] if random.random() < 0.2 else 1_000
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_greeting(random, end))
                await writer.drain()
                if random.random() < 0.3:  # else it is gone before the master has read it, maybe
                    async with asyncio.timeout(0.2):
                        while await reader.read(65_536):
                            pass
            finally:
                writer.close()

    while connections > 0:
        await asyncio.gather(*[connect() for _ in range(min(BATCH_COUNT, connections))])
        connections -= BATCH_COUNT


def _greeting(random: Random, end: int) -> bytes:
    kind = random.randrange(8)
    if kind == 0:
        return random.randbytes(3)
    if kind == 1:
        return random.randbytes(random.randrange(1, 100))
    if kind == 2:
        return REPORT.pack(0) + REPORT.pack(end)
    return REPORT.pack((0, end, end + 1, random.randrange(end + 1), 2**62, -1)[kind - 3] if kind < 8 else end)


async def old_master(home: Path, sizes: tuple[int, int], *, is_told: bool) -> str:
    """Let an old master come back whose last messages the new master does not have.

    Args:
        sizes: of the last ten messages of the old master, and of the new one: 2 is larger than 1.
        is_told: NameServers tell it where the port is; else its haMasterAddress.
    """
    async with Replicas(home, (TOPIC,)) as replicas:
        await replicas.new_slave()
        sends = Sends(replicas)
        await sends.send(20, b"a")
        await replicas.wait_in_sync()
        await replicas.slave.stop()
        await replicas.master.stop()
        fork = len(replicas.slave.log())
        await replicas.master.start("ASYNC_MASTER")
        await sends.send(10, b"o", sizes[0] * BODY_SIZE)
        await replicas.master.stop()
        old = await replicas.promote()
        sends = Sends(replicas)
        await sends.send(10, b"n", sizes[1] * BODY_SIZE)
        before, after = len(old.log()), len(replicas.master.log())
        if (before > after, before < after) != (sizes[0] > sizes[1], sizes[0] < sizes[1]):
            raise Lost(f"the logs are not as they were to be: {before} and {after} bytes")
        place = await _is_refused(replicas, old, sends, is_told=is_told)
        if not fork <= place <= before:
            raise Lost(f"the old master names {place}, and the logs differ from {fork} on, up to {before}")
    relation = "as long" if before == after else "longer" if before > after else "shorter"
    return f"an old master with a log {relation} is refused at {place}; 0 of {sends.answers.total()} sends answered 0"


async def _is_refused(replicas: Replicas, old: Node, sends: Sends, *, is_told: bool) -> int:
    """Start an old master as a slave, and see that it does not follow; return the place that its log names. Raises Lost."""
    before, said = old.log(), len(old.said())
    ha_address = ":".join(map(str, await replicas.ha_address(replicas.master)))
    await old.start("SLAVE", **({} if is_told else {"ha_master_address": ha_address}))
    async with sends.running(b"m"):
        await until(lambda: NO_COPY.search(old.said(), said), "the old master says why it does not follow")
        while len(replicas.master.log()) < 2 * len(
            before
        ):  # it asks again each second, and this log grows past its own
            await sends.more(20)
        await sends.more(20)
    sends.check_none_kept("an old master has come back")
    if (await replicas.status(replicas.master))["haConnectionInfo"] or old.log() != before:
        raise Lost("an old master follows, or has changed its log")
    await old.stop()
    found = NO_COPY.search(old.said(), said)
    assert found is not None, "it was there above"
    return int(found[1])


async def forged_reports(home: Path, random: Random, times: int) -> str:
    """Forge reports of a true slave: more than it was sent."""
    async with Replicas(home, (TOPIC,)) as replicas, Proxy(random) as proxy:
        proxy.stand_before(await replicas.ha_address(replicas.master))
        replicas.slave = replicas.new_node()
        await replicas.slave.start("SLAVE", ha_master_address=proxy.address)
        await replicas.wait_in_sync()
        kept: set[bytes] = set()
        for number in range(times):
            async with Sends(replicas).running(b"%d-" % number) as sends:
                await sends.more(10, SendStatus.SEND_OK)
                proxy.is_armed, forged = True, proxy.forged
                said = len(replicas.master.said())
                await until(lambda: proxy.forged > forged, "a report is forged")  # noqa: B023
                await until(lambda: "says that it has" in replicas.master.said()[said:], "the connection ends")  # noqa: B023
                before = len(sends.kept)
                await sends.more(10)
                if len(sends.kept) > before:
                    raise Lost(f"{len(sends.kept) - before} sends were answered 0 that the slave was not sent")
                proxy.is_armed = False
                await sends.more(10, SendStatus.SEND_OK)
            kept |= sends.kept
        await replicas.master.kill()
        await replicas.promote()
        there = {bytes(record.body) for queue_id in range(2) for record in await replicas.read(TOPIC, queue_id)}
        if kept - there:
            raise Lost(f"{len(kept - there)} of {len(kept)} messages that were answered 0 are not on the slave")
    return f"{proxy.forged} reports of a true slave forged, {len(kept):,} sends answered 0, all on the slave"


async def attack(home: Path, random: Random, *, share: float = 1, say: Say = lambda text: None) -> list[str]:
    """Run all attacks, or a share of them; return what was seen. Raises Lost."""
    attacks: list[Callable[[Path], Awaitable[str]]] = [
        lambda home: strangers(home, random, max(200, round(CONNECTIONS * share))),
        *(
            lambda home, sizes=sizes, is_told=is_told: old_master(home, sizes, is_told=is_told)
            for sizes, is_told in (((1, 1), True), ((1, 2), True), ((2, 1), True), ((1, 1), False), ((2, 1), False))
        ),
        lambda home: forged_reports(home, random, max(1, round(10 * share))),
    ]
    seen = []
    for number, one in enumerate(attacks):
        began_s = time.monotonic()
        (home / str(number)).mkdir()
        seen.append(await one(home / str(number)))
        say(f"{seen[-1]} ({time.monotonic() - began_s:.1f} s)")
    return seen


def main() -> int:
    """Run it from the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m crash.replica_adversary", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # what is refused is what this is about
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        try:
            seen = asyncio.run(
                attack(
                    Path(directory), Random(options.seed), share=options.share, say=lambda text: print(text, flush=True)
                )
            )
        except Lost as lost:
            print(f"seed {options.seed}: {lost}")
            return 1
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
    print("; ".join(seen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
