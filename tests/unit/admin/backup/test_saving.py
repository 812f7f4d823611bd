"""Backups of brokers of ours: one that does not answer, messages that cannot be read, a disk that is full."""

import asyncio
import errno
from dataclasses import replace

import pytest

from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.admin.backup import saving
from orbitmq.admin.backup.directory import RecordsWriter, check_file, read_manifest
from orbitmq.admin.backup.manifest import Manifest, QueueFile
from orbitmq.admin.backup.saving import Saving, read_tables
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.broker.topics.retention import TopicRetention
from orbitmq.client.queue_reader import Pulled, QueueReader
from orbitmq.clock import now_ms
from orbitmq.errors import ConfigError, ConnectionFailed, InvalidArgument, RequestTimeout
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from waiting import until

pytestmark = pytest.mark.real

pull = QueueReader.pull


async def fill(cluster, count=10):
    async with AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
    async with Producer("makers", cluster.name_servers) as producer:
        for broker in cluster.brokers:
            for number in range(count):
                await producer.send(Message("orders", b"%d" % number), queue=MessageQueue("orders", broker, 0))


async def save(local, directory, **options):
    async with ClusterClients(local.name_servers, timeout_ms=1_000) as clients:
        return await Saving(clients, directory, "1", 1, **options).run()


@pytest.fixture
def deaf(monkeypatch):
    """Addresses of brokers that do not answer."""
    addresses = set()

    async def read(clients, address, *args):
        if address in addresses:
            raise ConnectionFailed(f"cannot connect to {address}")
        return await read_tables(clients, address, *args)

    monkeypatch.setattr(saving, "read_tables", read)
    return addresses


async def test_a_broker_that_does_not_answer_is_named_and_the_other_one_is_saved(tmp_path, deaf):
    async with LocalCluster(brokers=2) as cluster:
        await fill(cluster)
        deaf.add(cluster.brokers["broker-b"])
        manifest = await save(cluster, tmp_path / "b")
    (problem,) = manifest.problems
    assert problem.startswith("broker broker-b: nothing of it is saved: cannot connect")
    assert (set(manifest.clusters), manifest.message_count) == ({"broker-a"}, 10)


async def test_messages_that_their_topic_keeps_no_longer_are_not_saved(tmp_path, monkeypatch):
    async with LocalCluster() as cluster:
        await fill(cluster, 10)
        begin_ms = now_ms() + 1
        monkeypatch.setattr(
            TopicRetention, "shown_from_ms", lambda _, topic: begin_ms if topic.topic == "orders" else 0
        )
        await until(lambda: now_ms() >= begin_ms)
        await fill(cluster, 3)
        await cluster.restart_broker()
        manifest = await save(cluster, tmp_path / "b")
    assert (manifest.message_count, manifest.problems) == (3, ())
    assert [(file.begin, file.end) for file in manifest.files if isinstance(file, QueueFile)] == [(10, 13)]


async def test_a_broker_without_a_master_is_named(tmp_path, monkeypatch):
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
        await fill(cluster)
        found = await admin.cluster_info()
        lost = replace(found.brokers["broker-a"], broker_name="broker-b", addresses={1: "b:1"})
        info = replace(found, brokers={**found.brokers, "broker-b": lost})

        async def cluster_info(_admin):
            return info

        monkeypatch.setattr(AdminClient, "cluster_info", cluster_info)
        manifest = await save(cluster, tmp_path / "b")
    assert manifest.problems == ("the broker broker-b has no master now: nothing of it is saved",)
    assert manifest.message_count == 10


async def test_where_no_broker_answers_nothing_is_written(tmp_path, deaf):
    async with LocalCluster() as cluster:
        deaf.update(cluster.brokers.values())
        with pytest.raises(ConnectionFailed):
            await save(cluster, tmp_path / "b")
    assert not (tmp_path / "b").exists()


