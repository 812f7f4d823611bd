"""Message traces: Java's, which we read, and ours, which Java reads."""

from __future__ import annotations

import asyncio

from interop.peers import JavaClients, message
from orbitmq.admin.client import AdminClient
from orbitmq.admin.traces import TraceStep, find_way
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.client.trace.tracer import TRACE_TOPIC
from orbitmq.errors import RouteNotFound
from orbitmq.model.message import Message
from orbitmq.testing import BlockingCluster
from orbitmq.wire.messages.traces import decode_traces, encode_trace


def steps_of(cluster: BlockingCluster, message_id: str) -> list[TraceStep]:
    """Return what is told of a message."""

    async def ask() -> list[TraceStep]:
        async with AdminClient(cluster.name_servers) as admin:
            try:
                return list((await find_way(admin, TRACE_TOPIC, message_id)).steps)
            except RouteNotFound:  # the first trace makes the topic
                return []

    return asyncio.run(ask())


def is_told(steps: list[TraceStep]) -> bool:
    """Return True if producer and consumer have told all that they have to tell."""
    ends = {(step.name.partition(",")[0], step.status) for step in steps}
    return {("sent", "success"), ("consumed", "success")} <= ends


def trace_bodies(cluster: BlockingCluster, key: str) -> list[bytes]:
    """Return the bodies of the trace messages of a key."""

    async def ask() -> list[bytes]:
        async with AdminClient(cluster.name_servers) as admin:
            return [found.body for found in (await admin.messages_by_key(TRACE_TOPIC, key)).messages]

    return asyncio.run(ask())


def test_what_java_clients_tell_is_read_and_would_be_written_by_us_byte_for_byte(
    java: JavaClients, ours: BlockingCluster, name: str
):
    producer = java.producer(f"p-{name}", ours.name_servers, trace=True)
    deciding = java.producer(f"d-{name}", ours.name_servers, trace=True, transactional=True)
    (sent,) = producer.send(message(name, b"hello", tag="t", keys="k1 k2"))
    (plain,) = producer.send(message(name, b"no keys"))
    (half,) = deciding.send(message(name, b"half", properties={"OUTCOME": "COMMIT_MESSAGE"}))
    consumer = java.consumer(f"c-{name}", ours.name_servers, name, trace=True)
    consumer.wait_for_messages(3)
    ids = [one["message_id"] for one in (sent, plain, half)]

    java.wait_for(lambda: all(is_told(steps_of(ours, one)) for one in ids), "Java's traces")
    java.wait_for(lambda: "decided" in {step.name for step in steps_of(ours, ids[2])}, "a decision's trace")
    for body in {body for one in ids for body in trace_bodies(ours, one)}:
        assert "".join(map(encode_trace, decode_traces(body))).encode() == body
    names = [[step.name for step in steps_of(ours, one)] for one in ids]
    assert names[:2] == [["sent", "stored", "consumed"]] * 2
    assert {"sent, half of a transaction", "decided", "consumed"} <= set(names[2])
    (_, stored, consumed) = steps_of(ours, ids[0])
    assert (consumed.group, consumed.status) == (f"c-{name}", "success")
    assert stored.status.startswith("broker-a queue ")
    assert {step.message_id for step in steps_of(ours, "k2")} == {ids[0]}
    for client in (producer, deciding, consumer):
        client.stop()


def test_mqadmin_reads_what_our_clients_tell(java: JavaClients, ours: BlockingCluster, name: str):
    with Producer(f"p-{name}", ours.name_servers, trace=True) as producer:
        sent = producer.send(Message(name, b"hello", keys=["k"]))
    with PushConsumer(f"c-{name}", ours.name_servers, trace=True) as consumer:
        consumer.subscribe(name)
        consumer.next_batch(timeout_ms=60_000).commit()
    java.wait_for(lambda: is_told(steps_of(ours, sent.message_id)), "our traces")

    said = java.mqadmin("queryMsgTraceById", "-n", ours.name_servers, "-i", sent.message_id)
    rows = [line.split() for line in said.splitlines() if line.startswith(("Pub", "Sub"))]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("Pub", f"p-{name}", "success"),
        ("Sub", f"c-{name}", "success"),
    ]
