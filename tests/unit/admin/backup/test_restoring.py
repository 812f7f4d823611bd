"""Restores into brokers of ours: interrupted ones, into queues with messages, under other names."""

import asyncio
import os
import signal
import sys

import pytest

from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.admin.access import AccessClient, acl_of
from orbitmq.admin.backup.plan import RestoreOptions
from orbitmq.admin.backup.restoring import Restoring
from orbitmq.admin.backup.saving import Saving
from orbitmq.admin.backup.sending import PROGRESS_NAME, save_progress
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.groups import ResetTo
from orbitmq.admin.topics import TopicChange
from orbitmq.client.queue_reader import QueueReader
from orbitmq.errors import ConfigError, ConnectionFailed, InvalidArgument, JobFailed, RemoteRefused, StoreError
from orbitmq.job_directory import locked
from orbitmq.model.access import AccessDecision, AccessRule, Action, Resource, ResourceType, User
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CreateTopic, SendMessageV2
from orbitmq.wire.signature import Credentials
from unit.admin.backup.support import stored
from waiting import until

pytestmark = pytest.mark.real


async def create_topic(cluster, queue_count=1, broker=None):
    async with AdminClient(cluster.name_servers) as admin:
        config = TopicConfig(topic="orders", read_queue_count=queue_count, write_queue_count=queue_count)
        await admin.create_topic(config, broker=broker)


async def send(cluster, *bodies, broker="broker-a"):
    async with Producer("makers", cluster.name_servers) as producer:
        for body in bodies:
            await producer.send(Message("orders", body), queue=MessageQueue("orders", broker, 0))


async def save(cluster, directory, **security):
    async with ClusterClients(cluster.name_servers, **security) as clients:
        return await Saving(clients, directory, "1", 1).run()


async def back_up(directory, count, committed=0):
    """Save a cluster with so many messages in one queue."""
    async with LocalCluster() as cluster:
        await create_topic(cluster)
        await send(cluster, *(b"%d" % number for number in range(count)))
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_group(GroupConfig(group="billing"))
            await admin.reset_group("billing", "orders", ResetTo.offset(committed))
        return await save(cluster, directory)


async def restore(cluster, directory, *, options=None, **fields):
    async with ClusterClients(cluster.name_servers) as clients:
        options = options or RestoreOptions()
        return await Restoring(clients, directory, options, directory / PROGRESS_NAME, **fields).run()


async def bodies(cluster, broker="broker-a"):
    async with ClusterClients(cluster.name_servers) as clients:
        return [bytes(record.body) for record in await stored(clients, cluster.brokers[broker], "orders")]


async def lag(cluster):
    async with AdminClient(cluster.name_servers) as admin:
        return sum(place.lag for place in (await admin.group_lag("billing", "orders")).values())


class Stopped(Exception):
    """A restore ends here."""


def stop_at(count):
    def progress(done, _total):
        if done == count:
            raise Stopped

    return progress


@pytest.mark.parametrize("is_noted", [True, False])
async def test_a_stopped_restore_goes_on_without_doubling_messages(tmp_path, monkeypatch, is_noted):
    await back_up(tmp_path / "b", 50, committed=45)
    async with LocalCluster() as cluster:
        if not is_noted:  # as after a kill: what was sent since the last save is in the queue alone
            saves = []

            def save_first(*args):
                if not saves:
                    saves.append(args)
                    save_progress(*args)

            monkeypatch.setattr("orbitmq.admin.backup.sending.save_progress", save_first)
        with pytest.raises(Stopped):
            await restore(cluster, tmp_path / "b", progress=stop_at(20))
        monkeypatch.undo()
        assert len(await bodies(cluster)) == 20
        await send(cluster, b"of another producer")
        with pytest.raises(ConfigError, match="Go on with --resume"):
            await restore(cluster, tmp_path / "b")
        report = await restore(cluster, tmp_path / "b", is_resumed=True)
        expected = [b"%d" % number for number in range(50)]
        assert await bodies(cluster) == [*expected[:20], b"of another producer", *expected[20:]]
        assert (report.problems, await lag(cluster)) == ((), 5)
    assert not (tmp_path / "b" / PROGRESS_NAME).exists()


