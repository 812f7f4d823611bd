"""kill -9 of a broker's process under load: what was acknowledged is there, in order; running clients go on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from orbitmq import Message, Producer, PullConsumer
from orbitmq.errors import ClientError
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire.headers import PullMessage, PullSysFlag, SendMessageV2
from orbitmq.wire.messages.record import iter_records

TOPIC = "orders"
QUEUES = range(4)
IN_FLIGHT = 8
KILLS = 20
SETTINGS = {
    "flush_disk_type": "SYNC_FLUSH",
    "mapped_file_size_commit_log": 256 * 1024,  # several roll-overs happen under the kills
    "mapped_file_size_consume_queue": 20_000,
}


class Writers:
    """One connection per queue, each with numbered messages in flight; remembers what was acknowledged."""

    def __init__(self) -> None:
        self.next_number = dict.fromkeys(QUEUES, 0)
        self.acknowledged: dict[int, list[int]] = {queue_id: [] for queue_id in QUEUES}

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    async def write(self, address: str, queue_id: int) -> None:
        """Send until the connection breaks."""
        pool = ConnectionPool()
        try:
            await asyncio.gather(*[self._send_on(pool, address, queue_id) for _ in range(IN_FLIGHT)])
        except ClientError:
            pass
        finally:
            await pool.close()

    async def _send_on(self, pool: ConnectionPool, address: str, queue_id: int) -> None:
        connection = await pool.connect(address)
        while True:
            number = self.next_number[queue_id]
            self.next_number[queue_id] += 1
            answer = await connection.request(send(queue_id), b"%d" % number + b" " * 100, timeout_ms=20_000)
            if answer.code == 0:
                self.acknowledged[queue_id].append(number)


def send(queue_id: int) -> SendMessageV2:
    return SendMessageV2(
        producer_group="p", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=len(QUEUES),
        queue_id=queue_id, sys_flag=0, born_at_ms=1, flag=0, properties="TAGS\x01a\x02",
    )  # fmt: skip


class Readers:
    """What the broker has, read on from where the last look ended."""

    def __init__(self) -> None:
        self.offsets = dict.fromkeys(QUEUES, 0)
        self.numbers: dict[int, list[int]] = {queue_id: [] for queue_id in QUEUES}

    async def read(self, address: str) -> None:
        pool = ConnectionPool()
        try:
            for queue_id in QUEUES:
                while (found := await self._read_some(pool, address, queue_id)) is not None:
                    self.numbers[queue_id] += found
        finally:
            await pool.close()

    async def _read_some(self, pool: ConnectionPool, address: str, queue_id: int) -> list[int] | None:
        header = PullMessage(
            consumer_group="g", topic=TOPIC, queue_id=queue_id, queue_offset=self.offsets[queue_id], count_max=1000,
            sys_flag=PullSysFlag.SUBSCRIPTION, commit_offset=0, suspend_timeout_ms=0, subscription="*", sub_version=0,
        )  # fmt: skip
        answer = await pool.request(address, header)
        if answer.code != 0:
            assert answer.code == 19, answer.remark
            return None
        records = list(iter_records(answer.body))
        assert [record.queue_offset for record in records] == list(
            range(self.offsets[queue_id], self.offsets[queue_id] + len(records))
        )
        self.offsets[queue_id] += len(records)
        return [int(bytes(record.body)) for record in records]


def is_ascending(numbers: Iterable[int]) -> bool:
    found = list(numbers)
    return all(first < second for first, second in pairwise(found))


@pytest.mark.parametrize(("flush", "kills", "seed"), [("SYNC_FLUSH", KILLS, 1), ("ASYNC_FLUSH", 5, 2)])
def test_no_acknowledged_message_is_lost_or_reordered_by_a_kill(
    tmp_path: Path, flush: str, kills: int, seed: int
) -> None:
    """The process dies, the machine lives: even ASYNC_FLUSH keeps all, since the kernel has the pages."""
    print(f"seed {seed}")
    random = Random(seed)

    async def scene() -> None:
        writers, readers = Writers(), Readers()
        settings = SETTINGS | {"flush_disk_type": flush}
        async with LocalCluster(processes=True, data_dir=tmp_path, settings=settings) as cluster:
            for kill in range(kills):
                address = cluster.brokers["broker-a"]
                tasks = [asyncio.create_task(writers.write(address, queue_id)) for queue_id in QUEUES]
                enough = writers.count + random.randrange(1, 500)
                while writers.count < enough and not any(task.done() for task in tasks):
                    await asyncio.sleep(0)
                assert writers.count >= enough
                await cluster.kill_broker()
                await asyncio.gather(*tasks)
                await cluster.start_broker()
                await readers.read(cluster.brokers["broker-a"])
                for queue_id in QUEUES:
                    stored = readers.numbers[queue_id]
                    lost = set(writers.acknowledged[queue_id]) - set(stored)
                    assert not lost, f"kill {kill}, queue {queue_id}: lost {sorted(lost)[:10]}"
                    assert is_ascending(stored), f"kill {kill}, queue {queue_id}: reordered or doubled"

    run(scene())


def test_a_running_producer_and_consumer_go_on_by_themselves(tmp_path: Path) -> None:
    """Broker killed, broker restarted, NameServer killed: nobody but the servers is touched."""

    async def scene() -> None:
        async with LocalCluster(processes=True, data_dir=tmp_path, settings=SETTINGS) as cluster:
            async with (
                Producer("p", cluster.name_servers) as producer,
                PullConsumer("g", cluster.name_servers) as consumer,
            ):
                sent: list[str] = []
                seen: set[str] = set()
                assigned = False

                async def send_some(count: int) -> None:
                    goal = len(sent) + count
                    while len(sent) < goal:
                        try:
                            result = await producer.send(Message(TOPIC, b"%d" % len(sent)))
                        except ClientError:
                            await asyncio.sleep(0.05)  # the servers are away: nothing to wait for but them
                        else:
                            sent.append(result.message_id)

                async def see_all() -> None:
                    nonlocal assigned
                    if not assigned:
                        queues = await consumer.queues(TOPIC)
                        consumer.assign(queues)
                        for queue in queues:
                            consumer.seek(queue, 0)
                        assigned = True
                    while not seen >= set(sent):
                        seen.update(message.message_id for message in await consumer.poll(timeout_ms=500))

                await send_some(20)
                await see_all()
                for disturb in (
                    cluster.kill_broker,
                    cluster.start_broker,
                    cluster.kill_name_server,
                    cluster.start_name_server,
                    cluster.restart_broker,
                    cluster.restart_name_server,
                ):
                    await disturb()
                    if disturb != cluster.kill_broker:
                        await send_some(20)
                        await see_all()

    run(asyncio.wait_for(scene(), 120))
