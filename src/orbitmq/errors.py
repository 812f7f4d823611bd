"""Every exception this package raises, as one tree.

OrbitError
├── FrameError            not our protocol: the connection is closed, nothing is answered
├── Rejected              understood and refused: answered with a response code and a remark
│   └── HeaderError           a typed header or a body lacks a field or holds a bad value
├── InvalidArgument       a caller's value is out of its range: names field, value and limit (also a ValueError)
│   ├── ConfigError           the same, for a configuration key, option or file
│   └── InvalidExpression     an SQL92 expression means nothing: says what is wrong, and where
├── StoreError            the message store cannot do what was asked
│   ├── CorruptRecord         stored bytes do not add up: recovery decides
│   ├── DamagedLog            files of a log are missing or cut short
│   ├── SyncFailed            what was written did not reach the disk: the store is fenced
│   ├── DescriptorShortage    a file could not be opened to be synced: it is tried again (also an OSError)
│   ├── NotWritten            the disk did not take bytes that its caller can still write again (also an OSError)
│   ├── FileCut               a file in use was cut from outside (also an OSError)
│   └── StoreUnavailable      the store is fenced, shutting down or out of space
│       ├── StoreBusy             too much waits for the disk: try again
│       └── IndexDamaged          a search cannot say what there is
├── RaftError             a Raft node cannot do what was asked
│   ├── NotLeader             it does not lead: names the leader, if it knows
│   ├── OutcomeUnknown        a proposal was taken, and may be agreed upon still
│   ├── ProposalsFull         too much waits for a majority: try again
│   ├── UnreadableState       its log or snapshot holds what this version cannot read: it must stop
│   ├── LogDiverged           it lacks or contradicts what is committed: its disk has lost something, it must stop
│   └── EtcdError             etcd, in place of a log of Raft, cannot do what was asked
│       ├── EtcdAnswerTooLarge    its answer has more bytes than are read
│       ├── EtcdRefused           it answers with an error
│       └── EtcdUnreachable       it does not answer
├── JobFailed             a job ended early: started again, it goes on where it was
└── ClientError           a remote call did not succeed
    ├── ConnectionFailed      no connection, or it broke before the answer came
    │   └── ConnectionBroken      the latter: what was asked may have been done
    ├── RequestTimeout        no answer in time
    ├── RemoteRefused         the server answered with a code other than SUCCESS
    ├── RouteNotFound         no NameServer knows a route for the topic
    │   └── NoMaster              the brokers that it names have no master now
    ├── GroupNotFound         no broker knows the consumer group
    ├── NoNameServer          none of the configured NameServers could be asked
    ├── PartlyDone            a change was made at some servers and not at others; `done` lists those where it was
    │   └── OffsetsNotSet         some queues of a group were not set to another offset; `done` lists those that were
    └── SendFailed            every attempt to send failed; `causes` lists them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class OrbitError(Exception):
    """Root of every exception that orbitmq raises on purpose."""


class FrameError(OrbitError):
    """The bytes are not a RocketMQ remoting frame; the connection cannot be used any more."""


class Rejected(OrbitError):
    """A request that was understood and is refused.

    Args:
        code: the response code that the peer receives.
        remark: the text that the peer receives.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"[{code}] {remark}")
        self.code = code
        self.remark = remark


class HeaderError(Rejected):
    """A header or a body lacks a field or holds a value that does not parse."""

    def __init__(self, remark: str) -> None:
        super().__init__(1, remark)


class InvalidArgument(OrbitError, ValueError):
    """A value is outside its range. The message names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {_shorten(value)} is not allowed, expected {allowed}")
        self.field = field
        self.value = value
        self.allowed = allowed


class ConfigError(InvalidArgument):
    """A configuration key, option or file holds a value that is not allowed."""


class InvalidExpression(InvalidArgument):
    """An SQL92 expression means nothing.

    Args:
        expression: its text.
        reason: what is wrong with it, and where.
    """

    def __init__(self, expression: str, reason: str) -> None:
        super().__init__("sql", expression, f"an SQL92 expression: {reason}")
        self.reason = reason


class StoreError(OrbitError):
    """The message store cannot do what was asked."""


class CorruptRecord(StoreError):
    """Stored bytes do not add up.

    Args:
        physical_offset: where the record starts in the log, in bytes.
        reason: what does not add up.
    """

    def __init__(self, physical_offset: int, reason: str) -> None:
        super().__init__(f"record at physical offset {physical_offset}: {reason}")
        self.physical_offset = physical_offset
        self.reason = reason


class DamagedLog(StoreError):
    """Files of a log are missing or cut short. What is derived from another log is rebuilt then."""


class SyncFailed(StoreError):
    """The disk did not take what was written before: nothing that follows may be acknowledged.

    Args:
        error: what the sync said.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(f"a sync failed: {error}")
        self.error = error


class DescriptorShortage(StoreError, OSError):
    """There is no descriptor or memory left to open a file with, so the disk was not even asked to sync it.

    What was written is as unsynced as before, and a later sync tells the truth about it.
    """


class NotWritten(StoreError, OSError):
    """The disk did not take bytes that are still in memory: nothing is lost, and they can be written again."""


class FileCut(StoreError, OSError):
    """A file of the log that is in use was cut or removed from outside: what was in it is gone."""


class StoreUnavailable(StoreError):
    """The store does not take writes now: fenced after an I/O error, shutting down or out of space."""


