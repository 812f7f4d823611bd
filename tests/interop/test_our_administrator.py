"""Our administrator's client and command line with Java's broker and NameServer: every call, and every command of theirs."""

from __future__ import annotations

import json
from inspect import getmembers, iscoroutinefunction
from typing import Any

import pytest

from interop.conftest import JavaCluster
from interop.peers import wait_until_dispatched
from orbitmq import Message, Producer, PushConsumer, StoredMessage
from orbitmq.admin import AdminClient, ResetTo, TopicChange
from orbitmq.cli.main import main
from orbitmq.errors import InvalidArgument, RouteNotFound
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.wire.bodies.groups import GroupConfig, ProducerInfo
from waiting import until

CALLS = {name for name, _ in getmembers(AdminClient, iscoroutinefunction) if not name.startswith("_")}
TIMEOUT_MS = 30_000


class WatchedAdmin(AdminClient):
    """An administrator that notes which of its calls were made."""

    def __init__(self, *values: Any, **others: Any) -> None:
        self.made: set[str] = set()
        super().__init__(*values, **others)

    def __getattribute__(self, name: str) -> Any:
        if name in CALLS:
            self.made.add(name)
        return super().__getattribute__(name)


def test_a_java_cluster_answers_every_call(java_cluster: JavaCluster, name: str) -> None:
    async def work() -> set[str]:
        admin = WatchedAdmin(java_cluster.name_server.address, timeout_ms=TIMEOUT_MS)
        async with admin:
            await make_a_topic(admin, java_cluster, name)
            sent = await send(java_cluster, name)
            await look_at_topics(admin, java_cluster, name, sent)
            await look_at_the_broker(admin, java_cluster, name)
            await lead_a_group(admin, java_cluster, name)
            await talk_with_a_client(admin, java_cluster, name, sent)
            await admin.delete_topic(name)
            with pytest.raises(RouteNotFound):
                await admin.topic_configs(name)
            with pytest.raises(RouteNotFound):
                await admin.known_topic_configs(name)
        return admin.made

    assert run(work()) == CALLS


async def make_a_topic(admin: AdminClient, java: JavaCluster, name: str) -> None:
    config = TopicConfig(topic=name, read_queue_count=1, write_queue_count=1, attributes={"+message.type": "NORMAL"})
    assert await admin.create_topic(config, cluster=java.broker.cluster) == {java.broker.name: java.broker.address}
    change = TopicChange(read_queue_count=2, attributes={"+message.type": "FIFO", "+reserve.time": "1"})
    (changed,) = (await admin.change_topic(name, change)).values()
    assert (changed.read_queue_count, changed.write_queue_count, changed.perm) == (2, 1, 6)
    assert changed.attributes == {"message.type": "FIFO", "reserve.time": "1"}
    (changed,) = (
        await admin.change_topic(name, TopicChange(attributes={"-message.type": "", "-reserve.time": ""}, order=True))
    ).values()
    assert (changed.read_queue_count, changed.order, changed.attributes) == (2, True, {})


async def send(java: JavaCluster, name: str) -> str:
    async with Producer(f"{name}-producers", java.name_server.address, send_timeout_ms=TIMEOUT_MS) as producer:
        results = [await producer.send(Message(name, b"%d" % number, keys=["k"])) for number in range(3)]
    wait_until_dispatched(java.broker.address)
    return str(results[0].message_id)


async def look_at_topics(admin: AdminClient, java: JavaCluster, name: str, sent: str) -> None:
    assert java.broker.name in (await admin.cluster_info()).brokers
    assert name in await admin.topic_list(java.broker.cluster)
    assert [broker.broker_name for broker in (await admin.topic_route(name)).brokers] == [java.broker.name]
    stats = await admin.topic_stats(name)
    assert [found.max_offset for found in stats.values()] == [3, 0]
    assert await admin.known_topic_stats(name) == (stats, {})
    assert bytes((await admin.message_by_id(name, sent)).body) == b"0"
    assert len((await admin.messages_by_key(name, "k")).messages) == 3


async def look_at_the_broker(admin: AdminClient, java: JavaCluster, name: str) -> None:
    assert {java.broker.name, java.broker.cluster} <= await admin.own_topics()
    # All three are in the first queue.
    assert await admin.hidden_messages(name, 1, {java.broker.name: java.broker.address}) == {}
    masters = await admin.masters(cluster=java.broker.cluster)
    assert masters == {java.broker.name: java.broker.address}
    address = masters[java.broker.name]
    assert "putTps" in await admin.broker_runtime_info(address)
    assert (await admin.broker_settings(address))["transactionCheckMax"] == "15"
    with pytest.raises(InvalidArgument, match="at least one NameServer answers"):
        await admin.check_name_servers("127.0.0.1:1")
    for value in ("14", "15"):
        await admin.change_broker_settings(address, {"transactionCheckMax": value})
        assert (await admin.broker_settings(address))["transactionCheckMax"] == value
    assert (await admin.broker_stats(address, "TOPIC_PUT_NUMS", name)).minute.sum >= 0
    assert [(found.broker_name, found.topic, found.group) for found in await admin.traffic(name)] == [
        (java.broker.name, name, None)
    ]
    assert name in {found.topic for found in await admin.traffic(broker=java.broker.name)}
    assert (await admin.known_traffic(name))[1] == {}


