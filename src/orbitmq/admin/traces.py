"""A message's way, put together from the traces of its producer and its consumers, Java's or ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from orbitmq.admin.client import AdminClient
from orbitmq.admin.each_master import notices_of
from orbitmq.errors import ClientError, InvalidArgument, RouteNotFound
from orbitmq.model.message import StoredMessage, split_keys
from orbitmq.wire.messages.traces import (
    ConsumeReturnType,
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    Recalled,
    Trace,
    TransactionEnded,
    decode_traces,
)

TRACES_MAX = 1_024
"""Trace messages of one id or key that are read, the newest."""
_SENT = "sent"
_KINDS = {
    MessageKind.HALF: f"{_SENT}, half of a transaction",
    MessageKind.DELAYED: f"{_SENT}, for later",
}


class TraceStep(NamedTuple):
    """One thing that happened to a message.

    Args:
        name: what.
        at_ms: when it began; 0 where unknown.
        cost_ms: how long it took, None where that has no meaning or is not known.
        group: the producer's or consumer's; None for a broker.
        place: a client's host, or a broker's address.
        status: how it ended.
    """

    name: str
    at_ms: int
    cost_ms: int | None
    group: str | None
    place: str
    status: str
    message_id: str
    topic: str | None = None

    @property
    def is_sending(self) -> bool:
        """Whether the message was sent by this, immediately, for later, or as the half of a transaction."""
        return self.name.startswith(_SENT)


class MessageWay(NamedTuple):
    """What is told of the messages of an id or key.

    Args:
        steps: oldest first.
        notices: what is missing, and why.
        is_partial: servers did not answer; there may be more steps.
    """

    steps: Sequence[TraceStep]
    notices: Sequence[str] = ()
    is_partial: bool = False


class _Told(NamedTuple):
    trace: Trace
    client: str


async def find_way(admin: AdminClient, trace_topic: str, key: str) -> MessageWay:
    """Return what is told of the messages of an id or key.

    Raises:
        RouteNotFound: there is no such trace topic.
        ClientError: no broker of the trace topic answers.
    """
    found = await admin.messages_by_key(trace_topic, key, count_max=TRACES_MAX)
    told = list(_told_of(found.messages, key))
    steps, silent = list(way_of(told)), dict(found.silent)
    published = {told.trace.offset_message_id: told.trace for told in told if isinstance(told.trace, Published)}

    async def find_stored(trace: Published) -> None:
        try:
            steps.extend(await _stored(admin, trace))
        except ClientError as error:
            silent[f"the broker at {trace.broker}"] = str(error)

    await asyncio.gather(*map(find_stored, published.values()))
    notices = notices_of(silent)
    if found.is_cut:
        notices.append(f"these are the newest {len(found.messages):,} traces: earlier steps may be missing")
    return MessageWay(in_order(steps), notices, bool(silent))


def in_order(steps: Iterable[TraceStep]) -> list[TraceStep]:
    """Return steps oldest first, but none of a message before it was sent: each host tells by its own clock."""
    steps = sorted(steps, key=lambda step: step.at_ms, reverse=True)
    sent_at_ms = {step.message_id: step.at_ms for step in steps if step.is_sending}  # the first of several

    def place(step: TraceStep) -> tuple[int, int]:
        rank = 0 if step.is_sending else 1 if step.name == "stored" else 2
        return max(step.at_ms, sent_at_ms.get(step.message_id, 0)), rank

    return sorted(steps, key=place)


def _told_of(messages: Iterable[StoredMessage], key: str) -> Iterator[_Told]:
    """Yield the traces of one message id or key; a trace that was told twice comes once."""
    seen: set[Trace] = set()
    for message in messages:
        for trace in decode_traces(message.body):
            keys = split_keys(getattr(trace, "keys", None) or "")
            if trace not in seen and (trace.message_id == key or key in keys):
                seen.add(trace)
                yield _Told(trace, message.born_host.ip)


def way_of(told: Iterable[_Told]) -> Iterator[TraceStep]:
    """Yield the steps that traces tell of; both halves of a consumption are one."""
    begun: dict[tuple[str, str], tuple[ConsumptionBegun, str]] = {}
    ended: list[tuple[ConsumptionEnded, str]] = []
    for trace, client in told:
        if isinstance(trace, ConsumptionBegun):
            begun[trace.request_id, trace.message_id] = trace, client
        elif isinstance(trace, ConsumptionEnded):
            ended.append((trace, client))
        else:
            yield _producers_step(trace, client)
    for end, client in ended:
        begin, _ = begun.pop((end.request_id, end.message_id), (None, ""))
        yield _consumed(begin, end, client)
    for begin, client in begun.values():
        yield TraceStep(_attempt(begin), begin.at_ms, None, begin.group, client, "begun", begin.message_id)


def _producers_step(trace: Published | TransactionEnded | Recalled, client: str) -> TraceStep:
    common = trace.at_ms, trace.group, client, trace.message_id, trace.topic
    at_ms, group, place, message_id, topic = common
    if isinstance(trace, Published):
        name = _KINDS.get(trace.kind, _SENT)
        status = "success" if trace.is_success else "failed"
        return TraceStep(name, at_ms, trace.cost_ms, group, place, status, message_id, topic)
    if isinstance(trace, TransactionEnded):
        name = "decided, when asked" if trace.is_asked else "decided"
        return TraceStep(name, at_ms, None, group, place, trace.state, message_id, topic)
    return TraceStep(
        "taken back", at_ms, None, group, place, "success" if trace.is_success else "failed", message_id, topic
    )


def _consumed(begin: ConsumptionBegun | None, end: ConsumptionEnded, client: str) -> TraceStep:
    status = "success" if end.is_success else _outcome(end.outcome)
    if begin is None:
        return TraceStep("consumed", end.at_ms, end.cost_ms, end.group, client, status, end.message_id)
    return TraceStep(_attempt(begin), begin.at_ms, end.cost_ms, begin.group, client, status, end.message_id)


def _attempt(begin: ConsumptionBegun) -> str:
    return "consumed" if not begin.retries else f"consumed again ({begin.retries})"


def _outcome(code: int) -> str:
    name = ConsumeReturnType(code).name if code in list(ConsumeReturnType) else str(code)
    return "failed" if code == ConsumeReturnType.FAILED else f"failed: {name.lower().replace('_', ' ')}"


async def _stored(admin: AdminClient, published: Published) -> Sequence[TraceStep]:
    """Return where a message lies, by its broker's own clock; nothing when it is gone."""
    try:
        message = await admin.message_by_id(published.topic, published.offset_message_id)
    except (InvalidArgument, RouteNotFound):
        return ()
    if message is None:
        return ()
    status = f"{message.broker_name} queue {message.queue_id} offset {message.queue_offset}"
    step = TraceStep(
        "stored", message.stored_at_ms, None, None, published.broker, status, published.message_id, published.topic
    )
    return (step,)
