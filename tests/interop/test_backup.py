"""A backup of Java's cluster, restored to ours; and one of ours, restored to Java's."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

from called import call_command
from interop.peers import JavaClients, java_servers, message
from orbitmq import Message, Producer, TransactionProducer
from orbitmq.admin import AdminClient
from orbitmq.admin.backup.messages import sent_properties
from orbitmq.admin.backup.saving import read_tables
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.groups import ResetTo
from orbitmq.client.queue_reader import QueueReader
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.messages.message_id import parse_offset_message_id
from unit.admin.backup.support import stored
from waiting import until


def orbitmq(name_servers: str, *words: object) -> CompletedProcess[str]:
    return call_command(*words, name_servers=name_servers)


def clean(done: CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def prepare(name_servers: str) -> None:
    async with AdminClient(name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=3, write_queue_count=3))
        fifo = {"+message.type": "FIFO"}
        await admin.create_topic(TopicConfig(topic="steps", read_queue_count=1, write_queue_count=1, attributes=fifo))
        await admin.create_group(GroupConfig(group="billing", retry_times_max=3))


async def send_special(name_servers: str) -> None:
    """Send what brokers do something with before they store it: a delay, a time, a transaction; and give two messages back."""
    async with AdminClient(name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="special", read_queue_count=1, write_queue_count=1))
        ((_, address),) = (await admin.masters()).items()
    async with TransactionProducer("deciders", name_servers) as producer:
        async with producer.transaction(Message("special", b"decided")):
            pass
    async with Producer("makers", name_servers) as producer, ClusterClients(name_servers) as clients:
        await producer.send(Message("special", b"late", delay_level=1, keys=["late"]))
        await producer.send(Message("special", b"timed", delay_ms=1_000))
        for level in (-1, 1):
            sent = await producer.send(Message("special", b"given back"))
            _, offset = parse_offset_message_id(sent.offset_message_id)
            back = ConsumerSendBack(physical_offset=offset, group="billing", delay_level=level, origin_topic="special")
            assert (await clients.request(address, back)).code == 0
        for topic, count in (("special", 5), ("%DLQ%billing", 1), ("%RETRY%billing", 1)):
            await until(partial(_reaches, QueueReader(clients.request), address, topic, count), 0.05)


async def _reaches(reader: QueueReader, address: str, topic: str, count: int) -> bool:
    return (await reader.bounds(address, topic, 0)).end >= count


async def set_back(name_servers: str) -> None:
    async with AdminClient(name_servers) as admin:
        await admin.reset_group("billing", "orders", ResetTo.offset(2))
        await admin.reset_group("billing", "steps", ResetTo.latest())
        await admin.reset_group("billing", "special", ResetTo.offset(4))


async def contents(name_servers: str) -> tuple[object, ...]:
    """Every message of users' topics, the settings, and the lag of the group; brokers' names left out."""
    found: dict[tuple[str, int], list[object]] = {}
    async with ClusterClients(name_servers) as clients, AdminClient(name_servers) as admin:
        own = await admin.own_topics()
        ((_, address),) = (await admin.masters()).items()
        tables = await read_tables(clients, address, own)
        for topic, config in tables.topics.items():
            for queue_id in range(config.read_queue_count):
                for record in await stored(clients, address, topic, queue_id):
                    said = bytes(record.body), record.flag, record.born_at_ms, sent_properties(record.properties)
                    found.setdefault((topic, queue_id), []).append(said)
        lag = {(at.topic, at.queue_id): place.lag for at, place in (await admin.group_lag("billing")).items()}
        groups = {name: (config.retry_times_max, config.consume_enable) for name, config in tables.groups.items()}
    return found, tables.topics, groups, lag


def test_java_s_cluster_comes_to_ours_and_back_to_java_s(java: JavaClients, tmp_path: Path) -> None:
    with java_servers(tmp_path / "first") as (name_servers, broker):
        run(prepare(name_servers))
        producer = java.producer("makers", name_servers)
        for number in range(20):
            body = f"body {number} ".encode() * (1_000 if number % 7 == 0 else 1)
            producer.send(message("orders", body, tag="t", keys=f"k{number}", properties={"own": "välue"}))
        producer.send(*(message("steps", f"step {number}".encode()) for number in range(5)))
        producer.stop()
        run(send_special(name_servers))
        run(set_back(name_servers))
        expected = run(contents(name_servers))
        listed = clean(orbitmq(name_servers, "backup", tmp_path / "java"))
        assert listed.splitlines()[1].split()[:5] == [broker.name, "5", "1", "7", "32"], listed
    moved = ("--map-broker", f"{broker.name}=broker-a")
    with LocalCluster.running() as ours:
        clean(orbitmq(ours.name_servers, "restore", tmp_path / "java", *moved))
        assert run(contents(ours.name_servers)) == expected
        clean(orbitmq(ours.name_servers, "backup", tmp_path / "ours"))
    back = ("--map-broker", f"broker-a={broker.name}")
    with java_servers(tmp_path / "second") as (name_servers, _):
        clean(orbitmq(name_servers, "restore", tmp_path / "ours", *back))
        assert run(contents(name_servers)) == expected
        again = orbitmq(name_servers, "restore", tmp_path / "ours", *back)
        assert again.returncode == 1
        assert "has messages already" in again.stderr
        consumer = java.consumer("billing", name_servers, "orders")
        assert len(consumer.wait_for_messages(15)) == 15  # the one that was given back as well
        consumer.stop()
