"""RocketMQ's own mqadmin against our NameServer and broker."""

import pytest

from interop.peers import ask, message
from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer


@pytest.fixture
def mqadmin(java, ours):
    def run(command, *arguments):
        return java.mqadmin(command, "-n", ours.name_servers, *arguments)

    return run


def test_cluster_list_shows_our_broker(mqadmin, ours):
    row = next(line for line in mqadmin("clusterList").splitlines() if "broker-a" in line).split()
    assert row[:4] == ["DefaultCluster", "broker-a", "0", ours.brokers["broker-a"]]
    assert row[4].startswith("V5_3_3")


def test_topic_list_shows_a_topic_after_the_first_message(mqadmin, ours, name):
    assert name not in mqadmin("topicList").split()
    with Producer("our-producers", ours.name_servers) as producer:
        producer.send(Message(name, b"first"))
    assert name in mqadmin("topicList").split()
    in_cluster = mqadmin("topicList", "-c")
    assert "DefaultCluster" in next(line for line in in_cluster.splitlines() if name in line)


def test_topic_route_shows_queues_and_address(mqadmin, ours, name):
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "3", "-w", "2")
    printed = mqadmin("topicRoute", "-t", name)
    assert ours.brokers["broker-a"] in printed
    assert '"readQueueNums":3' in printed.replace(" ", "")
    assert '"writeQueueNums":2' in printed.replace(" ", "")


def test_update_topic_says_success_and_java_clients_see_it_immediately(java, mqadmin, ours, name):
    printed = mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "6", "-w", "6", "-p", "6")
    assert "create topic" in printed
    assert "success" in printed
    producer = java.producer(f"{name}-producers", ours.name_servers)
    sent = producer.send(*(message(name, b"%d" % n) for n in range(12)))
    producer.stop()
    assert {item["queue_id"] for item in sent} == set(range(6))


def test_topic_status_shows_the_offsets(mqadmin, ours, name):
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "1", "-w", "1")
    with Producer("our-producers", ours.name_servers) as producer:
        for n in range(5):
            producer.send(Message(name, b"%d" % n))
    row = next(line for line in mqadmin("topicStatus", "-t", name).splitlines() if line.startswith("broker-a")).split()
    assert row[:4] == ["broker-a", "0", "0", "5"]


def test_delete_topic_takes_it_from_broker_and_name_server(mqadmin, name):
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "1", "-w", "1")
    assert name in mqadmin("topicList").split()
    assert "success" in mqadmin("deleteTopic", "-c", "DefaultCluster", "-t", name)
    assert name not in mqadmin("topicList").split()


def test_consumer_progress_shows_how_far_a_group_is(mqadmin, ours, name):
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "1", "-w", "1")
    with Producer("our-producers", ours.name_servers) as producer:
        for n in range(5):
            producer.send(Message(name, b"%d" % n))
        with PushConsumer(f"{name}-group", ours.name_servers) as consumer:
            consumer.subscribe(name)
            taken = 0
            while taken < 5:
                batch = consumer.next_batch(timeout_ms=5000)
                assert batch is not None
                taken += len(batch)
                batch.commit()
            consumer.commit_offsets()
            printed = mqadmin("consumerProgress", "-g", f"{name}-group")
            connected = mqadmin("consumerConnection", "-g", f"{name}-group")
    row = next(line for line in printed.splitlines() if line.startswith(name)).split()
    assert row[:5] == [name, "broker-a", "0", "5", "5"]
    assert name in connected
    assert "PYTHON" in connected


def test_kv_and_order_configuration(mqadmin, ours):
    def value():  # No command of mqadmin's reads one value: ask by hand.
        return ask(ours.name_servers, 101, {"namespace": "space", "key": "key"})[0].get("extFields", {}).get("value")

    mqadmin("updateKvConfig", "-s", "space", "-k", "key", "-v", "value")
    assert value() == "value"
    mqadmin("updateOrderConf", "-t", "ordered", "-v", "broker-a:4", "-m", "put")
    assert "broker-a:4" in mqadmin("updateOrderConf", "-t", "ordered", "-m", "get")
    mqadmin("deleteKvConfig", "-s", "space", "-k", "key")
    assert value() is None


