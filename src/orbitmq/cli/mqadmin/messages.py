"""Messages: found by id, key or offset, read queue by queue, and their traces.

Where Java finds nothing, says nothing and ends with 0, ours says so and ends with 1. `queryMsgById -s true` sends a message with
its sender's own properties and a new id, where Java's copy keeps the old id and what brokers wrote into it. Bodies are
written to files as Java's are, in `rocketmq/msgbodys` of the directory for temporary files.

Source: Java org.apache.rocketmq.tools.command.message and QueryConsumeQueueCommand of 5.3.3.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import notices_of
from orbitmq.admin.messages import FoundMessages, find_by_id, find_by_key
from orbitmq.admin.traces import TRACES_MAX
from orbitmq.cli.mqadmin.consumers import find_connections, find_progress, running_info
from orbitmq.cli.mqadmin.files import file_name, write_file
from orbitmq.cli.mqadmin.offsets import find_offset, time_ms
from orbitmq.cli.mqadmin.parsing import Given
from orbitmq.cli.mqadmin.result import (
    Result,
    java_object,
    java_text,
    joined,
    queue_text,
    seconds_text,
    table,
    time_text,
)
from orbitmq.cli.mqadmin.targets import ask, route_topic
from orbitmq.client.consume.pull_request import PullStatus, parse_pull_answer, plain_pull
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, OrbitError, RemoteRefused
from orbitmq.model.group import SUBSCRIBE_ALL, TOOLS_GROUP, ConsumeType, MessageModel
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import Perm
from orbitmq.wire.bodies.document import parse_body
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    GetMaxOffset,
    GetMinOffset,
    OffsetResponse,
    QueryConsumeQueue,
)
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.stored_messages import decode_answer

_TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_COUNT_MAX = 64
_COPIES_MAX = 32
_PULL_COUNT = 32


async def query_msg_by_id(clients: ClusterClients, given: Given) -> Result:
    """Show messages by their ids; with -g and -d let a client consume them, with -s true send them again."""
    if "unitName" in given:
        raise InvalidArgument("--unitName", given.text("unitName"), "to be left out: our producers are of no unit")
    charset = _charset(given, "bodyFormat")
    results: list[Result] = []
    problems: list[str] = []
    for message_id in filter(None, (part.strip() for part in given.text("msgId").split(","))):
        try:
            message = await _by_id(clients, given, message_id)
        except ClientError as error:
            problems.append(str(error))
            continue
        if message is None:
            problems.append(f"no message of the topic {given.text('topic')} has the id {message_id}")
        elif "consumerGroup" in given and "clientId" in given:
            results.append(await _consume_directly(clients, given, message))
        elif "sendMessage" not in given:
            results.append(await _show(clients, message, charset, has_offset_id=True))
        elif given.flag("sendMessage"):
            sent = await _send_again(clients, message)
            line = f"prepare resend msg. originalMsgId={message_id}{sent}"
            results.append(Result([line], {"id": message_id, "sent": sent}))
    return joined(results, problems)


def _charset(given: Given, name: str) -> str | None:
    import codecs

    text = given.text(name)
    if not text:
        return None
    try:
        return codecs.lookup(text).name
    except LookupError:
        raise InvalidArgument(f"--{name}", text, "a character set, such as UTF-8") from None


async def _by_id(clients: ClusterClients, given: Given, message_id: str) -> StoredMessage | None:
    topic = given.text("topic")
    parent = route_topic(topic, given.text("cluster"))
    route = await clients.admin.topic_route(parent)
    lost = await clients.admin.lost_brokers(parent)
    return await find_by_id(route, partial(ask, clients), topic, message_id, lost=lost)


async def _by_key(
    clients: ClusterClients, topic: str, key: str, *, cluster: str = "", is_unique: bool = False, **limits: Any
) -> FoundMessages:
    parent = route_topic(topic, cluster)
    route = await clients.admin.topic_route(parent)
    lost = await clients.admin.lost_brokers(parent)
    return await find_by_key(route, partial(ask, clients), topic, key, is_unique=is_unique, lost=lost, **limits)


async def _consume_directly(clients: ClusterClients, given: Given, message: StoredMessage) -> Result:
    group, client_id = given.text("consumerGroup"), given.text("clientId")
    info = await running_info(clients, group, client_id)
    if info.properties.get("PROP_CONSUME_TYPE") != ConsumeType.PUSH:
        raise ClientError(f"the client {client_id} is not a push consumer: nothing can be given to it")
    done = await clients.admin.consume_directly(group, client_id, message)
    text = java_object(
        "ConsumeMessageDirectlyResult",
        order=done.is_ordered,
        autoCommit=done.auto_commit,
        consumeResult=done.outcome,
        remark=done.remark,
        spentTimeMills=done.spent_ms,
    )
    row = {"id": message.message_id, "client": client_id, "result": done.outcome, "remark": done.remark}
    return Result([text], row | {"spent_ms": done.spent_ms})


async def _send_again(clients: ClusterClients, message: StoredMessage) -> str:
    from orbitmq.admin.dead_letters import own_properties
    from orbitmq.cli.mqadmin.sending import result_text
    from orbitmq.model.message import Message

    if message.decode_error is not None:
        raise ClientError(f"the body of {message.message_id} cannot be decoded: {message.decode_error}")
    again = Message(
        message.topic,
        message.body,
        message.tag,
        message.keys,
        own_properties(message.properties),
        message.flag,
        sharding_key=message.sharding_key,
    )
    async with clients.producer() as producer:
        return result_text(await producer.send(again))


async def _show(
    clients: ClusterClients,
    message: StoredMessage,
    charset: str | None,
    *,
    has_offset_id: bool,
    index: int = 0,
    silent: Collection[str] = (),
) -> Result:
    """Return a message as Java prints it, with what its topic's groups have done with it; write its body to a file."""
    own_id = offset_message_id(message.store_host, message.physical_offset)
    name = file_name(message.message_id or own_id) + (f"_{index}" if index else "")
    path = Path(tempfile.gettempdir(), "rocketmq", "msgbodys", name)
    write_file(path, message.body)
    values = [("OffsetID:", own_id)] if has_offset_id else []
    values += [
        ("Topic:", message.topic),
        ("Tags:", f"[{java_text(message.tag)}]"),
        ("Keys:", f"[{java_text(message.properties.get(PropertyName.KEYS))}]"),
        ("Queue ID:", str(message.queue_id)),
        ("Queue Offset:", str(message.queue_offset)),
        ("CommitLog Offset:", str(message.physical_offset)),
        ("Reconsume Times:", str(message.reconsume_times)),
        ("Born Timestamp:", time_text(message.born_at_ms)),
        ("Store Timestamp:", time_text(message.stored_at_ms)),
        ("Born Host:", str(message.born_host)),
        ("Store Host:", str(message.store_host)),
        ("System Flag:", str(message.sys_flag)),
        ("Properties:", java_text(message.properties)),
        ("Message Body Path:", str(path)),
    ]
    if charset is not None:
        values.append(("Message Body:", message.body.decode(charset, errors="replace")))
    lines = [f"{title:<20} {value}" for title, value in values]
    tracks = await _tracks(clients, message, silent)
    lines += ["", "", *(_track_text(track) for track in tracks)] if tracks else ["", "", "WARN: No Consumer"]
    document = {title.rstrip(":"): value for title, value in values}
    document["Properties"] = dict(message.properties)  # type: ignore[assignment]
    return Result(lines, document | {"Message ID": message.message_id, "Groups": tracks})