async def lead_a_group(admin: AdminClient, java: JavaCluster, name: str) -> None:
    group, twin, cluster = f"{name}-group", f"{name}-twin", java.broker.cluster
    config = GroupConfig(group=group, retry_times_max=3)
    assert [*await admin.create_group(config, cluster=cluster)] == [java.broker.name]
    changes = await admin.reset_group(group, name, ResetTo.offset(1), queue_id=0)
    assert [change.after for change in changes] == [1]
    assert [place.lag for place in (await admin.group_lag(group, name)).values()][:1] == [2]
    await admin.create_group(GroupConfig(group=twin), cluster=cluster)
    assert [await admin.group_has_committed(each, changes[0].queue) for each in (group, twin)] == [True, False]
    assert [change.after for change in await admin.clone_group(group, twin, name)][:1] == [1]
    assert {group, twin} <= {*await admin.group_names(cluster)}
    answering, problems = await admin.groups_that_answer()
    assert {group, twin} <= {*await answering.names()}
    assert problems == {}
    assert [found.group for found in await admin.groups(cluster, names=[twin, group])] == [group, twin]
    assert (await admin.group_status(group)).settings[java.broker.name].retry_times_max == 3
    for each in (group, twin):
        assert await admin.delete_group(each, cluster=cluster) == [java.broker.address]


async def talk_with_a_client(admin: AdminClient, java: JavaCluster, name: str, sent: str) -> None:
    group, handled = f"{name}-readers", set[bytes]()

    async def handle(message: StoredMessage) -> None:
        handled.add(message.body)

    async with Producer(f"{name}-producers", java.name_server.address, send_timeout_ms=TIMEOUT_MS) as producer:
        await producer.send(Message(name, b"last"))

        async def online() -> list[ProducerInfo]:
            return (await admin.producers()).get(f"{name}-producers", [])

        found = await until(online, 0.05)  # its heartbeat comes behind its first send
        assert found[0].address.startswith("127.0.0.1:")
        assert (await admin.known_producers())[0].keys() >= {f"{name}-producers"}
    async with PushConsumer(group, java.name_server.address, message_handler=handle) as consumer:
        consumer.subscribe(name)
        await until(lambda: len(handled) >= 4)
        (client,) = (await admin.group_status(group)).clients
        info = await admin.client_info(group, client.client_id)
        assert {queue.topic for queue in info.queues} >= {name}
        message = await admin.message_by_id(name, sent)
        assert message is not None
        assert (await admin.consume_directly(group, client.client_id, message)).outcome == "CR_SUCCESS"

    async def is_known() -> bool:
        return group in await admin.topic_groups(name)

    await until(is_known, 0.05)
    assert [span.queue.queue_id for span in await admin.group_time_spans(group, name)] == [
        0
    ]  # those that are written to
    assert "putTps" in await (await admin.broker(java.broker.address)).runtime_info()


@pytest.fixture
def orbitmq(java_cluster: JavaCluster, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call `orbitmq` in this process, for Java's cluster; returns the exit code, the document on stdout, and stderr."""
    monkeypatch.setenv("NAMESRV_ADDR", java_cluster.name_server.address)

    def call(*words: str) -> tuple[int, Any, str]:
        capfd.readouterr()
        code = main([*words, "-o", "json", "--timeout-ms", str(TIMEOUT_MS)])
        out, err = capfd.readouterr()
        return int(code), json.loads(out) if out else None, err

    return call


def test_commands_about_brokers_and_topics_work_with_javas(orbitmq: Any, java_cluster: JavaCluster, name: str) -> None:
    broker, here = java_cluster.broker, ("--address", java_cluster.broker.address)
    assert orbitmq("topic", "create", name, "--cluster", broker.cluster)[0] == 0
    code, (config,), _ = orbitmq(
        "topic", "config", "set", name, "--permission", "r", "--attribute", "+message.type=FIFO"
    )
    assert (code, config["broker"], config["permission"]) == (0, broker.name, "r")
    assert orbitmq("topic", "config", "show", name)[1] == [config]
    code, _, said = orbitmq("topic", "config", "set", name, "--attribute", "+message.kind=FIFO")
    assert (code, "unsupported key: message.kind" in said) == (1, True)

    code, settings, _ = orbitmq("broker", "config", "list", "--name", broker.name)
    assert (code, {row["effect"] for row in settings}) == (0, {None})
    assert [row["value"] for row in settings if row["key"] == "brokerName"] == [broker.name]
    changed = orbitmq("broker", "config", "set", "transactionCheckMax=15", *here)
    assert changed[:2] == (0, [{"broker": here[1], "key": "transactionCheckMax", "before": "15", "after": "15"}])
    # Java says yes to what it does not understand.
    code, _, said = orbitmq("broker", "config", "set", "transactionCheckMax=many", *here)
    assert (code, "has accepted transactionCheckMax=many, and not changed it" in said) == (1, True)
    assert orbitmq("broker", "config", "set", "noSuchKey=1", *here)[0] == 2
    code, _, said = orbitmq("broker", "config", "set", "configBlackList=nothing", *here)
    assert (code, "black list" in said) == (1, True)

    code, (status,), _ = orbitmq("broker", "status", "runtime", "brokerVersionDesc", *here)
    assert (code, status["values"].keys()) == (0, {"runtime", "brokerVersionDesc"})
    code, rows, _ = orbitmq("broker", "stats", *here)
    assert (code, [row["key"] for row in rows]) == (0, [broker.cluster] * 2)
    assert orbitmq("stats", "--topic", name, "--broker", broker.name)[:2] == (0, [])
    assert orbitmq("topic", "delete", "--yes", name)[0] == 0