def test_wiping_and_adding_write_permission(mqadmin, ours, name):
    mqadmin("updateTopic", "-c", "DefaultCluster", "-t", name, "-r", "1", "-w", "1")
    try:
        assert "OK" in mqadmin("wipeWritePerm", "-b", "broker-a")
        assert '"perm":4' in mqadmin("topicRoute", "-t", name).replace(" ", "")
    finally:
        assert "OK" in mqadmin("addWritePerm", "-b", "broker-a")
    assert '"perm":6' in mqadmin("topicRoute", "-t", name).replace(" ", "")


def test_name_server_settings_are_shown_and_changed(mqadmin):
    assert "waitSecondsForService" in mqadmin("getNamesrvConfig")
    mqadmin("updateNamesrvConfig", "-k", "waitSecondsForService", "-v", "44")
    row = next(line for line in mqadmin("getNamesrvConfig").splitlines() if "waitSecondsForService" in line)
    assert row.split()[-1] == "44"


def test_broker_status_shows_run_time_values(mqadmin):
    printed = mqadmin("brokerStatus", "-c", "DefaultCluster")
    for key in ("brokerVersionDesc", "putTps", "msgPutTotalTodayNow", "bootTimestamp"):
        assert key in printed


def test_old_files_are_deleted_on_request(mqadmin, ours, name):
    for command in ("deleteExpiredCommitLog", "cleanExpiredCQ", "cleanUnusedTopic"):
        assert "success" in mqadmin(command, "-c", "DefaultCluster")
    by_address = ("-b", ours.brokers["broker-a"])
    for command in ("deleteExpiredCommitLog", "cleanExpiredCQ", "cleanUnusedTopic"):
        assert "success" in mqadmin(command, *by_address)


def test_messages_are_found_by_key_and_by_both_ids(mqadmin, ours, name):
    with Producer("our-producers", ours.name_servers) as producer:
        sent = [producer.send(Message(name, b"%d" % n, keys=["all", f"k{n}"])) for n in range(3)]
    found = mqadmin("queryMsgByKey", "-t", name, "-k", "all")
    assert all(result.message_id in found for result in sent)
    assert sent[1].message_id in (one := mqadmin("queryMsgByKey", "-t", name, "-k", "k1"))
    assert sent[0].message_id not in one
    assert sent[2].message_id in mqadmin("queryMsgByUniqueKey", "-t", name, "-i", sent[2].message_id)
    printed = mqadmin("queryMsgById", "-t", name, "-i", sent[2].offset_message_id)
    assert sent[2].message_id in printed
    entries = mqadmin("queryCq", "-t", name, "-q", str(sent[2].queue.queue_id), "-i", "0", "-c", "5")
    assert f"max: {sent[2].queue_offset + 1}, min: 0" in entries
    assert "ConsumeQueueData{physicOffset=" in entries


def test_our_client_finds_messages_of_a_java_broker(java, java_cluster, name):
    from orbitmq.admin import AdminClient
    from orbitmq.net.loop import run

    producer = java.producer(f"{name}-producers", java_cluster.our_name_server, send_timeout_ms=30_000)
    sent = producer.send(*(message(name, b"%d" % n, keys=f"all k{n}") for n in range(3)))
    producer.stop()

    async def work():
        async with AdminClient(java_cluster.our_name_server, timeout_ms=30_000) as admin:
            while len(found := await admin.messages_by_key(name, "all")) < 3:
                pass  # Java's index follows its log
            by_id = await admin.message_by_id(name, sent[1]["message_id"])
            by_place = await admin.message_by_id(name, sent[1]["offset_message_id"])
            return [item.body for item in found], by_id.body, by_place.body

    assert run(work()) == ([b"0", b"1", b"2"], b"1", b"1")
