"""mqadmin's commands about groups, offsets, connections and messages: with our broker they print what they print with Java's.

Times, addresses, ids and places in the log are not compared, nor is the order of lines: that of Java's hash tables.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from interop.peers import JavaClients, message
from orbitmq import ConsumeFrom, Message
from orbitmq.blocking import Producer, PushConsumer

IS_WHOLE = "ORBITMQ_ALL_COMMANDS" in os.environ

MASKS = (
    (r"\b[0-9A-F]{32}(?:[0-9A-F]{24})?\b", "ID"),
    (r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d(?:[:,.]\d{3})?", "TIME"),
    (r"=\d{17}\b", "=TIME"),
    (r"\b\d{13}\b", "MS"),
    (r"\d+\.\d+\.\d+\.\d+:\d+", "ADDRESS"),
    (r"\d+\.\d+\.\d+\.\d+@\S+", "CLIENT"),
    (r"(CommitLog Offset:|storeSize=|commitLogOffset=|physicOffset=|physicSize=|spentTimeMills=)\s*\d+", r"\1N"),
    (r"(Consume TPS:) .*", r"\1 N"),
    (r"\brt=\d+ms", "rt=N"),
    (r"(?m)(\btrue\s+)\d+$", r"\1N"),
    (r"\b\d+\.\d\d\b", "RATE"),
    (r"trackType=(CONSUMED|NOT_CONSUME_YET)", "trackType=IN_TIME"),  # as far as offsets were committed by then
    (r"[ \t]+", " "),
)
"""What is not compared, and what stands for it."""


@dataclass
class Side:
    """A cluster with its topic and group, and mqadmin for it."""

    java: JavaClients
    name_servers: str
    broker: str
    cluster: str
    address: str
    topic: str
    words: dict[str, str] = field(default_factory=dict)

    def mqadmin(self, line: str) -> str:
        """Run a command; words such as `{topic}` stand for this side's own."""
        words = {**vars(self), "group": f"{self.topic}-group", **self.words}
        command, *arguments = (word.format(**words) for word in line.split())
        return self.java.mqadmin(command, "-n", self.name_servers, *arguments)

    def print(self, line: str) -> list[str]:
        """Return what a command prints, as it is compared."""
        printed = self.mqadmin(line).replace(self.broker, "BROKER").replace(self.cluster, "CLUSTER")
        for pattern, mask in MASKS:
            printed = re.sub(pattern, mask, printed)
        lines = (line.strip() for line in printed.splitlines())
        # Ours does not take a topic's own name for a group that reads it, which has no retries then.
        others = (f"consumerGroup={self.topic},", "FAQ")
        return sorted(line for line in lines if line and not any(other in line for other in others))


@pytest.fixture(scope="module")
def sides(java: JavaClients, ours: Any, java_cluster: Any) -> tuple[Side, Side]:
    """Java's cluster and ours, each with four messages in two queues."""
    topic = "group-commands"
    made = (
        Side(java, java_cluster.name_server.address, "java-broker", "JavaCluster", java_cluster.broker.address, topic),
        Side(java, ours.name_servers, "broker-a", "DefaultCluster", ours.brokers["broker-a"], topic),
    )
    for side in made:
        side.mqadmin("updateTopic -b {address} -t {topic} -r 2 -w 2")
        producer = java.producer("group-commands-producers", side.name_servers, send_timeout_ms=30_000)
        sent = producer.send(
            *(message(topic, b"%d" % n, tag="red", keys=f"k{n}", queue_id=n % 2, broker=side.broker) for n in range(4))
        )
        producer.stop()
        side.words["id"] = sent[1]["offset_message_id"]
    return made


@pytest.fixture(scope="module")
def online(sides: tuple[Side, Side]) -> Any:
    """A Java consumer on each side, which has read all four messages, and a producer that is told to the broker."""
    consumers: list[Any] = []
    producers: list[Any] = []
    for side in sides:
        producers.append(producer := side.java.producer(f"{side.topic}-senders", side.name_servers))
        producer.send(message(side.topic + "-senders", b"hello", broker=side.broker, queue_id=0))
        consumer = side.java.consumer(f"{side.topic}-group", side.name_servers, side.topic)
        consumer.wait_for_messages(4)
        side.words["client"] = consumer.client_id
        consumers.append(consumer)
    for side in sides if IS_WHOLE else ():
        # Java's client commits for the first time ten seconds after its start; until then its group has no progress to show.
        while side.topic not in side.mqadmin("consumerProgress -g {group}"):
            pass
    yield consumers
    for client in (*consumers, *producers):
        client.stop()


