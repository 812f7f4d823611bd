"""Single messages, found by a key, by the client's id, or by the broker's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from orbitmq.admin.each_master import SendRequest, ask_each, notices_of
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, RemoteRefused, RouteNotFound
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import TopicRoute
from orbitmq.wire.headers.pull import QueryMessage, ViewMessage
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.stored_messages import decode_answer

COUNT_MAX = 64
"""As many as one answer of a broker has at most, with its defaults (maxMsgsNumBatch)."""
_LARGE_PAGE = 8 * 1024 * 1024
"""Bytes of records from which on a broker may have ended an answer for its size: it does so before 12 MiB, with messages of 4 MiB."""
_TIME_MAX = (1 << 63) - 1
_LOST_CAUSES = ("connection closed", "lease expired")
"""Of events of a route history: the broker did not unregister."""


class FoundMessages(NamedTuple):
    """What the brokers of a topic answer to a query.

    Args:
        messages: in the order of their store times.
        silent: the brokers that did not answer, and why; they may have more.
        is_cut: there may be more messages at the brokers that answered, older ones for the most part.
    """

    messages: Sequence[StoredMessage]
    silent: Mapping[str, str]
    is_cut: bool = False

    @property
    def notices(self) -> list[str]:
        """What is missing, a line for each reason."""
        cut = [f"these are the newest {len(self.messages)}: {self._more}"] if self.is_cut else []
        return cut + notices_of(self.silent)

    @property
    def _more(self) -> str:
        if not self.messages:
            return "there may be more"
        until = datetime.fromtimestamp(self.messages[0].stored_at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"there may be more, stored until {until.replace('+00:00', 'Z')}"


async def find_by_key(
    route: TopicRoute,
    request: SendRequest,
    topic: str,
    key: str,
    *,
    count_max: int = COUNT_MAX,
    begin_ms: int = 0,
    end_ms: int | None = None,
    is_unique: bool = False,
    body_size_max: int | None = None,
    lost: Mapping[str, str] = MappingProxyType({}),
) -> FoundMessages:
    """Query all brokers of a topic together for the newest messages of a key.

    Args:
        body_size_max: bytes of each body that are kept; None: all.
        lost: brokers that may have messages of the topic and are not in its route, and why.

    Raises:
        ClientError: no broker answers.
    """
    header = QueryMessage(
        topic=topic,
        key=key,
        count_max=count_max,
        begin_ms=begin_ms,
        end_ms=_TIME_MAX if end_ms is None else end_ms,
        is_unique_key=is_unique,
    )
    page_size = max(1, min(count_max, COUNT_MAX))
    found: list[StoredMessage] = []

    def is_wanted(message: StoredMessage) -> bool:
        # Brokers find by hashes; Java's return messages of other keys with the same hash, too.
        return message.topic == topic and (message.message_id == key or (not is_unique and key in message.keys))

    async def ask(broker: str, address: str) -> bool:
        """Collect a broker's messages, page by page backwards in time; return True if it may have more."""
        seen: set[int] = set()
        count = largest = 0
        has_stepped = is_cut = False
        question = header
        while True:
            page = await _query(request, broker, address, question, body_size_max)
            fresh = [message for message in page if message.physical_offset not in seen]
            is_large = sum(message.store_size for message in page) >= _LARGE_PAGE
            if not fresh and (has_stepped or (len(page) < max(1, largest) and not is_large)):
                return is_cut
            if not fresh and len(page) >= page_size:
                # A page and more were stored in the same ms (Java's: second): a query cannot reach behind them.
                return True
            # More than an answer holds may have been stored in the ms that is stepped over.
            is_cut |= (is_large and not fresh) or (has_stepped and bool(fresh))
            seen.update(message.physical_offset for message in fresh)
            largest = max(largest, len(page))
            wanted = list(filter(is_wanted, fresh))
            found.extend(wanted)
            count += len(wanted)
            if count >= count_max:
                return True
            # A page may end between two messages of the same ms: that ms is queried again.
            has_stepped = not fresh
            last_ms = min(message.stored_at_ms for message in page) - has_stepped
            question = replace(header, end_ms=last_ms)

    brokers = route.addresses
    if not brokers:
        raise RouteNotFound(f"no broker of the topic {topic} is registered with the NameServer")
    cuts, silent = await ask_each(brokers, ask, needs_one=True)
    found.sort(key=lambda message: (message.stored_at_ms, message.broker_name, message.physical_offset))
    skipped = max(0, len(found) - max(0, count_max))
    return FoundMessages(found[skipped:], {**lost, **silent}, skipped > 0 or any(cuts.values()))


async def _query(
    request: SendRequest, broker: str, address: str, header: QueryMessage, body_size_max: int | None
) -> Sequence[StoredMessage]:
    try:
        answer = await request(address, header)
    except RemoteRefused as refusal:
        if refusal.code == ResponseCode.QUERY_NOT_FOUND:
            return ()
        raise
    return decode_answer(answer.body, broker, body_size_max=body_size_max).messages


async def find_by_id(
    route: TopicRoute,
    request: SendRequest,
    topic: str,
    message_id: str,
    *,
    body_size_max: int | None = None,
    lost: Mapping[str, str] = MappingProxyType({}),
) -> StoredMessage | None:
    """Return a message by its client's id or by its broker's, None when no broker has it.

    Args: as `find_by_key`.

    Raises:
        ClientError: a broker does not answer, and the others do not have it.
    """
    names = {address: name for name, address in route.addresses.items()}
    host = ""
    with suppress(InvalidArgument):
        at, offset = parse_offset_message_id(message_id)
        host = str(at)
    # An id may hold any address: only brokers of the topic are queried.
    if host in names:
        with suppress(RemoteRefused):
            answer = await request(host, ViewMessage(physical_offset=offset, topic=topic))
            for message in decode_answer(answer.body, names[host], body_size_max=body_size_max).messages:
                if message.topic == topic:
                    return message
    found = await find_by_key(
        route, request, topic, message_id, count_max=1, is_unique=True, body_size_max=body_size_max, lost=lost
    )
    if found.messages:
        return found.messages[-1]
    if found.silent:
        raise ClientError(f"no broker that answers has the message {message_id}; {'; '.join(found.notices)}")
    return None


def find_lost(events: Sequence[Mapping[str, Any]], present: Collection[str]) -> dict[str, str]:
    """Return the brokers whose last event in a topic's route history, newest first, is that they were lost."""
    latest: dict[str, Mapping[str, Any]] = {}
    for event in events:
        latest.setdefault(event["brokerName"], event)
    return {
        name: f"it left the route: {event['cause']}"
        for name, event in sorted(latest.items())
        if name not in present and event["cause"] in _LOST_CAUSES
    }