class _TrackType(StrEnum):
    """What a group has done with a message (Java: TrackType)."""

    CONSUMED = "CONSUMED"
    FILTERED = "CONSUMED_BUT_FILTERED"
    PULL = "PULL"
    NOT_YET = "NOT_CONSUME_YET"
    NOT_ONLINE = "NOT_ONLINE"
    BROADCASTING = "CONSUME_BROADCASTING"
    UNKNOWN = "UNKNOWN"


def _track_text(track: Mapping[str, Any]) -> str:
    return java_object(
        "MessageTrack", consumerGroup=track["group"], trackType=track["type"], exceptionDesc=track["error"]
    )


async def _tracks(clients: ClusterClients, message: StoredMessage, silent: Collection[str]) -> list[dict[str, Any]]:
    """Return what each group of a message's topic has done with it, as its broker tells."""

    async def find(group: str) -> dict[str, Any]:
        kind, error = _TrackType.UNKNOWN, None
        try:
            kind = await _track(clients, message, group, silent)
        except RemoteRefused as refusal:
            error = f"CODE:{refusal.code} DESC:{refusal.remark}"
            if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE:
                kind = _TrackType.NOT_ONLINE
        except OrbitError as failure:
            error = str(failure)
        return {"group": group, "type": kind, "error": error}

    groups = await clients.admin.topic_groups(message.topic, broker=message.broker_name)
    return list(await asyncio.gather(*map(find, groups)))


