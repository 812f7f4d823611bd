"""One message: found by its id or a key, shown as text, JSON and hex, with its way through clients that trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from starlette.requests import Request

from orbitmq.admin import AdminClient
from orbitmq.admin.actions import ACTIONS
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.dead_letters import DeadLetter
from orbitmq.admin.each_master import notices_of
from orbitmq.admin.group_client import GroupAdmin
from orbitmq.admin.message_ranges import ranges_from, ranges_of_time, read_ranges
from orbitmq.admin.messages import FoundMessages
from orbitmq.admin.traces import MessageWay, find_way
from orbitmq.body_schemas import Schema
from orbitmq.client.consume.start_offsets import OffsetRange
from orbitmq.client.send.result import SendResult
from orbitmq.dashboard.answers import Page, link, missing
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.reading import BODY_BYTES_SHOWN, summary
from orbitmq.dashboard.requests import MESSAGE_FORM_SIZE_MAX
from orbitmq.dashboard.watching import watch_of
from orbitmq.errors import HeaderError, InvalidArgument, OrbitError, RouteNotFound
from orbitmq.model.message import Message, StoredMessage

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
_SIZE_SHOWN = 64 * 1024
_PRETTY_SIZE_MAX = 4 * _SIZE_SHOWN
"""Characters of JSON with indents; deep JSON would take a thousand times as many as its body."""
_TOO_LONG = "too long to be shown"
_HEX_WIDTH = 16
_GROUPS_MAX = 20
"""Groups of a topic whose clients can be asked to consume a message."""
_KNOWN_MAX = 1_000
"""Topics that the form completes, of the last look at the cluster."""
RANGE_COUNT_MAX = 100
"""Messages of a time, or from an offset on, that one page shows."""
TEXT_COUNT_MAX = 1_000
"""Messages that are searched for a text at a time, the oldest first."""
TEXT_BYTES_MAX = 64 * 1024
"""Bytes of each body that are searched."""
KEY_COUNT_MAX = 64
"""Messages of a key that one page shows."""
DELAY_S_MAX = 40 * 86_400


async def messages(request: Request, clients: ClusterClients) -> Page:
    """Find messages of a topic: by an id or a key, up to a time, from a time to another one, or from an offset of a queue on.

    Of a time, or from an offset on, those whose bodies contain a text. Without any of these it shows the form to ask with.
    """
    form = Form(dict(request.query_params))
    topic, wanted = form.text("topic", ""), form.text("q", "")
    begin, queue, text = form.text("begin", ""), form.text("queue", ""), form.text("text", "")
    found: list[dict[str, Any]] = []
    notices: Sequence[str] = ()
    is_cut, searched = False, None
    if topic and wanted:
        end_ms = form.time_ms("end", 2**53)
        one, by_key = await asyncio.gather(
            _by_id(clients.admin, topic, wanted),
            clients.admin.messages_by_key(
                topic, wanted, count_max=KEY_COUNT_MAX, end_ms=end_ms, body_size_max=BODY_BYTES_SHOWN
            ),
        )
        answer = by_key if one is None else FoundMessages([one], {})
        found, notices, is_cut = [summary(message) for message in answer.messages], answer.notices, answer.is_cut
    elif topic and (begin or queue):
        in_range = await _in_range(form, clients, topic, text)
        found, is_cut, notices = in_range.rows, in_range.is_cut, in_range.notices
        searched = _searched(in_range, form.time_ms("begin", 0)) if text else None
    values = {
        "known_topics": sorted(watch_of(request).lists.topics)[:_KNOWN_MAX],
        "topic": topic,
        "q": wanted,
        "begin": begin,
        "end": form.text("end", ""),
        "broker": form.text("broker", ""),
        "queue": queue,
        "offset": form.text("offset", ""),
        "text": text,
        "searched": searched,
        "is_asked": bool(topic and (wanted or begin or queue)),
        "is_cut": is_cut,
        "missing": notices,
        "messages": found,
    }
    return Page("messages.html", "Messages", values)


class _InRange(NamedTuple):
    """The oldest messages of a time, or of a queue from an offset on.

    Args:
        is_complete: False: some queues were not read in time.
        is_cut: there may be more.
        read_count: messages that were searched for the text; all, where there is none.
        last_ms: when the last of them was stored; None: there was none.
    """

    rows: list[dict[str, Any]]
    is_complete: bool
    is_cut: bool
    notices: list[str]
    read_count: int
    last_ms: int | None


def _searched(found: _InRange, begin_ms: int) -> dict[str, Any]:
    """Return what was searched for a text; `next` is the time from which on to search for more, None where there is no more to be read."""
    is_more = found.is_complete and found.is_cut
    is_later = found.last_ms is not None and found.last_ms > begin_ms  # else a link would lead to the same messages
    return {
        "count": found.read_count,
        "last_ms": found.last_ms,
        "is_complete": found.is_complete,
        "next": _iso_text(found.last_ms) if is_more and is_later and found.last_ms is not None else None,
    }


def _iso_text(at_ms: int) -> str | None:
    """Return a time as `begin` takes it; None for one that no calendar has."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz=UTC).replace(tzinfo=None).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return None


