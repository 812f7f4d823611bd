"""Raft's messages, entries and saved state as bytes. Pure.

```
message   | kind 1 | sender 4 | receiver 4 | term 8 | fields of the kind |
position  | index 8 | term 8 |
entry     | index 8 | term 8 | size 4 | data |
saved     | flags 1 | term 8 | vote 4 | commit 8 | [snapshot: position, size 4, data] | count 4 | entries |
```
All integers are big-endian. Source: docs/formats/controller_log.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any

from orbitmq.errors import FrameError
from orbitmq.raft import (
    Append,
    Appended,
    AppendRejected,
    CampaignNow,
    Entry,
    HardState,
    Heartbeat,
    HeartbeatAnswer,
    InstallSnapshot,
    Message,
    Position,
    PreVoteAnswer,
    PreVoteRequest,
    Saved,
    Snapshot,
    VoteAnswer,
    VoteRequest,
)

_HEAD = Struct(">BIIQ")
_POSITION = Struct(">QQ")
_ENTRY = Struct(">QQI")
_SIZE = Struct(">I")
_NUMBER = Struct(">Q")
_FLAG = Struct(">?")
_SAVED = Struct(">?QIQ")


class _Reader:
    """Takes values from the front of bytes. Raises FrameError where they end too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, layout: Struct) -> tuple[Any, ...]:
        return layout.unpack(self.data(layout.size))

    def number(self) -> int:
        return int(self.take(_NUMBER)[0])

    def flag(self) -> bool:
        return bool(self.take(_FLAG)[0])

    def size(self) -> int:
        return int(self.take(_SIZE)[0])

    def position(self) -> Position:
        return Position(*self.take(_POSITION))

    def data(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._content):
            raise FrameError(f"cut short: {size} bytes are expected at {self._at}, {len(self._content)} are there")
        found = self._content[self._at : end]
        self._at = end
        return found

    def snapshot(self) -> Snapshot:
        position = self.position()
        return Snapshot(position, self.data(self.size()))

    def entries(self) -> tuple[Entry, ...]:
        found = []
        for _ in range(self.size()):
            index, term, size = self.take(_ENTRY)
            found.append(Entry(index, term, self.data(size)))
        return tuple(found)

    def end(self) -> None:
        if self._at != len(self._content):
            raise FrameError(f"{len(self._content) - self._at} bytes too many")


def _position(position: Position) -> bytes:
    return _POSITION.pack(position.index, position.term)


def _entries(entries: Iterable[Entry]) -> bytes:
    parts = [_ENTRY.pack(entry.index, entry.term, len(entry.data)) + entry.data for entry in entries]
    return _SIZE.pack(len(parts)) + b"".join(parts)


def _snapshot(snapshot: Snapshot) -> bytes:
    return _position(snapshot.position) + _SIZE.pack(len(snapshot.data)) + snapshot.data


_Form = tuple[type[Any], Callable[[Any], bytes], Callable[[_Reader], tuple[Any, ...]]]
_FORMS: tuple[_Form, ...] = (
    (PreVoteRequest, lambda m: _position(m.last), lambda r: (r.position(),)),
    (PreVoteAnswer, lambda m: _FLAG.pack(m.is_granted), lambda r: (r.flag(),)),
    (VoteRequest, lambda m: _position(m.last) + _FLAG.pack(m.is_transfer), lambda r: (r.position(), r.flag())),
    (VoteAnswer, lambda m: _FLAG.pack(m.is_granted), lambda r: (r.flag(),)),
    (
        Append,
        lambda m: _position(m.previous) + _entries(m.entries) + _NUMBER.pack(m.commit),
        lambda r: (r.position(), r.entries(), r.number()),
    ),
    (Appended, lambda m: _NUMBER.pack(m.index), lambda r: (r.number(),)),
    (AppendRejected, lambda m: _NUMBER.pack(m.index) + _position(m.hint), lambda r: (r.number(), r.position())),
    (Heartbeat, lambda m: _NUMBER.pack(m.commit) + _NUMBER.pack(m.read_round), lambda r: (r.number(), r.number())),
    (HeartbeatAnswer, lambda m: _NUMBER.pack(m.read_round), lambda r: (r.number(),)),
    (InstallSnapshot, lambda m: _snapshot(m.snapshot), lambda r: (r.snapshot(),)),
    (CampaignNow, lambda m: b"", lambda r: ()),
)
_KINDS = {form[0]: kind for kind, form in enumerate(_FORMS)}


def encode_message(message: Message) -> bytes:
    """Encode one message."""
    kind = _KINDS[type(message)]
    return _HEAD.pack(kind, message.sender, message.receiver, message.term) + _FORMS[kind][1](message)


def decode_message(content: bytes) -> Message:
    """Decode one message.

    Raises:
        FrameError: it is none.
    """
    reader = _Reader(content)
    kind, sender, receiver, term = reader.take(_HEAD)
    if kind >= len(_FORMS):
        raise FrameError(f"a message of Raft of kind {kind}, known are 0 to {len(_FORMS) - 1}")
    type_, _, read = _FORMS[kind]
    fields = read(reader)
    reader.end()
    message: Message = type_(sender, receiver, term, *fields)
    return message


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Encode messages one behind the other."""
    parts = map(encode_message, messages)
    return b"".join(_SIZE.pack(len(part)) + part for part in parts)


def decode_messages(content: bytes) -> list[Message]:
    """Decode messages that stand one behind the other. Raises FrameError."""
    reader, found = _Reader(content), []
    while reader._at < len(content):
        found.append(decode_message(reader.data(reader.size())))
    return found


def encode_saved(saved: Saved) -> bytes:
    """Encode what a node's disk has to know: all of it, or what is new of it."""
    state, snapshot = saved.hard_state, saved.snapshot
    head = _SAVED.pack(snapshot is not None, state.term, state.vote, state.commit)
    return head + (b"" if snapshot is None else _snapshot(snapshot)) + _entries(saved.entries)


def decode_saved(content: bytes) -> Saved:
    """Decode it. Raises FrameError."""
    reader = _Reader(content)
    has_snapshot, *state = reader.take(_SAVED)
    snapshot = reader.snapshot() if has_snapshot else None
    entries = reader.entries()
    reader.end()
    return Saved(HardState(*state), snapshot, entries)
