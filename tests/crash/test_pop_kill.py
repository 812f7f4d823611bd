"""kill -9 of a broker that consumers pop from: what was acknowledged never comes again, and nothing is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from orbitmq import Message, Producer, SimpleConsumer
from orbitmq.errors import ClientError
from orbitmq.testing import LocalCluster
from seeds import SEED

COUNT = 120
KILLS = 2
INVISIBLE_MS = 1_500


class Ledger:
    """What was sent, what was acknowledged with the broker's word for it, and what came after that."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.maybe: set[bytes] = set()
        """Acks whose answer a kill has cut off, or that may have come too late: it is unknown."""
        self.broken: list[bytes] = []


async def consume(cluster: LocalCluster, random: Random, ledger: Ledger, wanted: set[bytes]) -> None:
    """Receive and acknowledge until everything is done; one message of four is left for another time."""
    async with SimpleConsumer("g", cluster.name_servers, invisible_ms=INVISIBLE_MS) as consumer:
        consumer.subscribe("orders")
        while not wanted <= ledger.acknowledged | ledger.maybe:
            began = asyncio.get_running_loop().time()
            try:
                messages = await consumer.receive(random.randint(1, 32), timeout_ms=500)
            except ClientError:
                await asyncio.sleep(0.05)
                continue
            bodies = {message.body for message in messages}
            ledger.broken += bodies & ledger.acknowledged
            done = [message for message in messages if random.random() < 0.75]
            try:
                await consumer.ack(done)
                is_known = asyncio.get_running_loop().time() - began < INVISIBLE_MS / 1000
            except ClientError:
                is_known = False
            if is_known:
                ledger.acknowledged |= {message.body for message in done}
            else:
                ledger.maybe |= {message.body for message in done} - ledger.acknowledged


@pytest.mark.parametrize("flush", [pytest.param("ASYNC_FLUSH", marks=pytest.mark.proof), "SYNC_FLUSH"])
def test_what_was_acknowledged_never_comes_again_and_nothing_is_lost(tmp_path: Path, flush: str) -> None:
    random = Random(SEED)

    async def harness() -> None:
        settings = {"flush_disk_type": flush}
        async with LocalCluster(processes=True, data_dir=tmp_path, settings=settings) as cluster:
            ledger = Ledger()
            bodies = [b"%d" % number for number in range(COUNT)]
            async with Producer("p", cluster.name_servers) as producer:
                for body in bodies:
                    await producer.send(Message("orders", body))
            consuming = asyncio.ensure_future(consume(cluster, random, ledger, set(bodies)))
            for number in range(KILLS):
                while len(ledger.acknowledged | ledger.maybe) < COUNT * number // (KILLS + 1) and not consuming.done():
                    await asyncio.sleep(0.001)
                await cluster.kill_broker()
                await cluster.start_broker()
            await consuming
            assert ledger.broken == []

    asyncio.run(harness())