async def _in_range(form: Form, clients: ClusterClients, topic: str, text: str) -> _InRange:
    """Return the messages whose bodies contain a text, in any case, among the oldest; without a text the oldest."""
    count = TEXT_COUNT_MAX if text else RANGE_COUNT_MAX

    def make(message: StoredMessage) -> dict[str, Any] | None:
        return summary(message) if text.lower() in message.body.decode("utf-8", "replace").lower() else None

    broker, queue_id = form.text("broker", "") or None, form.number("queue", 0, 2**31 - 1, -1)
    async with clients.short_reader(TEXT_BYTES_MAX if text else BODY_BYTES_SHOWN, is_careful=True) as reader:
        queues = [
            queue
            for queue in await reader.queues(topic)
            if broker in (None, queue.broker_name) and queue_id in (-1, queue.queue_id)
        ]
        if not queues:
            raise InvalidArgument("queue", form.raw("queue"), f"a queue of {topic}")
        if form.text("begin", ""):
            begin_ms, end_ms = form.time_ms("begin", 0), form.time_ms("end", 2**53)
            ranges, silent = await ranges_of_time(reader, queues, begin_ms, end_ms)
        else:
            begin_ms, end_ms = 0, 2**53
            ranges, silent = await ranges_from(reader, queues, form.number("offset", 0, 2**63 - 1, 0))
        firsts = {queue: OffsetRange(at.begin, min(at.end, at.begin + count)) for queue, at in ranges.items()}
        read, is_complete = await read_ranges(reader, firsts, count, make)
    inside = [(at, row) for at, row in read if begin_ms <= at.stored_at_ms <= end_ms]
    return _InRange(
        rows=[row for _, row in inside if row is not None],
        is_complete=is_complete,
        is_cut=len(inside) >= count or not is_complete,
        notices=notices_of({**await clients.admin.missing_masters_of(topic), **silent}),
        read_count=len(inside),
        last_ms=inside[-1][0].stored_at_ms if inside else None,
    )


async def _by_id(admin: AdminClient, topic: str, wanted: str) -> StoredMessage | None:
    try:
        return await admin.message_by_id(topic, wanted, body_size_max=BODY_BYTES_SHOWN)
    except OrbitError:
        return None  # a key is not an id: brokers say so in different words


