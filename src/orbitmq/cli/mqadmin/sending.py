"""Sending: one message, or many to measure how long sends take.

Where ours differs from Java: `sendMessage -b` without -i sends to a queue of that broker, where Java takes any. `clusterRT` measures
once, and again and again with -i; Java goes on every ten seconds. A mean of one send is the send's own time, where Java
prints NaN; a send that fails is said on stderr.

Source: Java SendMessageCommand, CheckMsgSendRTCommand, SendMsgStatusCommand, CLusterSendMsgRTCommand of 5.3.3.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import Result, java_object, java_text, queue_text, table
from orbitmq.client.producer import Producer
from orbitmq.client.routing.route_queues import writable_queues
from orbitmq.client.send.result import SendResult
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue

_WARM_UP_SIZE = 16
_JODIE = b"hello jodie"
_SEND_LAYOUT = "%-32s  %-4s  %-20s    %s"
_RT_TITLES = "#Cluster Name|#Broker Name|#RT|#successCount|#failCount"
_RT_LAYOUT = "%-24s  %-24s  %-8s  %-16s  %-16s"
_CHINA = timedelta(hours=8)
"""Java's log lines have Beijing's time, wherever they are written."""


async def _queues(clients: ClusterClients, topic: str) -> tuple[MessageQueue, ...]:
    """Return the queues of a topic that can be written to."""
    return writable_queues(topic, await clients.admin.topic_route(topic))


async def send_message(clients: ClusterClients, given: Given) -> Result:
    """Send one message: to any queue, to a broker's with -b, to one of them with -i."""
    topic, broker = given.text("topic"), given.text("broker")
    if "qid" in given and not broker:
        raise InvalidArgument("--qid", given.text("qid"), "--broker as well: they name one queue together")
    queue = None
    if "qid" in given:
        queue = MessageQueue(topic, broker, given.number("qid", 0))
    elif broker:
        own = [found for found in await _queues(clients, topic) if found.broker_name == broker]
        if not own:
            raise InvalidArgument("--broker", broker, f"the name of a broker with queues of the topic {topic}")
        queue = own[time.time_ns() % len(own)]
    message = Message(topic, given.text("body").encode(), given.text("tags") or None, given.text("key").split())
    producer = Producer(
        clients.group,
        clients.name_servers,
        send_timeout_ms=clients.timeout_ms,
        trace=given.flag("msgTraceEnable"),
        **clients.security._asdict(),
    )
    async with producer:
        sent = await producer.send(message, queue=queue)
    row = _sent_row(sent)
    cells = (row["broker"], row["queue"], row["status"], row["id"])
    return Result(table(_SEND_LAYOUT, "#Broker Name|#QID|#Send Result|#MsgId", [cells]), row)


def _sent_row(sent: SendResult) -> dict[str, Any]:
    row = {"broker": sent.queue.broker_name, "queue": sent.queue.queue_id, "offset": sent.queue_offset}
    return row | {"status": sent.status, "id": sent.message_id}


def result_text(sent: SendResult) -> str:
    """Return a result as Java prints it (SendResult.toString)."""
    return java_object(
        "SendResult",
        sendStatus=sent.status,
        msgId=sent.message_id,
        offsetMsgId=sent.offset_message_id,
        messageQueue=queue_text(sent.queue),
        queueOffset=sent.queue_offset,
        recallHandle=sent.recall_handle or None,
    )


def _count(given: Given, name: str, default: int) -> int:
    count = given.number(name, default)
    if count < 1:
        raise InvalidArgument(f"--{name}", str(count), "a number above 0")
    return count


async def send_msg_status(clients: ClusterClients, given: Given) -> Result:
    """Send -c messages to the topic that is named as a broker or a cluster, and show how long each took."""
    topic, size, count = given.text("brokerName"), given.number("messageSize", 128), _count(given, "count", 50)
    lines, rows = [], []
    async with clients.producer() as producer:
        await producer.send(Message(topic, _body(_WARM_UP_SIZE)))
        for _ in range(count):
            begin = time.perf_counter()
            sent = await producer.send(Message(topic, _body(size)))
            took_ms = (time.perf_counter() - begin) * 1000
            lines.append(f"rt={took_ms:.0f}ms, SendResult={result_text(sent)}")
            rows.append({"took_ms": took_ms, **_sent_row(sent)})
    return Result(lines, rows)


