"""`orbitmq backup` and `orbitmq restore`: a cluster of ours in a directory, and in another cluster again."""

import asyncio
import json
import os
import signal
import stat
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256

import pytest

from children import freeze
from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.admin.backup.directory import read_manifest
from orbitmq.admin.backup.manifest import encode_manifest
from orbitmq.admin.backup.messages import sent_properties
from orbitmq.admin.backup.saving import read_tables
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.groups import ResetTo
from orbitmq.cli.main import main
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.testing.processes import ServerProcess
from orbitmq.wire.bodies.groups import GroupConfig
from unit.admin.backup.support import stored
from unit.admin.support import bury

pytestmark = pytest.mark.real

COUNT = 40


async def orbitmq(cluster, *words):
    """Call the command line; return its exit code."""
    return await asyncio.to_thread(main, [*map(str, words), "-n", cluster.name_servers])


async def fill(cluster):
    """Make topics, groups and messages of all kinds, and let a group read a part of them."""
    async with AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=3, write_queue_count=3))
        fifo = {"+message.type": "FIFO"}
        await admin.create_topic(
            TopicConfig(topic="steps", read_queue_count=1, write_queue_count=1, order=True, attributes=fifo)
        )
        await admin.create_topic(TopicConfig(topic="empty", read_queue_count=2, write_queue_count=2))
        await admin.create_group(GroupConfig(group="billing", retry_times_max=3))
        async with Producer("makers", cluster.name_servers) as producer:
            for number in range(COUNT):
                body = f"body {number} ".encode() * (800 if number % 7 == 0 else 1)
                message = Message("orders", body, "new", [f"k{number}"], {"own": f"välue {number}"}, flag=number)
                await producer.send(message)
            for number in range(5):
                await producer.send(Message("steps", f"step {number}".encode(), sharding_key="s"))
        await bury(cluster.name_servers, cluster.brokers, "billing", "orders", b"dead")
        await admin.reset_group("billing", "orders", ResetTo.offset(3))
        await admin.reset_group("billing", "steps", ResetTo.latest())
        await admin.reset_group("billing", "empty", ResetTo.earliest())


async def contents(cluster):
    """Every message of users' topics: by broker, topic and queue, what its sender said of it, in order."""
    found = {}
    async with ClusterClients(cluster.name_servers) as clients:
        own = await clients.admin.own_topics()
        for broker, address in cluster.brokers.items():
            for topic, config in (await read_tables(clients, address, own)).topics.items():
                for queue_id in range(config.read_queue_count):
                    found[broker, topic, queue_id] = [
                        (
                            bytes(record.body),
                            record.flag,
                            record.born_at_ms,
                            record.reconsume_times,
                            sent_properties(record.properties),
                        )
                        for record in await stored(clients, address, topic, queue_id)
                    ]
    return {queue: messages for queue, messages in found.items() if messages}


async def lags(cluster, group="billing"):
    async with AdminClient(cluster.name_servers) as admin:
        return {queue: place.lag for queue, place in (await admin.group_lag(group)).items()}


async def settings(cluster):
    async with ClusterClients(cluster.name_servers) as clients:
        own = await clients.admin.own_topics()
        tables = [await read_tables(clients, address, own) for address in cluster.brokers.values()]
        return [(table.topics, table.groups) for table in tables]


@asynccontextmanager
async def saved(directory):
    """A filled cluster of two brokers with a backup of it."""
    async with LocalCluster(brokers=2) as cluster:
        await fill(cluster)
        assert await orbitmq(cluster, "backup", directory) == 0
        yield cluster


async def test_a_fresh_cluster_has_every_message_setting_and_lag_again(tmp_path):
    async with saved(tmp_path / "b") as source:
        expected = await contents(source), await settings(source), await lags(source)
    async with LocalCluster(brokers=2) as target:
        assert await orbitmq(target, "restore", tmp_path / "b") == 0
        assert (await contents(target), await settings(target), await lags(target)) == expected
    assert sum(map(len, expected[0].values())) == COUNT + 5 + 2
    assert not (tmp_path / "b" / "restore-progress.json").exists()


