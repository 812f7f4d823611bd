"""Requests that administrators send to a group's running clients, through their broker, and the broker's own to them."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import Int32, request, wire

__all__ = [
    "ConsumeMessageDirectly",
    "GetClientOffsets",
    "GetClientsOffsets",
    "GetRunningInfo",
    "ResetClientOffset",
]


@request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
@dataclass(frozen=True, slots=True, kw_only=True)
class ResetClientOffset:
    """Broker to client, one-way: go on where the body's table says, in the queues that are yours."""

    group: str
    topic: str
    timestamp_ms: int = wire("timestamp", default=0)
    is_force: bool = False
    queue_id: Int32 = -1


@request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetClientOffsets:
    """Broker to client: how far are you in the queues of this topic?"""

    topic: str
    group: str


@request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetClientsOffsets:
    """Ask a broker how far each of a group's clients is; `client_id`: this one alone."""

    topic: str
    group: str
    client_id: str | None = wire("clientAddr", default=None)


@request(RequestCode.GET_CONSUMER_RUNNING_INFO)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunningInfo:
    """Ask a client, through its broker, for its settings, its queues and its figures; with `jstack_enable` for its stacks."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@request(RequestCode.CONSUME_MESSAGE_DIRECTLY)
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeMessageDirectly:
    """Let one client consume one message now; the broker adds the message itself as the body."""

    consumer_group: str
    client_id: str | None = None
    message_id: str | None = wire("msgId", default=None)
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