ONLINE = (
    "consumerConnection -g {group}",
    "consumerStatus -g {group}",
    "getConsumerStatus -g {group} -t {topic}",
    "producerConnection -g {topic}-senders -t {topic}",
    "queryMsgById -t {topic} -i {id} -g {group} -d {client}",
)


@pytest.mark.parametrize("line", ONLINE)
def test_a_command_about_clients_prints_what_it_prints_with_java(
    sides: tuple[Side, Side], online: Any, line: str
) -> None:
    theirs, ours = sides
    printed = theirs.print(line)
    assert ours.print(line) == printed
    assert not any("FAILED" in row or "not exist" in row for row in printed), printed


def test_a_clients_running_info_has_javas_fields(sides: tuple[Side, Side], online: Any) -> None:
    def shape(side: Side) -> list[str]:
        printed = side.print("consumerStatus -g {group} -i {client}")
        # Whether the queue of retries has been pulled yet is a matter of moments.
        named = [line for line in printed if not line.startswith("%RETRY%")]
        return [re.sub(r"(Time|instanceName|Strategy|Listener|Store|Impl)\w* ?[:=].*", r"\1", line) for line in named]

    theirs, ours = sides
    assert shape(ours) == shape(theirs)


def test_a_reset_sends_a_java_consumer_back(sides: tuple[Side, Side], online: Any) -> None:
    _, ours = sides
    before = len(online[1].received)
    printed = ours.mqadmin("resetOffsetByTime -g {group} -t {topic} -s 0")
    rows = [line.split() for line in printed.splitlines() if line.startswith("broker-a")]
    assert sorted(rows) == [["broker-a", "0", "0"], ["broker-a", "1", "0"]]
    again = online[1].wait_for_messages(before + 4)[before:]
    assert sorted(item["body"] for item in again) == [b"0", b"1", b"2", b"3"]


OFFLINE = (
    "updateSubGroup -b {address} -g {topic}-copied -r 3",
    "resetOffsetByTime -g {topic}-copied -t {topic} -s 0",
    "resetOffsetByTime -g {topic}-copied -t {topic} -s 0 -b {address} -q 0 -o 1",
    "consumerProgress -g {topic}-copied",
    "cloneGroupOffset -s {topic}-copied -d {topic}-clone -t {topic} -o true",
    "consumerProgress -g {topic}-clone",
)
"""Commands of one scenario, in their order."""
MORE = (
    "updateSubGroup -b {address} -g {topic}-more",
    "resetOffsetByTime -g {topic}-more -t {topic} -s 0",
    "skipAccumulatedMessage -g {topic}-more -t {topic}",
    "consumerProgress -g {topic}-more -t {topic}",
    "consumerStatus -g {topic}-more",
    "getConsumerConfig -g {topic}-more",
    "setConsumeMode -b {address} -t {topic} -g {topic}-more -m POP -q 1",
    "consumerConnection -g {topic}-more",
    "deleteSubGroup -b {address} -g {topic}-more -r true",
    "getConsumerConfig -g {topic}-more",
    "queryMsgByKey -t {topic} -k k1",
    "queryMsgByOffset -t {topic} -b {broker} -i 1 -o 0",
    "printMsg -t {topic} -d true",
    "printMsgByQueue -t {topic} -a {broker} -i 1 -p true -d true",
    "queryCq -t {topic} -q 0 -i 0 -c 4 -b {address} -g {topic}-nobody",
    "allocateMQ -t {topic} -i a",
)
"""The others: a command takes three seconds at times."""
SENT = (
    "updateTopic -b {address} -t {topic}-sent -r 1 -w 1",
    "checkMsgSendRT -t {topic}-sent -a 3 -s 16",
    "sendMsgStatus -b {broker} -c 2 -s 16",
    "producerConnection -g {topic}-nobody -t {topic}",
    "updateOrderConf -t {topic} -v {broker}:2 -m put",
    "updateOrderConf -t {topic} -m get",
    "updateOrderConf -t {topic} -m delete",
    "updateKvConfig -s {topic} -k key -v value",
    "deleteKvConfig -s {topic} -k key",
    "topicClusterList -t {topic}",
    "exportPopRecord -b {address} -d true",
    "rocksDBConfigToJson -b {address}",
    "getColdDataFlowCtrInfo -c {cluster}",
    "deleteTopic -c {cluster} -t {topic}-sent",
)
"""What sends, and what is told to NameServers."""
ONCE = (
    "updateTopic -b {address} -t {topic}-once -r 1 -w 1",
    "sendMessage -t {topic}-once -p hello -k k9 -c red",
    "consumeMessage -t {topic}-once -b {broker} -i 0 -o 0 -c 1 -g {topic}-tools",
    "queryMsgByUniqueKey -t {topic}-alone -i {unique}",
)
"""Commands that work once in a JVM: they keep their client, and close it."""