async def _track(clients: ClusterClients, message: StoredMessage, group: str, silent: Collection[str]) -> _TrackType:
    _, info = await find_connections(clients, group, silent=silent)
    if info.consume_type is ConsumeType.PULL:
        return _TrackType.PULL
    if info.consume_type is not ConsumeType.PUSH:
        return _TrackType.UNKNOWN
    progress = await find_progress(clients, group, broker=message.broker_name)
    if not progress.queues and info.message_model is MessageModel.BROADCASTING:
        return _TrackType.BROADCASTING
    place = progress.queues.get(MessageQueue(message.topic, message.broker_name, message.queue_id))
    if place is None or place.consumer_offset <= message.queue_offset:
        return _TrackType.NOT_YET
    for subscription in info.subscriptions:
        wants = not subscription.tags or message.tag in subscription.tags or SUBSCRIBE_ALL in subscription.tags
        if subscription.topic == message.topic and not wants:
            return _TrackType.FILTERED
    return _TrackType.CONSUMED


async def query_msg_by_key(clients: ClusterClients, given: Given) -> Result:
    """List the messages of a key."""
    topic, key = given.text("topic"), given.text("msgKey")
    found = await _by_key(
        clients,
        topic,
        key,
        cluster=given.text("cluster"),
        count_max=given.number("maxNum", _COUNT_MAX),
        begin_ms=given.number("beginTimestamp", 0),
        end_ms=given.number("endTimestamp", (1 << 63) - 1),
    )
    rows = [{"id": one.message_id, "queue": one.queue_id, "offset": one.queue_offset} for one in found.messages]
    lines = table("%-50s %4s %40s", "#Message ID|#QID|#Offset", (row.values() for row in rows))
    return _result(found, lines, rows, f"no message of the topic {topic} has the key {key}")


def _result(
    found: FoundMessages, lines: Sequence[str], rows: Sequence[Any] | Mapping[str, Any], nothing: str
) -> Result:
    """Return a result that says what is missing; of messages that are only cut it is not a problem."""
    problems = [nothing] * (not rows)
    if found.silent:
        return Result(lines, rows, [*problems, *found.notices])
    return Result(lines, rows, problems, found.notices)


async def query_msg_by_unique_key(clients: ClusterClients, given: Given) -> Result:
    """Show the message of a client's id; with -a all of them, with -g and -d let a client consume it."""
    topic, message_id = given.text("topic"), given.text("msgId")
    found = await _by_key(
        clients, topic, message_id, cluster=given.text("cluster"), is_unique=True, count_max=_COPIES_MAX
    )
    nothing = f"no message of the topic {topic} has the id {message_id}"
    if not found.messages:
        raise ClientError("; ".join((nothing, *found.notices)))
    if "consumerGroup" in given and "clientId" in given:
        return await _consume_directly(clients, given, found.messages[0])
    wanted = found.messages if "showAll" in given else found.messages[:1]
    shown = joined(
        [
            await _show(clients, message, None, has_offset_id=False, index=index, silent=found.silent)
            for index, message in enumerate(wanted)
        ]
    )
    return _result(found, shown.lines, shown.rows, nothing) if "showAll" in given else shown