async def message(request: Request, clients: ClusterClients) -> Page:
    """Show one message by its id."""
    admin = clients.admin
    topic, wanted = request.path_params["topic"], request.path_params["id"]
    # Together: a broker that does not answer takes its time of each of them.
    found, way, answering = await asyncio.gather(
        admin.message_by_id(topic, wanted), _way(admin, wanted), _answering(admin)
    )
    if found is None:
        return Page("error.html", "No message", {"error": f"{topic} has no message {wanted}"}, 404)
    groups, problem = await _groups(answering, found)
    values = {
        "message": _document(found) | await asyncio.to_thread(_decoded, found, request.app.state.schemas.get(topic)),
        "way": _steps(way),
        "missing": [*way.notices, *filter(None, [problem])],
        "groups": groups,
    }
    return Page("message.html", wanted, values)


async def _answering(admin: AdminClient) -> tuple[GroupAdmin, Mapping[str, str]] | str:
    """Return what `groups_that_answer` does, or why it does not."""
    try:
        return await admin.groups_that_answer()
    except OrbitError as error:
        return str(error)


async def _groups(
    answering: tuple[GroupAdmin, Mapping[str, str]] | str, message: StoredMessage
) -> tuple[dict[str, list[str]], str | None]:
    """Return the groups that read a message's topic and are online, with their clients, and what is missing of them."""
    found: dict[str, list[str]] = {}
    if isinstance(answering, str):
        return found, answering
    admin, problems = answering
    try:
        names = (await admin.of_topic(message.topic, broker=message.broker_name))[:_GROUPS_MAX]
        for status in await asyncio.gather(*map(admin.status, names)):
            if status.clients:
                found[status.group] = [client.client_id for client in status.clients]
    except OrbitError as error:
        return found, str(error)
    return found, missing(problems)


def _document(found: StoredMessage) -> dict[str, Any]:
    shown = found.body[:_SIZE_SHOWN]
    return {
        **summary(found),
        "born_at_ms": found.born_at_ms,
        "born_host": f"{found.born_host.ip}:{found.born_host.port}",
        "reconsume_times": found.reconsume_times,
        "physical_offset": found.physical_offset,
        "properties": dict(sorted(found.properties.items())),
        "decode_error": found.decode_error,
        "body_size": len(found.body),
        "is_cut": len(found.body) > len(shown),
        "text": shown.decode("utf-8", "replace"),
        "json": _pretty(shown),
        "hex": _hex(shown[: 4 * 1024]),
    }


def _decoded(found: StoredMessage, schema: Schema | None) -> dict[str, str | None]:
    """Return the body as its topic's schema reads it, as JSON on several lines, or why it does not."""
    decoded = problem = None
    try:
        if schema is not None and len(found.body) > _PRETTY_SIZE_MAX:
            decoded = _TOO_LONG  # four megabytes of Protobuf may be two million messages: six seconds
        elif schema is not None:
            decoded = _pretty(json.dumps(schema(bytes(found.body))).encode()) or _TOO_LONG
    except HeaderError as error:
        problem = error.remark
    return {"decoded": decoded, "schema_error": problem}


def _pretty(body: bytes) -> str | None:
    """Return a body that is JSON with its parts on lines of their own; None when it is none, or too much with its indents."""
    parts, size = [], 0
    try:
        for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(json.loads(body)):
            parts.append(part)
            size += len(part)
            if size > _PRETTY_SIZE_MAX:
                return None
    except (ValueError, RecursionError):
        return None
    return "".join(parts)


def _hex(body: bytes) -> str:
    lines = []
    for at in range(0, len(body), _HEX_WIDTH):
        part = body[at : at + _HEX_WIDTH]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:06x}  {part.hex(' '):<{3 * _HEX_WIDTH}} {text}")
    return "\n".join(lines)


async def _way(admin: AdminClient, message_id: str) -> MessageWay:
    """Return what clients have traced, nothing where no client does."""
    try:
        return await find_way(admin, TRACE_TOPIC, message_id)
    except RouteNotFound:
        return MessageWay(())
    except OrbitError as error:
        return MessageWay((), [f"without traces: {error}"])


