"""kill -9 of a broker's process under load: what was acknowledged is there, in order; running clients go on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from crash.broker_process import BrokerProcess
from crash.kills import KINDS, SETTINGS, Kills
from orbitmq import Message, Producer, PullConsumer
from orbitmq.errors import ClientError
from orbitmq.net.loop import run
from orbitmq.testing import LocalCluster
from seeds import SEED

TOPIC = "orders"


@pytest.mark.parametrize(
    ("flush", "kills"), [pytest.param("SYNC_FLUSH", 12, marks=pytest.mark.proof), ("ASYNC_FLUSH", 3)]
)
async def test_no_acknowledged_message_is_lost_or_reordered_by_a_kill(tmp_path: Path, flush: str, kills: int) -> None:
    """The process dies, the machine runs: even ASYNC_FLUSH keeps all, since the kernel has the pages."""
    print(f"ORBITMQ_SEED={SEED}")
    with BrokerProcess(tmp_path, {"flushDiskType": flush, **SETTINGS}) as broker:
        load = Kills(broker, Random(SEED))
        await load.run(kills)
    assert load.counts["kills"] == kills
    assert all(load.counts[kind] for kind in KINDS)


def test_a_running_producer_and_consumer_go_on_by_themselves(tmp_path: Path) -> None:
    """Broker killed, broker restarted, NameServer killed: only servers are touched."""

    async def harness() -> None:
        settings = {"flush_disk_type": "SYNC_FLUSH", "mapped_file_size_commit_log": 256 * 1024}
        async with LocalCluster(processes=True, data_dir=tmp_path, settings=settings) as cluster:
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

    run(asyncio.wait_for(harness(), 120))
