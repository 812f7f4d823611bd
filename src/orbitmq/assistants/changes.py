"""Tools that change a cluster. Each returns a plan; `orbitmq.assistants.tools` carries it out, or only tells it in a dry run."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from orbitmq.admin import QueueReset, ResetTo, TopicChange
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.dead_letters import DeadLetter, DeadLetterSelection, parse_place
from orbitmq.assistants.answers import Untrusted
from orbitmq.assistants.arguments import (
    RESENT_MAX,
    SENT_BODY_LENGTH_MAX,
    Broker,
    Cluster,
    Group,
    Offset,
    OneTopic,
    Perm,
    Place,
    QueueId,
    Queues,
    ResetKind,
    Time,
    Topic,
    to_ms,
)
from orbitmq.assistants.reading import setting_row
from orbitmq.errors import ClientError, InvalidArgument, OffsetsNotSet, RouteNotFound
from orbitmq.model.message import Message
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT, TopicConfig

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A change before it is made.

    Args:
        summary: what it does, as one sentence that begins with a verb.
        before: the settings, offsets or messages that it changes, as rows.
        after: those that are there afterwards, as rows.
        carry_out: makes the change; returns the rows that are there then.
    """

    summary: str
    before: Rows
    after: Rows
    carry_out: Callable[[], Awaitable[Rows]]


async def create_topic(
    clients: ClusterClients,
    topic: Topic,
    read_queues: Queues = DEFAULT_QUEUE_COUNT,
    write_queues: Queues = DEFAULT_QUEUE_COUNT,
    perm: Perm = 6,
    order: bool = False,
    attributes: Annotated[
        dict[str, str], Field(max_length=16, description='Such as {"+message.type": "FIFO"}, with the sign.')
    ] = {},  # noqa: B006 - pydantic copies it
    cluster: Cluster = None,
    broker: Broker = None,
) -> Plan:
    """Create a topic on every master of a cluster, or on one broker. A topic that exists is not changed by this."""
    if existing := await _configs(clients, topic):
        raise ClientError(f"the topic {topic} exists on {', '.join(sorted(existing))}: use change_topic")
    TopicChange(attributes=attributes)  # checks their names
    masters = await _masters(clients, cluster, broker)
    config = TopicConfig(
        topic=topic,
        read_queue_count=read_queues,
        write_queue_count=write_queues,
        perm=perm,
        order=order,
        attributes=attributes,
    )

    async def carry_out() -> Rows:
        await clients.admin.create_topic(config, cluster=cluster, broker=broker)
        return [setting_row(setting) for setting in (await clients.admin.topic_configs(topic)).items()]

    shown = replace(config, attributes=_attributes({}, attributes))
    after = [setting_row((name, shown)) for name in sorted(masters)]
    return Plan(f"create the topic {topic} on {_names(masters)}", [], after, carry_out)


async def change_topic(
    clients: ClusterClients,
    topic: Topic,
    read_queues: Queues | None = None,
    write_queues: Queues | None = None,
    perm: Perm | None = None,
    order: bool | None = None,
    attributes: Annotated[
        dict[str, str],
        Field(max_length=16, description='{"+message.type": "FIFO"} sets one, {"-message.type": ""} takes it away.'),
    ] = {},  # noqa: B006 - pydantic copies it
    cluster: Cluster = None,
    broker: Broker = None,
) -> Plan:
    """Change settings of a topic on every master that has it; those that are not given stay as they are."""
    await _masters(clients, cluster, broker)
    change = TopicChange(
        read_queue_count=read_queues, write_queue_count=write_queues, perm=perm, order=order, attributes=attributes
    )
    if change == TopicChange():
        raise ClientError("nothing to change: give at least one of read_queues, write_queues, perm, order, attributes")
    present = await clients.admin.topic_configs(topic, cluster=cluster, broker=broker)

    async def carry_out() -> Rows:
        changed = await clients.admin.change_topic(topic, change, cluster=cluster, broker=broker)
        return list(map(setting_row, changed.items()))

    before = list(map(setting_row, present.items()))
    after = [setting_row((name, change.applied_to(config))) for name, config in present.items()]
    for row, config in zip(after, present.values(), strict=True):
        row["attributes"] = _attributes(config.attributes, attributes)
    return Plan(f"change the topic {topic} on {_names(present)}", before, after, carry_out)