async def test_a_broker_that_stops_answering_leaves_what_came_before(tmp_path, monkeypatch):
    async def pull_until(reader, address, topic, queue_id, offset):
        if offset >= 4:
            raise RequestTimeout("no answer")
        records, _ = await pull(reader, address, topic, queue_id, offset)
        return Pulled(records[: len(records) * 4 // 10], 4)  # all ten have the same size

    monkeypatch.setattr(QueueReader, "pull", pull_until)
    async with LocalCluster() as cluster:
        await fill(cluster)
        manifest = await save(cluster, tmp_path / "b")
    assert "broker-a: it stopped answering at queue 0 of orders from offset 4 on" in manifest.problems[0]
    assert manifest.problems[1:] == ("broker broker-a: 4 of at least 10 messages are saved",)
    (file,) = manifest.queues
    assert (file.count, file.end) == (4, 10)
    check_file(tmp_path / "b", file)


async def test_messages_that_go_while_their_queue_is_saved_are_named(tmp_path, monkeypatch):
    async def pull_cut(reader, address, topic, queue_id, offset):
        return Pulled(b"", 6) if offset < 6 else await pull(reader, address, topic, queue_id, offset)

    monkeypatch.setattr(QueueReader, "pull", pull_cut)
    async with LocalCluster() as cluster:
        await fill(cluster)
        manifest = await save(cluster, tmp_path / "b")
    assert manifest.problems == ("broker broker-a, queue 0 of orders: no messages from offset 0 to 5: they are gone",)
    assert manifest.message_count == 4


async def test_a_record_that_cannot_be_read_is_left_out_and_named(tmp_path, monkeypatch):
    async def pull_damaged(reader, *queue):
        records, behind = await pull(reader, *queue)
        return Pulled(records.replace(b"5\x06orders", b"x\x06orders"), behind)

    monkeypatch.setattr(QueueReader, "pull", pull_damaged)
    async with LocalCluster() as cluster:
        await fill(cluster)
        manifest = await save(cluster, tmp_path / "b")
    (problem,) = manifest.problems
    assert "the message at offset 5 is left out: the body's checksum does not match" in problem
    assert manifest.message_count == 9


async def test_patterns_choose_topics_and_tables_may_come_alone(tmp_path):
    async with LocalCluster() as cluster:
        await fill(cluster)
        with pytest.raises(InvalidArgument, match=r"topic: 'ordres\*' .* fits a topic"):
            await save(cluster, tmp_path / "a", patterns=("ordres*",))
        assert not (tmp_path / "a").exists()
        assert (await save(cluster, tmp_path / "b", patterns=("ord*",))).message_count == 10
        alone = await save(cluster, tmp_path / "c", with_messages=False)
        assert (alone.message_count, alone.has_messages, alone.queues) == (0, False, ())
        assert read_manifest(tmp_path / "c") == alone


async def test_a_directory_in_use_and_an_unknown_cluster_are_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    async with LocalCluster() as cluster:
        with pytest.raises(ConfigError, match="a new or an empty directory"):
            await save(cluster, tmp_path)
        with pytest.raises(InvalidArgument, match="one of DefaultCluster"):
            await save(cluster, tmp_path / "b", cluster="none")


async def test_one_backup_of_two_into_the_same_directory_is_made(tmp_path):
    async with LocalCluster() as cluster:
        await fill(cluster)
        results = await asyncio.gather(*(save(cluster, tmp_path / "b") for _ in range(2)), return_exceptions=True)
        (error,) = (result for result in results if isinstance(result, BaseException))
        (made,) = (result for result in results if isinstance(result, Manifest))
    assert str(error) == f"another run is under way in {tmp_path / 'b'}"
    assert read_manifest(tmp_path / "b") == made


async def test_a_full_disk_ends_a_backup_without_a_manifest(tmp_path, monkeypatch):
    class Full(RecordsWriter):
        def write(self, records):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saving, "RecordsWriter", Full)
    async with LocalCluster() as cluster:
        await fill(cluster)
        with pytest.raises(OSError, match="No space left on device"):
            await save(cluster, tmp_path / "b")
    assert not (tmp_path / "b" / "manifest.json").exists()
