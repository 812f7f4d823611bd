"""Queries of messages by a key, by the client's message id, or by the broker's."""

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
"""Messages in one answer at most, with a broker's defaults (maxMsgsNumBatch)."""
_SIZE_LIMITED_PAGE = 8 * 1024 * 1024
"""Bytes of records with which an answer may have reached its size limit: 12 MiB, less a message of up to 4 MiB."""
_TIME_MAX = (1 << 63) - 1
_LOST_CAUSES = ("connection closed", "lease expired")
"""Causes in a route history with which a broker left without unregistering."""


class FoundMessages(NamedTuple):
    """Messages that brokers returned for a query.

    Args:
        messages: in the order of their store times.
        silent: the brokers that did not answer, and why; they may have more.
        is_cut: the brokers that answered may have more, mostly older ones.
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
    """Return the newest messages of a key, from all brokers of a topic at the same time.

    Args:
        body_size_max: bytes of each body that are kept; None: all.
        lost: brokers that have left the topic's route and may have messages of it, and why.

    Raises:
        RouteNotFound: the topic has no broker.
        ClientError: no broker answers.
    """
    brokers = route.addresses
    if not brokers:
        raise RouteNotFound(f"no broker of the topic {topic} is registered with the NameServer")
    query = QueryMessage(
        topic=topic,
        key=key,
        count_max=count_max,
        begin_ms=begin_ms,
        end_ms=_TIME_MAX if end_ms is None else end_ms,
        is_unique_key=is_unique,
    )
    search = _KeySearch(request, query, body_size_max)
    has_more, silent = await ask_each(brokers, search.read_broker, needs_one=True)
    found = search.found
    found.sort(key=lambda message: (message.stored_at_ms, message.broker_name, message.physical_offset))
    surplus = max(0, len(found) - max(0, count_max))
    return FoundMessages(found[surplus:], {**lost, **silent}, surplus > 0 or any(has_more.values()))


class _KeySearch:
    """Collects a key's messages from brokers, each queried page by page, backwards in time."""

    def __init__(self, request: SendRequest, query: QueryMessage, body_size_max: int | None) -> None:
        self._request, self._query, self._body_size_max = request, query, body_size_max
        self.found: list[StoredMessage] = []

    async def read_broker(self, broker: str, address: str) -> bool:
        """Collect one broker's messages; return True if it may have more."""
        count_max, query = self._query.count_max, self._query
        seen: set[int] = set()
        count = largest_page = 0
        has_skipped_ms = may_miss = False
        while True:
            page = await self._read_page(broker, address, query)
            fresh = [message for message in page if message.physical_offset not in seen]
            is_size_limited = sum(message.store_size for message in page) >= _SIZE_LIMITED_PAGE
            if not fresh and (has_skipped_ms or (len(page) < max(1, largest_page) and not is_size_limited)):
                return may_miss
            if not fresh and len(page) >= max(1, min(count_max, COUNT_MAX)):
                # A page and more were stored in the same ms (Java's: second): a query cannot reach behind them.
                return True
            # The skipped ms may hold more messages than an answer has room for.
            may_miss |= (is_size_limited and not fresh) or (has_skipped_ms and bool(fresh))
            seen.update(message.physical_offset for message in fresh)
            largest_page = max(largest_page, len(page))
            matching = list(filter(self._matches, fresh))
            self.found.extend(matching)
            count += len(matching)
            if count >= count_max:
                return True
            # A page may end between two messages of the same ms: that ms is queried again, then skipped.
            has_skipped_ms = not fresh
            query = replace(query, end_ms=min(message.stored_at_ms for message in page) - has_skipped_ms)

    async def _read_page(self, broker: str, address: str, query: QueryMessage) -> Sequence[StoredMessage]:
        try:
            answer = await self._request(address, query)
        except RemoteRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return ()
            raise
        return decode_answer(answer.body, broker, body_size_max=self._body_size_max).messages

    def _matches(self, message: StoredMessage) -> bool:
        """Return True if a message has the key, not only its hash: Java's brokers return both."""
        key = self._query.key
        has_key = message.message_id == key or (not self._query.is_unique_key and key in message.keys)
        return has_key and message.topic == self._query.topic


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
    address = ""
    with suppress(InvalidArgument):
        host, offset = parse_offset_message_id(message_id)
        address = str(host)
    # An id may hold any address: only brokers of the topic are queried.
    if address in names:
        with suppress(RemoteRefused):
            answer = await request(address, ViewMessage(physical_offset=offset, topic=topic))
            for message in decode_answer(answer.body, names[address], body_size_max=body_size_max).messages:
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
    """Return the brokers that a topic's route history, newest event first, calls lost, and why; not those `present`."""
    latest: dict[str, Mapping[str, Any]] = {}
    for event in events:
        latest.setdefault(event["brokerName"], event)
    return {
        name: f"it left the route: {event['cause']}"
        for name, event in sorted(latest.items())
        if name not in present and event["cause"] in _LOST_CAUSES
    }