async def test_a_killed_restore_goes_on_without_doubling_messages(tmp_path):
    count = 3_000
    await back_up(tmp_path / "b", count)
    async with LocalCluster() as cluster:
        words = ["-m", "orbitmq", "restore", str(tmp_path / "b"), "-n", cluster.name_servers]
        process = await asyncio.create_subprocess_exec(sys.executable, *words)

        async def is_under_way():
            try:
                return process.returncode is not None or len(await bodies(cluster)) > 100
            except RemoteRefused:  # the topic is not there yet
                return False

        await until(is_under_way, 0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL
        assert 100 < len(await bodies(cluster)) < count
        await restore(cluster, tmp_path / "b", is_resumed=True)
        assert await bodies(cluster) == [b"%d" % number for number in range(count)]


async def test_the_progress_of_another_backup_is_refused(tmp_path):
    await back_up(tmp_path / "b", 10)
    async with LocalCluster() as cluster:
        with pytest.raises(Stopped):
            await restore(cluster, tmp_path / "b", progress=stop_at(5))
        await back_up(tmp_path / "c", 10)
        (tmp_path / "b" / PROGRESS_NAME).rename(tmp_path / "c" / PROGRESS_NAME)
        with pytest.raises(ConfigError, match="of a restore of this backup"):
            await restore(cluster, tmp_path / "c", is_resumed=True)


async def test_one_restore_of_a_directory_runs_at_a_time(tmp_path):
    await back_up(tmp_path / "b", 10)
    async with LocalCluster() as cluster:
        results = await asyncio.gather(*(restore(cluster, tmp_path / "b") for _ in range(2)), return_exceptions=True)
        (error,) = (result for result in results if isinstance(result, BaseException))
        assert str(error) == f"another run is under way in {tmp_path / 'b'}"
        assert len(await bodies(cluster)) == 10
        async with ClusterClients(cluster.name_servers) as clients:
            with locked(tmp_path / "b", "b"), pytest.raises(JobFailed, match="another run is under way"):
                await Restoring(clients, tmp_path / "b", RestoreOptions(), tmp_path / "p").run(dry_run=True)


async def test_a_pattern_that_fits_nothing_is_refused(tmp_path):
    await back_up(tmp_path / "b", 10)
    async with LocalCluster() as cluster:
        with pytest.raises(InvalidArgument, match=r"topic: 'ordres' .* fits a topic"):
            await restore(cluster, tmp_path / "b", options=RestoreOptions(patterns=("orders", "ordres")))


async def test_a_topic_that_the_target_refuses_is_named(tmp_path):
    class Refusing(ClusterClients):
        async def request(self, address, header, body=b""):
            if isinstance(header, CreateTopic):
                return Command(code=1, remark="no such attribute")
            return await super().request(address, header, body)

    await back_up(tmp_path / "b", 10)
    async with LocalCluster() as cluster, Refusing(cluster.name_servers) as clients:
        with pytest.raises(StoreError, match=r"broker-a takes no topic orders: .* answered code 1: no such attribute"):
            await Restoring(clients, tmp_path / "b", RestoreOptions(), tmp_path / "p").run()


async def test_a_resumed_restore_is_for_the_same_messages(tmp_path):
    await back_up(tmp_path / "b", 10)
    async with LocalCluster() as cluster:
        with pytest.raises(Stopped):
            await restore(cluster, tmp_path / "b", progress=stop_at(5))
        with pytest.raises(ConfigError, match="the same choice of messages"):
            await restore(cluster, tmp_path / "b", options=RestoreOptions(patterns=("x*",)), is_resumed=True)


async def test_messages_go_behind_others_and_groups_that_read_those_stay(tmp_path):
    await back_up(tmp_path / "b", 10, committed=4)
    async with LocalCluster() as cluster:
        await create_topic(cluster)
        await send(cluster, b"x", b"y", b"z")
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_group(GroupConfig(group="billing"))
            await admin.reset_group("billing", "orders", ResetTo.offset(1))
        refused = await restore(cluster, tmp_path / "b")
        assert "has messages already" in refused.problems[0]
        assert await bodies(cluster) == [b"x", b"y", b"z"]
        report = await restore(cluster, tmp_path / "b", options=RestoreOptions(append=True))
        assert (await bodies(cluster))[:4] == [b"x", b"y", b"z", b"0"]
        assert (report.problems, report.offset_count, await lag(cluster)) == ((), 0, 12)


async def test_a_message_that_the_target_never_takes_is_named_and_left_out_when_that_is_wanted(tmp_path):
    async with LocalCluster() as cluster:
        await create_topic(cluster)
        await send(cluster, b"0", b"1" * 2_000, b"2", b"3" * 2_000)
        async with AdminClient(cluster.name_servers) as admin:
            await admin.create_group(GroupConfig(group="billing"))
            await admin.reset_group("billing", "orders", ResetTo.offset(1))
        await save(cluster, tmp_path / "b")
    async with LocalCluster(settings={"max_message_size": 1_000}) as cluster:
        refused = await restore(cluster, tmp_path / "b")
        assert "the message at offset 1 with 2000 bytes is refused: " in refused.problems[0]
        assert "body length limit 1000 bytes" in refused.problems[0]
        report = await restore(cluster, tmp_path / "b", options=RestoreOptions(skip_refused=True), is_resumed=True)
        assert (report.problems, len(report.skipped), report.queues[0].skipped) == ((), 2, 2)
        assert "queue 0 of orders on broker-a: the message at offset 3 with 2000 bytes" in report.skipped[1]
        assert (await bodies(cluster), await lag(cluster)) == ([b"0", b"2"], 1)
    assert not (tmp_path / "b" / PROGRESS_NAME).exists()


async def test_a_broker_s_part_goes_to_the_one_that_is_named(tmp_path):
    await back_up(tmp_path / "b", 5, committed=2)
    async with LocalCluster(brokers=2) as cluster:
        await restore(cluster, tmp_path / "b", options=RestoreOptions(brokers={"broker-a": "broker-b"}))
        assert len(await bodies(cluster, "broker-b")) == 5
        assert await lag(cluster) == 3


async def test_a_damaged_file_is_named_before_anything_is_sent(tmp_path):
    manifest = await back_up(tmp_path / "b", 5)
    path = tmp_path / "b" / manifest.queues[0].name
    path.write_bytes(path.read_bytes()[:-1])
    async with LocalCluster() as cluster:
        with pytest.raises(StoreError, match=r"messages-1\.gz is damaged"):
            await restore(cluster, tmp_path / "b")
        async with AdminClient(cluster.name_servers) as admin:
            assert "orders" not in await admin.topic_list()


async def test_a_group_goes_on_at_the_same_message_when_its_queue_had_been_cut(tmp_path, monkeypatch):
    find_bounds = QueueReader.bounds

    async def cut(reader, *queue):
        return (await find_bounds(reader, *queue))._replace(begin=6)

    async with LocalCluster() as cluster:
        await create_topic(cluster)
        await send(cluster, *(b"%d" % number for number in range(10)))
        async with AdminClient(cluster.name_servers) as admin:
            for group, committed in (("billing", 8), ("slow", 2)):
                await admin.create_group(GroupConfig(group=group))
                await admin.reset_group(group, "orders", ResetTo.offset(committed))
        monkeypatch.setattr(QueueReader, "bounds", cut)
        await save(cluster, tmp_path / "b")
        monkeypatch.undo()
    async with LocalCluster() as cluster:
        await restore(cluster, tmp_path / "b")
        assert await bodies(cluster) == [b"6", b"7", b"8", b"9"]
        async with AdminClient(cluster.name_servers) as admin:
            queue = MessageQueue("orders", "broker-a", 0)
            places = [(await admin.group_lag(group))[queue].committed for group in ("billing", "slow")]
        assert places == [2, 0]


async def test_users_and_rules_come_back_when_they_are_asked_for(tmp_path):
    root = Credentials("root", "root-secret")
    on = {
        "authentication_enabled": True,
        "authorization_enabled": True,
        "init_authentication_user": '{"username":"root","password":"root-secret"}',
    }
    rule = AccessRule(Resource(ResourceType.TOPIC, "orders"), (Action.PUB,), (), AccessDecision.ALLOW)
    async with LocalCluster(settings=on) as cluster:
        async with AccessClient(cluster.name_servers, credentials=root) as access:
            await access.create_user("anna", UserChange("pw"))
            await access.add_rule(acl_of("anna", rule))
            expected = await access.users(), await access.rules()
        await save(cluster, tmp_path / "b", security=ClientSecurity(root))
    async with LocalCluster(settings=on) as cluster:
        async with ClusterClients(cluster.name_servers, security=ClientSecurity(root)) as clients:
            path = tmp_path / "progress"
            plain = await Restoring(clients, tmp_path / "b", RestoreOptions(), path).run()
            assert (plain.plan.tables, plain.problems) == ((), ())
            await Restoring(clients, tmp_path / "b", RestoreOptions(users=True), path).run()
        async with AccessClient(cluster.name_servers, credentials=root) as access:
            assert (await access.users(), await access.rules()) == expected
            assert User("anna", "pw") in expected[0]["broker-a"]


@pytest.mark.parametrize("is_interrupted", [False, True])
async def test_a_topic_that_is_only_read_has_its_messages_and_is_only_read_again(tmp_path, is_interrupted):
    async with LocalCluster() as cluster:
        await create_topic(cluster)
        await send(cluster, b"0", b"1", b"2")
        async with AdminClient(cluster.name_servers) as admin:
            await admin.change_topic("orders", TopicChange(perm=4))
        await save(cluster, tmp_path / "b")
    async with LocalCluster() as cluster:
        if is_interrupted:
            with pytest.raises(Stopped):
                await restore(cluster, tmp_path / "b", progress=stop_at(1))
        assert (await restore(cluster, tmp_path / "b", is_resumed=is_interrupted)).problems == ()
        assert await bodies(cluster) == [b"0", b"1", b"2"]
        async with AdminClient(cluster.name_servers) as admin:
            assert (await admin.topic_configs("orders"))["broker-a"].perm == 4


async def test_a_broker_that_stops_answering_is_named_and_the_rest_is_sent_later(tmp_path):
    class Tired(ClusterClients):
        count = 0

        async def request(self, address, header, body=b""):
            if isinstance(header, SendMessageV2):
                self.count += 1
                if self.count > 5:
                    raise ConnectionFailed(f"cannot connect to {address}")
            return await super().request(address, header, body)

    await back_up(tmp_path / "b", 10, committed=7)
    async with LocalCluster() as cluster:
        path = tmp_path / "progress"
        async with Tired(cluster.name_servers) as tired:
            report = await Restoring(tired, tmp_path / "b", RestoreOptions(), path).run()
        assert report.problems == (
            f"queue 0 of orders on broker-a: cannot connect to {cluster.brokers['broker-a']}; go on with --resume",
            "queue 0 of orders on broker-a: 5 of 10 messages are sent",
        )
        assert (report.offset_count, report.queues[0].sent) == (0, 5)
        async with ClusterClients(cluster.name_servers) as clients:
            report = await Restoring(clients, tmp_path / "b", RestoreOptions(), path, is_resumed=True).run()
        assert (report.problems, await lag(cluster), len(await bodies(cluster))) == ((), 3, 10)