def _body(size: int) -> bytes:
    """Return Java's greeting as often as it takes to fill a size."""
    return _JODIE * -(-size // len(_JODIE))


async def _timed(producer: Producer, message: Message, queue: MessageQueue | None) -> tuple[float, OrbitError | None]:
    """Return how many ms a send took, and why it failed."""
    begin = time.perf_counter()
    failure = None
    try:
        await producer.send(message, queue=queue)
    except OrbitError as error:
        failure = error
    return (time.perf_counter() - begin) * 1000, failure


def _mean(times: list[float]) -> float:
    """Return the mean without the first, which opens connections; of one, its own."""
    counted = times[1:] or times
    return sum(counted) / len(counted)


async def check_msg_send_rt(clients: ClusterClients, given: Given) -> Result:
    """Send -a messages to a topic's queues in turn, and show how long each took."""
    topic, size, amount = given.text("topic"), given.number("size", 128), _count(given, "amount", 100)
    queues = await _queues(clients, topic)
    if not queues:
        raise InvalidArgument("--topic", topic, "a topic that can be written to")
    rows: list[dict[str, Any]] = []
    async with clients.producer() as producer:
        for number in range(amount):
            queue = queues[number % len(queues)]
            took_ms, failure = await _timed(producer, Message(topic, b"a" * size), queue)
            error = None if failure is None else str(failure)
            rows.append({"broker": queue.broker_name, "queue": queue.queue_id, "took_ms": took_ms, "error": error})
    cells = ((row["broker"], row["queue"], java_text(row["error"] is None), f"{row['took_ms']:.0f}") for row in rows)
    mean_ms = _mean([row["took_ms"] for row in rows])
    lines = [*table(_SEND_LAYOUT, "#Broker Name|#QID|#Send Result|#RT", cells), f"Avg RT: {mean_ms:.2f}"]
    problems = [row["error"] for row in rows if row["error"] is not None]
    return Result(lines, {"sends": rows, "mean_ms": mean_ms}, problems)


async def cluster_rt(clients: ClusterClients, given: Given) -> Result:
    """Send -a messages to the topic of every broker, which is named as it, and show how long they took."""
    size, amount, wanted = given.number("size", 128), _count(given, "amount", 100), given.text("cluster")
    clusters = (await clients.admin.cluster_info()).clusters
    if wanted and wanted not in clusters:
        raise InvalidArgument("--cluster", wanted, f"one of {', '.join(sorted(clusters)) or 'none'}")
    is_log, room = given.flag("print log"), given.text("machine room") or "noname"
    rows: list[dict[str, Any]] = []
    problems = []
    lines = [] if is_log else table("%-24s  %-24s  %-4s  %-8s  %-8s", _RT_TITLES, ())
    async with clients.producer() as producer:
        for cluster in [wanted] if wanted else sorted(clusters):
            for broker in sorted(clusters[cluster]):
                done = [await _timed(producer, Message(broker, b"a" * size), None) for _ in range(amount)]
                failures = [str(failure) for _, failure in done if failure is not None]
                problems += failures[:1]
                mean_ms, succeeded = _mean([took_ms for took_ms, _ in done]), amount - len(failures)
                at = f"{datetime.now(UTC) + _CHINA:%Y-%m-%d %H:%M:%S}"
                cells = (cluster, broker, f"{mean_ms:.2f}", succeeded, len(failures))
                lines.append(f"{at}|{room}|{cluster}|{broker}|{mean_ms:.0f}" if is_log else _RT_LAYOUT % cells)
                rows.append(
                    {"cluster": cluster, "broker": broker, "mean_ms": mean_ms}
                    | {"succeeded": succeeded, "failed": len(failures)}
                )
    return Result(lines, rows, problems)