async def delete_topic(clients: ClusterClients, topic: Topic, cluster: Cluster = None) -> Plan:
    """Delete a topic with all of its messages from every broker and NameServer. This cannot be undone."""
    await _masters(clients, cluster, None)
    stats = await clients.admin.topic_stats(topic)
    count = sum(found.max_offset - found.min_offset for found in stats.values())
    present = await _configs(clients, topic, cluster)

    async def carry_out() -> Rows:
        await clients.admin.delete_topic(topic, cluster=cluster)
        return []

    before = list(map(setting_row, present.items()))
    return Plan(f"delete the topic {topic} with {count} messages from {_names(present)}", before, [], carry_out)


async def reset_group(
    clients: ClusterClients,
    group: Group,
    topic: Topic,
    to: ResetKind,
    at: Time | None = None,
    offset: Offset = None,
    broker: Broker = None,
    queue_id: QueueId = None,
) -> Plan:
    """Set where a group goes on in a topic: messages come again, or are skipped."""
    goal = _goal(to, at, offset)
    changes = await clients.admin.reset_group(group, topic, goal, broker=broker, queue_id=queue_id, dry_run=True)

    async def carry_out() -> Rows:
        return await _set(clients.admin.reset_group(group, topic, goal, broker=broker, queue_id=queue_id))

    again, skipped = sum(each.again_count for each in changes), sum(each.skipped_count for each in changes)
    summary = f"reset the group {group} in {len(changes)} queues of {topic}: {again} messages come again, {skipped} are skipped"
    return Plan(summary, _offsets(changes, "before"), _offsets(changes, "after"), carry_out)


async def clone_group(clients: ClusterClients, source: Group, target: Group, topic: OneTopic = None) -> Plan:
    """Let the group `target`, which has no client online, go on where `source` is; it is made if it is not there."""
    if source == target:
        raise InvalidArgument("target", target, "another group than source")
    changes = await clients.admin.clone_group(source, target, topic, dry_run=True)

    async def carry_out() -> Rows:
        return await _set(clients.admin.clone_group(source, target, topic))

    summary = f"set the offsets of the group {target} to those of {source} in {len(changes)} queues"
    return Plan(summary, _offsets(changes, "before"), _offsets(changes, "after"), carry_out)


async def resend_dead_letters(
    clients: ClusterClients,
    group: Group,
    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]],
        Field(max_length=RESENT_MAX, description="Only letters with these ids: their own, or their origin's."),
    ] = [],  # noqa: B006 - pydantic copies it
    start: Place = None,
    count: Annotated[int, Field(ge=1, le=RESENT_MAX, description="Letters at most.")] = 100,
    topic: Annotated[
        str | None, Field(min_length=1, max_length=127, description="Send there instead of to where each came from.")
    ] = None,
    again: Annotated[bool, Field(description="Also letters that were sent again before.")] = False,
) -> Plan:
    """Send dead letters of a group to the topics that they came from, for every group that reads those; they also stay."""
    place = None if start is None else parse_place(start)
    selection = DeadLetterSelection(start=place, ids=frozenset(ids), count_max=count)
    only_unsent = not again and selection.is_from_the_beginning
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    async with clients.dead_letters() as client:
        async with aclosing(client.read(group, selection, only_unsent=only_unsent)) as letters:
            async for letter in letters:
                before.append({"place": str(letter.place), "content": Untrusted(origin_id=letter.origin_id)})
                after.append({"place": str(letter.place), "content": _goes_to(letter, topic)})

    async def carry_out() -> Rows:
        sent: list[dict[str, Any]] = []
        try:
            async with clients.dead_letters() as client:
                async with aclosing(
                    client.resend(group, selection, topic=topic, again=again, only_existing=True)
                ) as letters:
                    async for letter, result in letters:
                        goes_to = Untrusted(topic=result.queue.topic, message_id=result.message_id)
                        sent.append({"place": str(letter.place), "status": str(result.status), "content": goes_to})
        except (ClientError, InvalidArgument) as error:
            if not sent:
                raise
            sent.append({"content": Untrusted(problem=str(error))})  # those before it are sent
        return sent

    return Plan(f"send {len(after)} dead letters of the group {group} again", before, after, carry_out)