_STATUS_TEXTS = {
    PullStatus.FOUND: "FOUND",
    PullStatus.NO_NEW_MESSAGE: "NO_NEW_MSG",
    PullStatus.NO_MATCHED_MESSAGE: "NO_MATCHED_MSG",
    PullStatus.OFFSET_ILLEGAL: "OFFSET_ILLEGAL",
}
"""As Java names them (PullStatus)."""


class _Pulled(NamedTuple):
    status: PullStatus
    next_offset: int
    messages: Sequence[StoredMessage]


@dataclass(frozen=True, slots=True)
class _QueueReader:
    """Reads one queue and commits nothing."""

    clients: ClusterClients
    queue: MessageQueue
    address: str
    group: str = TOOLS_GROUP
    expression: str = SUBSCRIBE_ALL

    async def bounds(self, begin: str = "", end: str = "") -> tuple[int, int]:
        """Return from where to where the queue goes, or where it was at two times."""
        topic, queue_id = self.queue.topic, self.queue.queue_id
        lowest, highest = GetMinOffset(topic=topic, queue_id=queue_id), GetMaxOffset(topic=topic, queue_id=queue_id)
        first = await (self._at("beginTimestamp", begin) if begin else self._offset(lowest))
        last = await (self._at("endTimestamp", end) if end else self._offset(highest))
        return first, last

    async def _at(self, name: str, text: str) -> int:
        return await find_offset(self.clients, self.address, self.queue, time_ms(name, text))

    async def _offset(self, header: object) -> int:
        answer = await ask(self.clients, self.address, header)
        return decode_header(OffsetResponse, answer.ext_fields).offset

    async def pull(self, offset: int, count: int = _PULL_COUNT) -> _Pulled:
        """Return messages from an offset on, as Java's pull consumer gives them: with the queue's bounds in their properties."""
        queue = self.queue
        header = plain_pull(queue.topic, queue.queue_id, offset, count, group=self.group, expression=self.expression)
        answer = await self.clients.pool.request(self.address, header, timeout_ms=self.clients.timeout_ms)
        result = parse_pull_answer(answer)
        if result is None:
            raise RemoteRefused(answer.code, answer.remark, self.address)
        told = result.header
        bounds = {PropertyName.MIN_OFFSET: str(told.min_offset), PropertyName.MAX_OFFSET: str(told.max_offset)}
        tags = {part.strip() for part in self.expression.split("||")}
        messages = [
            replace(one, properties={**one.properties, **bounds})
            for one in decode_answer(result.records, queue.broker_name).messages
            if self.expression == SUBSCRIBE_ALL or one.tag in tags
        ]
        return _Pulled(result.status, told.next_begin_offset, messages)


async def query_msg_by_offset(clients: ClusterClients, given: Given) -> Result:
    """Show the message at an offset of a queue."""
    queue = MessageQueue(given.text("topic"), given.text("brokerName"), given.number("queueId", 0))
    offset = given.number("offset", 0)
    pulled = await (await _reader(clients, queue)).pull(offset, 1)
    if not pulled.messages:
        where = f"{queue.broker_name} queue {queue.queue_id} of {queue.topic}"
        raise ClientError(f"no message is at the offset {offset} of {where}: {_STATUS_TEXTS[pulled.status]}")
    return await _show(clients, pulled.messages[0], _charset(given, "bodyFormat"), has_offset_id=True)


async def _reader(clients: ClusterClients, queue: MessageQueue, **options: str) -> _QueueReader:
    """Return a reader of one queue; options as of `_QueueReader`."""
    addresses = (await clients.admin.topic_route(queue.topic)).addresses
    if queue.broker_name not in addresses:
        raise InvalidArgument("--brokerName", queue.broker_name, f"one of {', '.join(addresses) or 'none'}")
    return _QueueReader(clients, queue, addresses[queue.broker_name], **options)


