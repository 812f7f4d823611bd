"""Single messages, found by a key, by the client's id, or by the broker's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RemoteRefused, RouteNotFound
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MASTER_ID, TopicRoute
from orbitmq.wire.command import Command
from orbitmq.wire.headers.pull import QueryMessage, ViewMessage
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.stored_messages import decode_answer

COUNT_MAX = 64
"""As many as a broker gives at most, with its defaults."""
_TIME_MAX = (1 << 63) - 1

Tell = Callable[[str, object], Awaitable[Command]]
"""Sends a request to an address, and returns the answer of a broker that does not refuse."""


async def find_by_key(
    route: TopicRoute,
    tell: Tell,
    topic: str,
    key: str,
    *,
    count_max: int = COUNT_MAX,
    begin_ms: int = 0,
    end_ms: int | None = None,
    is_unique: bool = False,
) -> list[StoredMessage]:
    """Ask all brokers of a topic for the newest messages of a key; return them in the order of their store times.

    Raises:
        ClientError: a broker cannot be asked, or refuses for another reason than that it has none.
    """
    header = QueryMessage(
        topic=topic,
        key=key,
        count_max=count_max,
        begin_ms=begin_ms,
        end_ms=_TIME_MAX if end_ms is None else end_ms,
        is_unique_key=is_unique,
    )

    async def ask(broker_name: str, address: str) -> list[StoredMessage]:
        try:
            answer = await tell(address, header)
        except RemoteRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return []
            raise
        return decode_answer(answer.body, broker_name).messages

    brokers = _addresses(route)
    if not brokers:
        raise RouteNotFound(f"no broker of the topic {topic} is registered with the NameServer")
    found = await asyncio.gather(*(ask(name, address) for name, address in brokers.items()))
    # Brokers find by hashes; Java's give what is of another key with the same one, too.
    wanted = [
        message
        for part in found
        for message in part
        if message.topic == topic and (message.message_id == key or (not is_unique and key in message.keys))
    ]
    return sorted(wanted, key=lambda message: message.stored_at_ms)[-count_max:] if count_max > 0 else []


async def find_by_id(route: TopicRoute, tell: Tell, topic: str, message_id: str) -> StoredMessage | None:
    """Return a message by its client's id or by its broker's, None when there is none.

    Raises:
        ClientError: a broker cannot be asked.
    """
    found = await find_by_key(route, tell, topic, message_id, is_unique=True)
    if found:
        return found[-1]
    try:
        host, offset = parse_offset_message_id(message_id)
    except InvalidArgument:
        return None
    names = {address: name for name, address in _addresses(route).items()}
    # An id may hold any address: only brokers of the topic are asked.
    if str(host) not in names:
        return None
    with suppress(RemoteRefused):
        answer = await tell(str(host), ViewMessage(physical_offset=offset, topic=topic))
        for message in decode_answer(answer.body, names[str(host)]).messages:
            if message.topic == topic:
                return message
    return None


def _addresses(route: TopicRoute) -> dict[str, str]:
    """Return for each broker name the address to ask: the master's, a slave's without one."""
    return {
        broker.broker_name: broker.addresses.get(MASTER_ID) or next(iter(broker.addresses.values()))
        for broker in route.brokers
        if broker.addresses
    }