def _steps(way: MessageWay) -> list[dict[str, Any]]:
    return [
        {
            "step": step.name,
            "at_ms": step.at_ms,
            "cost_ms": step.cost_ms,
            "group": step.group,
            "status": step.status,
            "place": step.place,
        }
        for step in way.steps
    ]


async def _send(form: Form, clients: ClusterClients) -> Done:
    topic = form.text("topic")
    message = Message(
        topic,
        form.raw("body", None).encode(),
        form.text("tag", "") or None,
        form.text("keys", "").split(),
        _properties(form.raw("properties", None)),
        delay_ms=form.number("delay_s", 0, DELAY_S_MAX, 0) * 1000,
    )
    async with clients.producer() as producer:
        sent = await producer.send(message)
    return _sent(sent, f"sent to {topic}")


async def _send_again(form: Form, clients: ClusterClients) -> Done:
    found = await _wanted(form, clients)
    target = await _target(form, found, clients)
    async with clients.producer() as producer:
        sent = await producer.send(DeadLetter(found).again(target))
    return _sent(sent, "sent again")


async def _ask_send_again(form: Form, clients: ClusterClients) -> Question:
    found = await _wanted(form, clients)
    target = await _target(form, found, clients)
    text = f"Send this message to {target} as a new one? Every group that reads the topic gets it."
    groups = await clients.admin.topic_groups(target)
    return Question(
        text=text,
        button="Send again",
        columns=("Group",),
        rows=[(group,) for group in groups],
    )


async def _target(form: Form, found: StoredMessage, clients: ClusterClients) -> str:
    """Return where a message is sent again.

    Raises:
        InvalidArgument: brokers alone send there, as to dead letters.
        RouteNotFound: there is no such topic.
    """
    target = form.text("to", "") or found.topic
    await ACTIONS["send_message_again"].check(clients.admin, {"to": target})
    return target


async def _consume(form: Form, clients: ClusterClients) -> Done:
    found = await _wanted(form, clients)
    group, client_id = form.text("group"), form.text("client")
    result = await clients.admin.consume_directly(group, client_id, found)
    remark = f" ({result.remark})" if result.remark else ""
    return Done(
        text=f"{client_id} has consumed it: {result.outcome} after {result.spent_ms} ms{remark}",
        location=link("topics", found.topic, "messages", form.raw("id")),
        after=str(result.outcome),
    )


async def _ask_consume(form: Form, clients: ClusterClients) -> Question:
    await _wanted(form, clients)
    text = (
        f"Let {form.text('client')} of {form.text('group')} consume this message now? Its handler runs; offsets stay."
    )
    return Question(text=text, button="Consume")


async def _wanted(form: Form, clients: ClusterClients) -> StoredMessage:
    topic, wanted = form.text("topic"), form.raw("id")
    found = await clients.admin.message_by_id(topic, wanted)
    if found is None:
        raise InvalidArgument("id", wanted, f"the id of a message of {topic}")
    return found


def _properties(text: str) -> dict[str, str]:
    """Return the properties of lines `NAME=VALUE`."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise InvalidArgument("properties", line, "NAME=VALUE, one a line")
        found[name.strip()] = value.strip()
    return found


def _sent(sent: SendResult, text: str) -> Done:
    place = f"{sent.queue.broker_name} queue {sent.queue.queue_id} offset {sent.queue_offset}"
    return Done(
        text=f"{sent.message_id} is {text}: {place}",
        location=link("topics", sent.queue.topic),
        after={"id": sent.message_id, "place": place},
    )


CHANGES = (
    Change(
        path="/topics/{topic}/send",
        action="send_message",
        make=_send,
        size_max=MESSAGE_FORM_SIZE_MAX,
    ),
    Change(
        path="/topics/{topic}/messages/{id}/again",
        action="send_message_again",
        ask=_ask_send_again,
        make=_send_again,
    ),
    Change(
        path="/topics/{topic}/messages/{id}/consume",
        action="consume_directly",
        ask=_ask_consume,
        make=_consume,
    ),
)