SCENARIOS = {"offline": OFFLINE, "more": MORE, "sent": SENT} if IS_WHOLE else {"offline": OFFLINE}
"""`make proof ARGS="--only compat/commands"` runs all of them."""


@pytest.mark.parametrize("lines", SCENARIOS.values(), ids=SCENARIOS)
def test_commands_about_a_group_that_is_offline_print_what_they_print_with_java(
    sides: tuple[Side, Side], lines: tuple[str, ...]
) -> None:
    theirs, ours = sides
    for line in lines:
        assert (line, ours.print(line)) == (line, theirs.print(line))


if IS_WHOLE:

    def test_commands_that_keep_a_client_print_what_they_print_with_java(
        sides: tuple[Side, Side], tmp_path: Path
    ) -> None:
        printed = []
        for each in sides:
            clients = JavaClients(tmp_path / each.cluster)
            side = replace(each, java=clients)
            side.mqadmin("updateTopic -b {address} -t {topic}-alone -r 1 -w 1")
            producer = clients.producer("group-commands-once", side.name_servers, send_timeout_ms=30_000)
            (sent,) = producer.send(message(f"{side.topic}-alone", b"found", tag="red", keys="k"))
            side.words["unique"] = sent["message_id"]
            printed.append([side.print(line) for line in ONCE])
            clients.close()
        assert printed[1] == printed[0]
        assert all(printed[0])


def test_our_consumer_answers_mqadmin_through_javas_broker(sides: tuple[Side, Side]) -> None:
    theirs, _ = sides
    got: list[bytes] = []

    def take(found: Any) -> None:
        got.append(found.body)

    group = f"{theirs.topic}-ours"
    start = {"consume_from": ConsumeFrom.FIRST, "instance": "inspected"}
    with PushConsumer(group, theirs.name_servers, message_handler=take, **start) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(theirs.topic)
        theirs.java.wait_for(lambda: len(got) == 4, "four messages at our consumer")
        theirs.words |= {"client": consumer.client_id, "mine": group}
        shown = theirs.mqadmin("consumerStatus -g {mine} -i {client} -s")
        assert "PROP_CONSUME_TYPE                       : CONSUME_PASSIVELY" in shown
        assert "language                                : PYTHON" in shown
        assert "task orbitmq handler" in shown
        result = theirs.mqadmin("queryMsgById -t {topic} -i {id} -g {mine} -d {client}")
        assert "consumeResult=CR_SUCCESS" in result
        theirs.java.wait_for(lambda: len(got) == 5, "the message that mqadmin sent")
        theirs.mqadmin("resetOffsetByTime -g {mine} -t {topic} -s 0")
        with Producer("group-commands-ours", theirs.name_servers) as producer:
            for _ in range(4):  # Java's broker tells a reader that waits when its queue grows
                producer.send(Message(theirs.topic, b"new"), timeout_ms=30_000)
        theirs.java.wait_for(lambda: len(got) == 13, "all messages again")
    assert sorted(got[5:]) == [b"0", b"1", b"2", b"3", b"new", b"new", b"new", b"new"]