class StoreBusy(StoreUnavailable):
    """More waits for the disk than may: the store takes writes again when the disk has caught up."""


class IndexDamaged(StoreUnavailable):
    """An index file is damaged: a search in it would leave messages out, and say nothing."""


class RaftError(OrbitError):
    """A Raft node cannot do what was asked."""


class NotLeader(RaftError):
    """The node does not lead, or hands its office over just now.

    Args:
        leader: the node that does, or is about to; None when unknown.
    """

    def __init__(self, leader: int | None) -> None:
        super().__init__("no leader is known" if leader is None else f"node {leader} leads")
        self.leader = leader


class OutcomeUnknown(RaftError):
    """A proposal was taken, and may be agreed upon still, or not: this node will not know."""


class ProposalsFull(RaftError):
    """As many bytes of proposals wait for a majority as may; later there is room again."""


class UnreadableState(RaftError):
    """A command or a snapshot that this version cannot read: a node that went on would differ from the others."""


class LogDiverged(RaftError):
    """A log lacks or contradicts an entry that is committed. Nothing but a loss on a disk explains it."""


class EtcdError(RaftError):
    """etcd, which keeps what controllers agree upon, cannot do what was asked, or answers with what cannot be read."""


class EtcdAnswerTooLarge(EtcdError):
    """An answer has more bytes than are read."""


class EtcdRefused(EtcdError):
    """etcd answers with an error.

    Args:
        code: gRPC's; 0 when it says none.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class EtcdUnreachable(EtcdError):
    """An endpoint gives no answer.

    Args:
        was_sent: the request may have arrived, and may have been carried out.
    """

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent


class JobFailed(OrbitError):
    """A job ended before its work was done. What it has written is kept; started again, it goes on there."""


class ClientError(OrbitError):
    """A remote call did not succeed."""


class ConnectionFailed(ClientError):
    """There is no connection to the peer, or it broke before the answer came.

    Args:
        parts: what the error is about, if anything, and what happened.
    """

    def __init__(self, *parts: str) -> None:
        super().__init__(": ".join(parts))


class ConnectionBroken(ConnectionFailed):
    """The connection broke before the answer came: what was asked may have been done."""


class RequestTimeout(ClientError):
    """The peer did not answer in time."""


_NO_CREDENTIALS = "username cannot be null"
"""The remark of a server, Java's or ours, that refuses unsigned requests."""
_NO_CREDENTIALS_HINT = (
    " This client has no credentials: give it some (`credentials=`; on the command line `--security FILE`)"
)
_NO_NAME_SERVER = tuple(f"request type {code} not supported" for code in (105, 106, 206))
"""Remarks of a server that knows no routes, no clusters or no list of topics: a broker, Java's or ours."""
_NO_NAME_SERVER_HINT = ": it is not a NameServer"
_NO_EXPRESSIONS = "The broker does not support consumer to filter message by"
"""The remark of a broker, Java's or ours, that filters by tags alone; its code is 1, which most other refusals with it leave open."""
_NO_EXPRESSIONS_HINT = ": set enablePropertyFilter=true at the broker, or filter by tags"
_UNPARSABLE = 23
"""SUBSCRIPTION_PARSE_FAILED: the broker cannot read the expression."""


class RemoteRefused(ClientError):
    """The peer answered with a code other than SUCCESS.

    Args:
        code: the response code.
        remark: the peer's text, None when it gave none.
        address: of the server that answered, as host:port.
    """

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        told = (remark or "").strip() or "no remark"
        hints = {
            _NO_CREDENTIALS: _NO_CREDENTIALS_HINT,
            **dict.fromkeys(_NO_NAME_SERVER, _NO_NAME_SERVER_HINT),
            _NO_EXPRESSIONS: _NO_EXPRESSIONS_HINT,
        }
        hint = next((hint for opening, hint in hints.items() if told.startswith(opening)), "")
        super().__init__(f"{address} answered code {code}: {told}{hint}")
        self.code = code
        self.remark = remark
        self.address = address

    @property
    def is_final(self) -> bool:
        """Whether the same request is refused again whenever it is repeated, until a setting or the request is another."""
        return self.code == _UNPARSABLE or (self.remark or "").startswith(_NO_EXPRESSIONS)


class RouteNotFound(ClientError):
    """No NameServer knows a route for the topic."""


class NoMaster(RouteNotFound):
    """The topic has queues, and no broker of their names leads: another one may in a moment."""


class GroupNotFound(ClientError):
    """No broker knows the consumer group."""


class NoNameServer(ClientError):
    """None of the configured NameServers could be asked."""


class SendFailed(ClientError):
    """Every attempt to send failed.

    Args:
        message: what was tried and what to try next.
        causes: the error of each attempt, in order.
    """

    def __init__(self, message: str, causes: Sequence[BaseException] = ()) -> None:
        super().__init__(message)
        self.causes = tuple(causes)


class PartlyDone(ClientError):
    """A change was made at some servers, and not at others.

    Args:
        message: where it was made, where not, and why.
        done: what was done, or the names of the servers where it was.
    """

    def __init__(self, message: str, done: Sequence[Any]) -> None:
        super().__init__(message)
        self.done = tuple(done)


class OffsetsNotSet(PartlyDone):
    """Some queues of a group could not be set to another offset; all others were.

    Args:
        message: which ones, and why.
        done: those that were set (`orbitmq.admin.QueueReset`).
    """


def _shorten(value: object, size_max: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= size_max else f"{text[:size_max]}… ({len(text)} characters)"
