"""Registrations that repeat the last one byte for byte, all but their opaque, answered without parsing even the header.

A broker that says nothing new writes the same header again, too. Its text names the broker, and the answer; what is left to
do is to compare the body with the last one, and to renew the lease.

It stays because `register-80-same` needs it: without it such a registration costs more than twice the processor time
(docs/adr/0009-what-is-answered-from-memory.md).
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.clock import Clock
from orbitmq.codes import RequestCode
from orbitmq.nameserver.registration.body_cache import BodyCache
from orbitmq.nameserver.registration.queue import RegistrationQueue
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.wire.command import Command
from orbitmq.wire.frame import LENGTH, PREFIX, Frame
from orbitmq.wire.header import OPAQUE, OPAQUE_SIZE, PROBE, CutAnswer, cut_answer, is_plain_opaque, split_header
from orbitmq.wire.headers import RegisterBrokerResponse

TEXTS_MAX = 20_000
"""Header texts that are kept, one per broker."""

_CODE = int(RequestCode.REGISTER_BROKER)


class _Answer(NamedTuple):
    """What a header's text stands for: the broker, its name's revision at that time, its master, and the answer."""

    key: BrokerKey
    revision: int
    master: MasterAddresses
    answer: CutAnswer


class RegistrationFastPath:
    """Answers by the header's text of each broker's last registration (a `net.dispatch.fast_path.FastPath`).

    Args:
        bodies: a text is worth something while the body that came with it is there.
        queue: while any registration is unfinished, all of them go through the pipeline, which keeps their order.
        lease_clock: what leases are measured on.
    """

    def __init__(
        self,
        route_table: RouteTable,
        bodies: BodyCache,
        queue: RegistrationQueue,
        *,
        lease_clock: Clock,
        texts_max: int = TEXTS_MAX,
    ) -> None:
        self._route_table = route_table
        self._bodies = bodies
        self._queue = queue
        self._lease_clock = lease_clock
        self._texts_max = texts_max
        self._answers: dict[tuple[bytes, bytes] | None, _Answer] = {}
        self._texts: dict[BrokerKey, tuple[bytes, bytes]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answer when `data` is one registration that repeats the last one; return its size, 0 otherwise."""
        if len(data) < PREFIX.size or self._queue:
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
        known = self._answers.get((data[PREFIX.size : mark], data[comma:body_start]))
        digits = data[digits_start:comma]
        if known is None or not is_plain_opaque(digits):
            return 0
        key, revision, master, (prefixes, suffix) = known
        last = self._bodies.last(key)
        # The revision proves that the tables still hold what this body made of them: then the pipeline would renew the
        # lease as well, and nothing else.
        if last is None or revision != self._route_table.revision_of(last.header.broker_name):
            return 0
        if not last.ends(data, body_start):
            return 0
        found = self._route_table.renew(
            key, last.header.broker_id, last.data_version, connection.id, self._lease_clock()
        )
        # What a slave is told stands in its master's lease, which may change while nothing about the name does.
        if found != master:
            return 0
        answers += (prefixes[len(digits)], digits, suffix)
        connection.counters.requests[_CODE] += 1
        return len(data)

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Keep what the pipeline answered to a registration."""
        fields = command.ext_fields
        told = reply.header
        if not isinstance(told, RegisterBrokerResponse) or reply.code or reply.body or fields is None:
            return
        key = BrokerKey(fields.get("clusterName", ""), fields.get("brokerName", ""), fields.get("brokerAddr", ""))
        last = self._bodies.last(key)
        text = split_header(frame, command) if last is not None and last.ends(command.body) else None
        if last is None or text is None:
            return
        self.forget(key)
        if len(self._answers) >= self._texts_max:
            self.forget(next(iter(self._texts)))
        self._texts[key] = text
        answer = cut_answer(encode_reply(command._replace(opaque=PROBE), reply))
        self._answers[text] = _Answer(
            key, last.revision, MasterAddresses(told.ha_server_addr, told.master_addr), answer
        )

    def forget(self, key: BrokerKey) -> None:
        """Drop the text of a broker that is gone."""
        self._answers.pop(self._texts.pop(key, None), None)

    def clear(self) -> None:
        """Drop all texts."""
        self._answers.clear()
        self._texts.clear()