async def query_msg_trace_by_id(clients: ClusterClients, given: Given) -> Result:
    """Show what producers and consumers have traced of a message."""
    from orbitmq.wire.messages.traces import ConsumptionEnded, Published, decode_traces

    message_id, topic = given.text("msgId"), given.text("traceTopic") or _TRACE_TOPIC
    found = await _by_key(
        clients,
        topic,
        message_id,
        count_max=given.number("maxNum", TRACES_MAX),
        begin_ms=given.number("beginTimestamp", 0),
        end_ms=given.number("endTimestamp", (1 << 63) - 1),
    )
    rows: list[dict[str, Any]] = []
    for told in found.messages:
        for trace in decode_traces(told.body):
            if trace.message_id == message_id and isinstance(trace, Published | ConsumptionEnded):
                kind = "Pub" if isinstance(trace, Published) else "Sub"
                shown = {"type": kind, "group": trace.group, "client": told.born_host.ip, "at_ms": trace.at_ms}
                status = "success" if trace.is_success else "failed"
                rows.append(shown | {"cost_ms": trace.cost_ms, "status": status})
    consumed: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["type"] == "Sub":
            consumed.setdefault(row["group"], []).append(row)
    lines: list[str] = []
    for row in rows:
        if row["type"] == "Pub":
            lines += _trace_table("#ProducerGroup|#ClientHost|#SendTime", [row])
    for own in consumed.values():
        lines += _trace_table("#ConsumerGroup|#ClientHost|#ConsumerTime", own)
    return _result(found, lines, rows, f"the topic {topic} has no trace of {message_id}")


def _trace_table(titles: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = (
        (row["type"], row["group"], row["client"], seconds_text(row["at_ms"]), f"{row['cost_ms']}ms", row["status"])
        for row in rows
    )
    return [*table("%-10s %-20s %-20s %-20s %-10s %-10s", f"#Type|{titles}|#CostTimes|#Status", cells), ""]


@dataclass(slots=True)
class _Printout:
    """Messages as Java prints them, and as rows."""

    charset: str = "utf-8"
    has_body: bool = True
    lines: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, messages: Iterable[StoredMessage]) -> None:
        """Print messages."""
        for one in messages:
            self.lines.append(_message_text(one, self.charset, has_body=self.has_body))
            self.rows.append(_message_row(one, self.charset, has_body=self.has_body))

    async def read(self, reader: _QueueReader, first: int, last: int, *, is_consumed: bool = False) -> None:
        """Print the messages of a queue up to an offset, that one included.

        Args:
            is_consumed: pull no more than these, and print that they are consumed.
        """
        while first <= last:
            pulled = await reader.pull(first, last - first + 1 if is_consumed else _PULL_COUNT)
            first = pulled.next_offset
            if pulled.status is PullStatus.FOUND:
                self.lines += ["Consume ok"] * is_consumed
                self.add(pulled.messages)
                continue
            is_end = pulled.status is not PullStatus.NO_MATCHED_MESSAGE
            word = "print msg finished" if is_end else "no matched msg"
            status = _STATUS_TEXTS[pulled.status]
            self.lines.append(f"{queue_text(reader.queue)} {word}. status={status}, offset={first}")
            if is_end:
                break


async def print_msg(clients: ClusterClients, given: Given) -> Result:
    """Print the messages of every queue of a topic."""
    topic, parent = given.text("topic"), given.text("lmqParentTopic")
    printed = _Printout(_charset(given, "charsetName") or "utf-8", given.flag("printBody", True))
    silent = await _silent_of(clients, parent or topic)
    expression = given.text("subExpression") or SUBSCRIBE_ALL
    async for reader in _readers(clients, topic, parent, silent=silent, expression=expression):
        begin, end = await reader.bounds(given.text("beginTimestamp"), given.text("endTimestamp"))
        printed.lines.append(f"minOffset={begin}, maxOffset={end}, {queue_text(reader.queue)}")
        await printed.read(reader, begin, end - 1)
        printed.lines.append("-" * 56)
    return Result(printed.lines, printed.rows, notices_of(silent))


