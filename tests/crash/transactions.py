"""kill -9 of producers and brokers in the midst of transactions: `python -m crash.transactions` is the producer.

Producers decide by chance, and write each decision into a file before they tell the broker: that is their database. A producer
that is killed leaves transactions open; the next one is asked about them, and looks into the file. In the end every message
whose commit stands there has been delivered once, and no other message has.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

from children import environment
from crash.kills import Lost
from orbitmq import ClientError, Decision, Message, PullConsumer, StoredMessage, TransactionProducer
from orbitmq.model.topic import HALF_TOPIC
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import GetMaxOffset, OffsetResponse, QueryConsumerOffset

TOPIC = "orders"
WORKERS = 8
SETTINGS = {
    "transaction_time_out": 100,
    "transaction_check_interval": 200,
    "transaction_check_max": 1_000_000,
    "transaction_op_batch_interval": 1_000,
    "mapped_file_size_commit_log": 1024 * 1024,
    "flush_consumer_offset_interval": 500,
}
LETTERS = {Decision.COMMIT: "C", Decision.ROLLBACK: "R"}


class Database:
    """The decisions of all producers, one a line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        text = path.read_text()
        # The last line of a producer that was killed may be cut short: that decision was not sent.
        self.decisions = {line[1:]: line[0] for line in text.split("\n")[:-1]}
        if text and not text.endswith("\n"):
            os.write(self._file, b"\n")

    def write(self, message_id: str, decision: Decision) -> None:
        self.decisions[message_id] = LETTERS[decision]
        os.write(self._file, f"{LETTERS[decision]}{message_id}\n".encode())

    @property
    def commits(self) -> list[str]:
        return sorted(message_id for message_id, letter in self.decisions.items() if letter == "C")


async def produce(name_servers: str, path: Path, seed: int, workers: int) -> None:
    """Begin and end transactions until this process is killed; print a line for each."""
    database, own, random = Database(path), set[str](), Random(seed)

    async def check(message: StoredMessage) -> Decision:
        letter = database.decisions.get(message.message_id)
        if letter is not None:
            return Decision.COMMIT if letter == "C" else Decision.ROLLBACK
        return Decision.UNKNOWN if message.message_id in own else Decision.ROLLBACK

    async def work(producer: TransactionProducer) -> None:
        while True:
            with suppress(ClientError):
                async with producer.transaction(Message(TOPIC, b"x" * 100)) as transaction:
                    own.add(transaction.sent.message_id)
                    if random.random() < 0.1:
                        await asyncio.sleep(0.15)  # long enough to be asked about
                    decision = random.choice([Decision.COMMIT, Decision.ROLLBACK])
                    database.write(transaction.sent.message_id, decision)
                    transaction.decide(decision if random.random() < 0.8 else Decision.UNKNOWN)
                print("ended", flush=True)
                continue
            await asyncio.sleep(0.05)  # the broker is away: nothing to wait for but it

    # A send that is tried twice makes two transactions, and its database knows them as one.
    async with TransactionProducer("makers", name_servers, check=check, topics=[TOPIC], retries=0) as producer:
        print("open", flush=True)
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work(producer))
            group.create_task(asyncio.to_thread(sys.stdin.read))


class Maker:
    """A producer's process."""

    def __init__(self, name_servers: str, path: Path, seed: int, workers: int = WORKERS) -> None:
        self._arguments = (name_servers, str(path), str(seed), str(workers))

    async def __aenter__(self) -> Maker:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "crash.transactions", *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=environment(),
        )  # fmt: skip
        await self.wait_for(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    async def wait_for(self, lines: int) -> None:
        assert self._process.stdout is not None
        for _ in range(lines):
            assert await self._process.stdout.readline(), "the producer ended by itself"


class Kills:
    """Producers and a broker that are killed, and what is left."""

    def __init__(self, home: Path, random: Random, *, flush: str, pace: int) -> None:
        self.counts: Counter[str] = Counter()
        self._path = home / "decisions"
        self._random = random
        self._pace = pace
        self._cluster = LocalCluster(
            processes=True, data_dir=home / "brokers", settings={**SETTINGS, "flush_disk_type": flush}
        )

    async def run(self, kills: int) -> None:
        """Kill so often, and compare. Raises Lost."""
        async with self._cluster as cluster:
            for number in range(kills):
                victim = ("both", "broker", "producer")[number % 3]
                async with Maker(cluster.name_servers, self._path, self._random.randrange(2**32)) as maker:
                    await maker.wait_for(self._random.randrange(1, self._pace))
                    if victim != "producer":
                        await cluster.kill_broker()
                    if victim == "broker":
                        await cluster.start_broker()
                        await maker.wait_for(self._random.randrange(1, self._pace))
                if victim == "both":
                    await cluster.start_broker()
                self.counts[victim] += 1
            async with Maker(cluster.name_servers, self._path, 0, workers=0):
                await self._wait_until_nothing_is_open()
            await self._compare()

    async def _wait_until_nothing_is_open(self) -> None:
        (address,) = self._cluster.brokers.values()
        pool = ConnectionPool()
        done, end = -1, 0
        while done != end:
            await asyncio.sleep(0.1)  # the rounds of the broker's checks
            kept = QueryConsumerOffset(consumer_group="CID_RMQ_SYS_TRANS", topic=HALF_TOPIC, queue_id=0)
            answer = await pool.request(address, kept)
            done = decode_header(OffsetResponse, answer.ext_fields).offset if answer.code == 0 else -1
            answer = await pool.request(address, GetMaxOffset(topic=HALF_TOPIC, queue_id=0))
            end = decode_header(OffsetResponse, answer.ext_fields).offset
        await pool.close()

    async def _compare(self) -> None:
        delivered: list[str] = []
        async with PullConsumer("readers", self._cluster.name_servers) as reader:
            queues = await reader.queues(TOPIC)
            count = sum(end - begin for begin, end in (await reader.offsets(queues)).values())
            reader.assign(queues)
            for queue in queues:
                reader.seek(queue, 0)
            while len(delivered) < count:
                delivered += [message.message_id for message in await reader.poll(timeout_ms=1_000)]
        database = Database(self._path)
        self.counts["transactions"], self.counts["delivered"] = len(database.decisions), len(delivered)
        commits = database.commits
        lost, wrong = set(commits) - set(delivered), set(delivered) - set(commits)
        twice = [message_id for message_id, times in Counter(delivered).items() if times > 1]
        if lost or wrong or twice:
            raise Lost(f"{len(lost)} messages lost, {len(wrong)} delivered and not committed, {len(twice)} twice")


if __name__ == "__main__":
    logging.disable()  # brokers that are away are what this is about
    name_servers, path, seed, workers = sys.argv[1:]
    asyncio.run(produce(name_servers, Path(path), int(seed), int(workers)))