async def test_only_its_owner_can_read_a_backup(tmp_path):
    async with saved(tmp_path / "b"):
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "b").iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o700


async def test_a_directory_without_manifest_is_refused(tmp_path, capfd):
    async with saved(tmp_path / "b") as cluster:
        (tmp_path / "b" / "manifest.json").unlink()
        assert await orbitmq(cluster, "restore", tmp_path / "b") == 1
        assert "an interrupted backup" in capfd.readouterr().err


async def test_queues_with_messages_are_refused_and_a_dry_run_changes_nothing(tmp_path, capfd):
    async with saved(tmp_path / "b") as cluster:
        before = await contents(cluster)
        assert await orbitmq(cluster, "restore", tmp_path / "b") == 1
        assert "has messages already (--append" in capfd.readouterr().err
        assert await contents(cluster) == before
    async with LocalCluster(brokers=2) as target:
        assert await orbitmq(target, "restore", tmp_path / "b", "--dry-run", "-o", "json") == 0
        document = json.loads(capfd.readouterr().out)
        assert sum(row["kind"] == "messages" for row in document["plan"]) == len(before)
        assert await contents(target) == {}


async def test_a_message_that_is_left_out_is_named_and_the_exit_code_says_so(tmp_path, capfd):
    async with LocalCluster() as source:
        async with Producer("makers", source.name_servers) as producer:
            for size in (10, 2_000, 30):
                await producer.send(Message("orders", b"x" * size))
        assert await orbitmq(source, "backup", tmp_path / "b") == 0
    async with LocalCluster(settings={"max_message_size": 1_000}) as target:
        assert await orbitmq(target, "restore", tmp_path / "b") == 1
        assert "go on with --resume --skip-refused to leave it out" in capfd.readouterr().err
        assert await orbitmq(target, "restore", tmp_path / "b", "--resume", "--skip-refused", "-o", "json") == 1
        document = json.loads(capfd.readouterr().out)
        (skipped,) = document["skipped"]
        assert "with 2000 bytes is refused: " in skipped
        assert (document["problems"], document["is_done"]) == ([], True)
        assert sum(map(len, (await contents(target)).values())) == 2


async def test_settings_are_shown_without_control_characters(tmp_path, capfd):
    async with saved(tmp_path / "b") as cluster:
        path, manifest = tmp_path / "b" / "tables-1.json", tmp_path / "b" / "manifest.json"
        content = path.read_bytes().replace(b'"SINGLE_TAG"', b'"\\u001b[2J"')
        whole, checksum = read_manifest(tmp_path / "b"), sha256(content).hexdigest()
        files = tuple(
            replace(file, size=len(content), sha256=checksum) if file.name == path.name else file
            for file in whole.files
        )
        path.write_bytes(content)
        manifest.write_bytes(encode_manifest(replace(whole, files=files)))
        assert await orbitmq(cluster, "restore", tmp_path / "b", "--append") == 0
    shown = "".join(capfd.readouterr())
    assert "topicFilterType is SINGLE_TAG, not \\x1b[2J" in shown
    assert "\x1b" not in shown


async def test_a_broker_that_hangs_is_named_and_what_the_other_one_has_comes_back(tmp_path, capfd):
    async with LocalCluster(brokers=2, processes=True) as source:
        await fill(source)
        expected = {queue: found for queue, found in (await contents(source)).items() if queue[0] == "broker-a"}
        hanging = source._broker("broker-b")._service
        assert isinstance(hanging, ServerProcess)
        assert hanging._process is not None
        pid = hanging._process.pid
        freeze(pid)
        try:
            assert await orbitmq(source, "backup", tmp_path / "b", "--timeout-ms", 500) == 1
        finally:
            os.kill(pid, signal.SIGCONT)
        assert "orbitmq: broker broker-b: nothing of it is saved: " in capfd.readouterr().err
    async with LocalCluster() as target:
        assert await orbitmq(target, "restore", tmp_path / "b") == 0
        assert "not in the backup: broker broker-b" in capfd.readouterr().err
        assert await contents(target) == expected