async def _silent_of(clients: ClusterClients, topic: str) -> dict[str, str]:
    """Return the brokers of a topic that do not answer now, and what is wrong with each."""
    holders = {data.broker_name for data in (await clients.admin.topic_route(topic)).queues}
    return {name: problem for name, problem in (await clients.admin.silent_masters()).items() if name in holders}


async def _readers(
    clients: ClusterClients, topic: str, parent: str = "", *, silent: Collection[str], **options: str
) -> AsyncIterator[_QueueReader]:
    """Yield a reader of every queue that can be read, but not of brokers that are silent; options as of `_QueueReader`."""
    route: TopicRoute = await clients.admin.topic_route(parent or topic)
    addresses = route.addresses
    for data in route.queues:
        if data.perm & Perm.READ and data.broker_name in addresses and data.broker_name not in silent:
            for queue_id in range(data.read_queue_count):
                queue = MessageQueue(topic, data.broker_name, queue_id)
                yield _QueueReader(clients, queue, addresses[data.broker_name], **options)


def _message_text(message: StoredMessage, charset: str, *, has_body: bool) -> str:
    """Return a message as Java prints it (MessageExt.toString)."""
    own_id = offset_message_id(message.store_host, message.physical_offset)
    octets = ", ".join(str(octet - 256 if octet > 127 else octet) for octet in message.body)
    transaction = message.properties.get(PropertyName.TRAN_MSG, "").lower() == "true"
    inner = (
        f"Message{{topic='{message.topic}', flag={message.flag}, properties={java_text(message.properties)}, "
        f"body=[{octets}], transactionId='{message.message_id if transaction else 'null'}'}}"
    )
    text = (
        f"MessageExt [brokerName={message.broker_name}, queueId={message.queue_id}, storeSize={message.store_size}, "
        f"queueOffset={message.queue_offset}, sysFlag={message.sys_flag}, bornTimestamp={message.born_at_ms}, "
        f"bornHost=/{message.born_host}, storeTimestamp={message.stored_at_ms}, storeHost=/{message.store_host}, "
        f"msgId={own_id}, commitLogOffset={message.physical_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, toString()={inner}]"
    )
    body = message.body.decode(charset, errors="replace") if has_body else "NOT PRINT BODY"
    return f"MSGID: {message.message_id or own_id} {text} BODY: {body}"


def _message_row(message: StoredMessage, charset: str, *, has_body: bool) -> dict[str, Any]:
    row = {
        "id": message.message_id,
        "offset_id": offset_message_id(message.store_host, message.physical_offset),
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "stored_at_ms": message.stored_at_ms,
        "properties": dict(message.properties),
    }
    return row | {"body": message.body.decode(charset, errors="replace")} if has_body else row


async def print_msg_by_queue(clients: ClusterClients, given: Given) -> Result:
    """Print the messages of one queue with -p true, or count them by tag with -f true."""
    queue = MessageQueue(given.text("topic"), given.text("brokerName"), given.number("queueId", 0))
    printed = _Printout(_charset(given, "charsetName") or "utf-8", given.flag("printBody"))
    reader = await _reader(clients, queue, expression=given.text("subExpression") or SUBSCRIBE_ALL)
    begin, end = await reader.bounds(given.text("beginTimestamp"), given.text("endTimestamp"))
    tags: Counter[str] = Counter()
    while begin < end:
        pulled = await reader.pull(begin)
        begin = pulled.next_offset
        if pulled.status in (PullStatus.NO_NEW_MESSAGE, PullStatus.OFFSET_ILLEGAL):
            break
        tags.update(one.tag for one in pulled.messages if one.tag)
        if given.flag("print msg"):
            printed.add(pulled.messages)
    if given.flag("calculate"):
        counts = [f"Tag: {tag:<30} Count: {count}" for tag, count in tags.most_common()]
        return Result([*printed.lines, *counts], {"messages": printed.rows, "tags": dict(tags)})
    return Result(printed.lines, {"messages": printed.rows})