async def send_message(
    clients: ClusterClients,
    topic: Topic,
    body: Annotated[str, Field(max_length=SENT_BODY_LENGTH_MAX, description="The content of the message.")],
    body_format: Annotated[Literal["text", "base64"], Field(description="How `body` is written.")] = "text",
    tag: Annotated[str | None, Field(max_length=255)] = None,
    keys: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]], Field(max_length=16, description="Without blanks.")
    ] = [],  # noqa: B006 - pydantic copies it
    properties: Annotated[dict[str, str], Field(max_length=64)] = {},  # noqa: B006 - pydantic copies it
) -> Plan:
    """Send one message to a topic that exists."""
    try:
        content = body.encode() if body_format == "text" else base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("body", body, body_format) from None
    to_send = Message(topic, content, tag, keys, properties)

    async def carry_out() -> Rows:
        async with clients.producer() as producer:
            sent = await producer.send(to_send)
        place = {"broker": sent.queue.broker_name, "queue_id": sent.queue.queue_id, "queue_offset": sent.queue_offset}
        return [{"topic": topic, "message_id": sent.message_id, **place, "status": str(sent.status)}]

    after = [{"topic": topic, "body_size": len(content), "tag": tag, "keys": keys}]
    return Plan(f"send a message of {len(content)} bytes to the topic {topic}", [], after, carry_out)


async def _masters(clients: ClusterClients, cluster: str | None, broker: str | None) -> Mapping[str, str]:
    """Return the masters that are meant.

    Raises:
        InvalidArgument: neither is given, and there are several clusters; or no master is called so.
    """
    if cluster is None and broker is None:
        names = sorted((await clients.admin.cluster_info()).clusters)
        if len(names) > 1:
            raise InvalidArgument("cluster", None, f"one of {', '.join(names)}")
    return await clients.admin.masters(cluster=cluster, broker=broker)


async def _configs(clients: ClusterClients, topic: str, cluster: str | None = None) -> dict[str, TopicConfig]:
    try:
        return await clients.admin.topic_configs(topic, cluster=cluster)
    except RouteNotFound:
        return {}


def _attributes(present: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return attributes after changes, whose names have a sign."""
    changed = dict(present)
    for name, value in changes.items():
        if name.startswith("+"):
            changed[name[1:]] = value
        else:
            changed.pop(name[1:], None)
    return changed


def _goal(to: str, at: Any, offset: int | None) -> ResetTo:
    """Return where a group is to go on.

    Raises:
        InvalidArgument: the time or the offset is missing, or there is one that means nothing.
    """
    for name, kind, value in (("at", "time", at), ("offset", "offset", offset)):
        if (value is None) is (to == kind):
            allowed = f"a value, for `to` is {kind}" if to == kind else f"nothing, unless `to` is {kind}"
            raise InvalidArgument(name, None if value is None else str(value), allowed)
    if to == "time":
        return ResetTo.time(to_ms(at))
    if to == "offset":
        return ResetTo.offset(offset or 0)
    return ResetTo.earliest() if to == "earliest" else ResetTo.latest()


async def _set(change: Awaitable[Sequence[QueueReset]]) -> Rows:
    """Wait for a change of offsets; where some queues were not set, a last row says so."""
    try:
        return _offsets(await change, "after")
    except OffsetsNotSet as error:
        return [*_offsets(error.done, "after"), {"problem": str(error)}]


def _offsets(changes: Sequence[QueueReset], which: Literal["before", "after"]) -> Rows:
    return [
        {
            "topic": change.queue.topic,
            "broker": change.queue.broker_name,
            "queue_id": change.queue.queue_id,
            "offset": getattr(change, which),
        }
        for change in changes
    ]


def _goes_to(letter: DeadLetter, topic: str | None) -> Untrusted:
    try:
        return Untrusted(topic=letter.again(topic).topic)
    except InvalidArgument as error:
        return Untrusted(problem=str(error))


def _names(names: Mapping[str, Any]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more brokers" if len(shown) > 8 else "")
