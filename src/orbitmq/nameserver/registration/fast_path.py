"""Registrations that repeat the last one byte for byte, all but their opaque: answered without parsing even their header.

A broker that says nothing new writes the same header again, too. Its text names the broker, and the answer; what is left to
do is to compare the body with the last one, and to renew the lease.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.codes import RequestCode
from orbitmq.nameserver.registration.body_cache import UnchangedRegistrations
from orbitmq.nameserver.registration.queue import Unfinished
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.values import BrokerKey
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import LENGTH, PREFIX, Frame
from orbitmq.wire.header_text import OPAQUE, OPAQUE_SIZE, PROBE, CutAnswer, cut_answer, is_plain_opaque, split_header

TEXTS_MAX = 20_000
"""Header texts that are kept, one per broker."""

_CODE = int(RequestCode.REGISTER_BROKER)


class _Known(NamedTuple):
    key: BrokerKey
    revision: int
    answer: CutAnswer


class RepeatedRegistrations:
    """Remembers the header text of each broker's last registration.

    Args:
        unchanged: remembers the bodies; a text is worth something while the registration that it belongs to is there.
        unfinished: while there are any, all registrations go the long way, which keeps their order.
    """

    def __init__(
        self, table: RouteTable, unchanged: UnchangedRegistrations, unfinished: Unfinished, texts_max: int = TEXTS_MAX
    ) -> None:
        self._table = table
        self._unchanged = unchanged
        self._unfinished = unfinished
        self._texts_max = texts_max
        self._known: dict[tuple[bytes, bytes] | None, _Known] = {}
        self._texts: dict[BrokerKey, tuple[bytes, bytes]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answer when `data` is one registration that repeats the last one; return the bytes that it takes."""
        if len(data) < PREFIX.size or self._unfinished:
            return 0
        size, header_size = PREFIX.unpack_from(data)
        body_start = PREFIX.size + header_size
        # Not whole, more than one, or a binary header.
        if size + LENGTH.size != len(data) or header_size > size - LENGTH.size:
            return 0
        mark = data.find(OPAQUE, PREFIX.size, body_start)
        if mark < 0:
            return 0
        digits_start = mark + OPAQUE_SIZE
        comma = data.find(b",", digits_start, body_start)
        known = self._known.get((data[PREFIX.size : mark], data[comma:body_start]))
        digits = data[digits_start:comma]
        if known is None or not is_plain_opaque(digits):
            return 0
        key, revision, (prefixes, rest) = known
        seen = self._unchanged.last(key)
        if seen is None or revision != self._table.revision_of(seen.header.broker_name):
            return 0
        if not seen.ends(data, body_start):
            return 0
        if not self._table.renew(key, connection.now_ms(), connection.id, seen.data_version):
            return 0
        answers += (prefixes[len(digits)], digits, rest)
        connection.counters.requests[_CODE] += 1
        return len(data)

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """See how a registration was answered the long way."""
        fields = command.ext_fields
        if command.code != _CODE or reply.code or reply.body or fields is None:
            return
        key = BrokerKey(fields.get("clusterName", ""), fields.get("brokerAddr", ""))
        seen = self._unchanged.last(key)
        text = split_header(frame, command) if seen is not None and seen.ends(command.body) else None
        if seen is None or text is None:
            return
        self._known.pop(self._texts.pop(key, None), None)
        if len(self._known) >= self._texts_max:  # of brokers that are long gone, most of them
            self.clear()
        self._texts[key] = text
        self._known[text] = _Known(key, seen.revision, cut_answer(encode_reply(command._replace(opaque=PROBE), reply)))

    def clear(self) -> None:
        """Forget all texts."""
        self._known.clear()
        self._texts.clear()