async def consume_message(clients: ClusterClients, given: Given) -> Result:
    """Read up to -c messages of a topic, of one queue with -b and -i, and commit nothing."""
    count, group = given.number("MessageNumber", 128), given.text("consumerGroup") or TOOLS_GROUP
    if count <= 0:
        raise InvalidArgument("--MessageNumber", str(count), "a number above 0")
    begin, end, now_ms = given.text("beginTimestamp"), given.text("endTimestamp"), time.time_ns() // 1_000_000
    for name, text in (("beginTimestamp", begin), ("endTimestamp", end)):
        if text and time_ms(name, text) > now_ms:
            raise InvalidArgument(f"--{name}", text, "a time before now")
    if begin and end and time_ms("beginTimestamp", begin) > time_ms("endTimestamp", end):
        raise InvalidArgument("--beginTimestamp", begin, "a time before --endTimestamp")
    if ("brokerName" in given) != ("queueId" in given):
        raise InvalidArgument("--queueId and --brokerName", "one of them", "both: they name one queue together")
    if "offset" in given and "queueId" not in given:
        raise InvalidArgument("--offset", given.text("offset"), "--brokerName and --queueId as well")
    printed = _Printout()
    if "queueId" in given:
        queue = MessageQueue(given.text("topic"), given.text("brokerName"), given.number("queueId", 0))
        reader = await _reader(clients, queue, group=group)
        first, last = await reader.bounds(begin, end)
        offset = given.number("offset", 0)
        if offset > last:
            raise ClientError(f"{queue_text(queue)} no matched msg, offset={offset}")
        first = max(first, offset)
        if last - first > count:
            printed.lines.append(f"The oldler {count} message will be provided")
            last = first + count - 1
        await printed.read(reader, first, last, is_consumed=True)
        return Result(printed.lines, printed.rows)
    silent = await _silent_of(clients, given.text("topic"))
    async for reader in _readers(clients, given.text("topic"), group=group, silent=silent):
        if count <= 0:
            break
        first, last = await reader.bounds(begin, end)
        if last - first > count:
            printed.lines.append(f"The older {count} message of the {reader.queue.queue_id} queue will be provided")
            last, count = first + count - 1, 0
        else:
            count -= last - first
        await printed.read(reader, first, last, is_consumed=True)
    return Result(printed.lines, printed.rows, notices_of(silent))


async def query_cq(clients: ClusterClients, given: Given) -> Result:
    """Show entries of a consume queue, with -g what the group subscribes to."""
    topic, index = given.text("topic"), given.number("index", 0)
    address = given.text("broker")
    if not address:
        address = next(iter((await clients.admin.topic_route(topic)).addresses.values()), "")
    header = QueryConsumeQueue(
        topic=topic,
        queue_id=given.number("queue", 0),
        index=index,
        count=given.number("count", 10),
        consumer_group=given.text("consumer") or None,
    )
    body = (await ask(clients, address, header)).body
    document = parse_body("consume queue", body, dict)
    bar = "=" * 38
    lines: list[str] = []
    if document.get("subscriptionData") is not None:
        lines += ["Subscription data: ", *json.dumps(document["subscriptionData"], indent=2).splitlines(), bar]
    if document.get("filterData") is not None:
        lines += ["Filter data: ", str(document["filterData"]), bar]
    lines += ["Queue data: ", f"max: {document.get('maxQueueIndex')}, min: {document.get('minQueueIndex')}", bar]
    for at, entry in enumerate(document.get("queueData") or (), index):
        get = entry.get
        lines += [
            f"idx: {at}",
            f"ConsumeQueueData{{physicOffset={get('physicOffset')}, physicSize={get('physicSize')}, "
            f"tagsCode={get('tagsCode')}, extendDataJson='{java_text(get('extendDataJson'))}', "
            f"bitMap='{java_text(get('bitMap'))}', eval={java_text(bool(get('eval')))}, msg='{java_text(get('msg'))}'}}",
            bar,
        ]
    return Result(lines, document)
