"""Requests that repeat earlier ones byte for byte, all but their opaque, answered without parsing even the header.

Clients ask for the same topics all day, and write the same header each time; brokers that say nothing new do so, too. So
the text before and after the opaque stands for the whole header, and the answer is put together from kept bytes and the
new opaque. A text is learnt from a request that was parsed and answered (`wire.header`), and forgotten at the change that
outdates its answer.

A registration's body is compared with the last one, and its lease is renewed. Its fast path stays because
`register-80-same` needs it: without it such a registration costs more than twice the processor time
(docs/adr/0009-what-is-answered-from-memory.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from orbitmq.clock import Clock
from orbitmq.codes import RequestCode
from orbitmq.nameserver.registration.body_cache import BodyCache
from orbitmq.nameserver.registration.queue import RegistrationQueue
from orbitmq.nameserver.route_cache import BODIES_SIZE_MAX, Interned
from orbitmq.nameserver.routing.events import RouteChange
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.nameserver.routing.values import BrokerKey, MasterAddresses
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import LENGTH, PREFIX, Frame
from orbitmq.wire.header import OPAQUE, OPAQUE_SIZE, PROBE, CutAnswer, cut_answer, is_plain_opaque, split_header
from orbitmq.wire.headers import RegisterBrokerResponse

TEXTS_MAX = 20_000
"""Header texts that are kept: of route queries one per topic and kind of client, of registrations one per broker."""
ANSWERS_SIZE_MAX = 1024 * 1024
"""Bytes of kept answers to one read; what the peer asked beyond is answered by the handler, which minds slow readers."""

_unpack_prefix = PREFIX.unpack_from
_ROUTE_QUERY = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)
_REGISTRATION = int(RequestCode.REGISTER_BROKER)


class NameServerFastPath:
    """Answers route queries and registrations that were seen before, all but their opaque (a `net.dispatch.fast_path.FastPath`).

    Args:
        registrations: None where each registration has to be looked at.
    """

    def __init__(self, routes: RouteQueryCache, registrations: RegistrationFastPath | None) -> None:
        self._routes = routes
        self._registrations = registrations

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known requests at the start of `data`; return how many bytes those requests have."""
        size = self._routes.answer(data, answers, connection)
        if not size and self._registrations is not None:
            return self._registrations.answer(data, answers, connection)
        return size

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Keep what a handler answered to a request."""
        self._routes.learn(frame, command, reply)
        if self._registrations is not None:
            self._registrations.learn(frame, command, reply)


class _RouteAnswer(NamedTuple):
    """An answer but for its opaque: prefixes by the number of digits, what follows the digits, and the body.

    The body is the one that `EncodedRouteCache` keeps, not a copy.
    """

    prefixes: tuple[bytes, ...]
    suffix: bytes
    body: bytes


class RouteQueryCache:
    """Answers by the text of the query's header, whatever its opaque (a `net.dispatch.fast_path.FastPath`).

    A query's text holds everything that its answer depends on: topic, dialect, zone. So queries with a zone are kept like
    any other, and a topic's change forgets them all.
    """

    def __init__(self, texts_max: int = TEXTS_MAX, size_max: int = BODIES_SIZE_MAX) -> None:
        self._texts_max = texts_max
        self._size_max = size_max
        self._count = 0
        # By what follows the opaque, which clients of a kind share, then by what stands before it, which names the
        # topic: no pair of both has to be built for a look-up.
        self._answers: dict[bytes, dict[bytes, _RouteAnswer]] = {}
        self._texts_by_topic: dict[str, list[tuple[bytes, bytes]]] = {}
        self._interned = Interned(lambda body: _RouteAnswer(*_cut(len(body)), body))

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        """Bytes of the routes that are kept."""
        return self._interned.size

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known queries at the start of `data`; return how many bytes those queries have."""
        start, end = 0, len(data)
        hits, size_left = 0, ANSWERS_SIZE_MAX
        while end - start > 8 and size_left > 0:
            size, header_size = _unpack_prefix(data, start)
            frame_end = start + 4 + size
            if header_size + 4 != size or frame_end > end:  # a body, a binary header, or not whole yet
                break
            mark = data.find(OPAQUE, start + 8, frame_end)
            if mark < 0:
                break
            digits_start = mark + OPAQUE_SIZE
            comma = data.find(b",", digits_start, frame_end)
            by_start = self._answers.get(data[comma:frame_end])
            if by_start is None:
                break
            found = by_start.get(data[start + 8 : mark])
            if found is None:
                break
            digits = data[digits_start:comma]
            if not is_plain_opaque(digits):
                break
            prefixes, suffix, body = found
            answers += (prefixes[len(digits)], digits, suffix, body)
            size_left -= len(body)
            start = frame_end
            hits += 1
        if hits:
            connection.counters.requests[_ROUTE_QUERY] += hits
        return start

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Keep what a handler answered to a query."""
        if command.code == _ROUTE_QUERY and not (reply.code or reply.header or frame.body):
            text = split_header(frame, command)
            topic = (command.ext_fields or {}).get("topic")
            if text is not None and topic is not None:
                self._remember(topic, text, reply.body)

    def outdate(self, change: RouteChange) -> None:
        """Drop the answers that a change of the route table makes wrong."""
        self.forget(change.topics)

    def forget(self, topics: Sequence[str]) -> None:
        """Drop the answers of some topics."""
        if len(topics) > len(self._texts_by_topic):  # a giant's tens of thousands, of which few are asked for
            topics = tuple(self._texts_by_topic.keys() & topics)
        for topic in topics:
            for before, after in self._texts_by_topic.pop(topic, ()):
                by_start = self._answers[after]
                self._interned.release(by_start.pop(before).body)
                self._count -= 1
                if not by_start:
                    del self._answers[after]

    def clear(self) -> None:
        """Drop all answers."""
        self._answers.clear()
        self._texts_by_topic.clear()
        self._interned.clear()
        self._count = 0

    def _remember(self, topic: str, text: tuple[bytes, bytes], body: bytes) -> None:
        before, after = text
        if before in self._answers.get(after, ()):
            return
        if len(body) > self._size_max:
            return
        self._texts_by_topic.setdefault(topic, []).append(text)
        self._answers.setdefault(after, {})[before] = self._interned.acquire(body)
        self._count += 1
        while self._count > self._texts_max or self._interned.size > self._size_max:
            self.forget([next(iter(self._texts_by_topic))])


class _RegistrationAnswer(NamedTuple):
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
        self._answers: dict[tuple[bytes, bytes] | None, _RegistrationAnswer] = {}
        self._texts: dict[BrokerKey, tuple[bytes, bytes]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answer when `data` is one registration that repeats the last one; return its size, 0 otherwise."""
        if len(data) < PREFIX.size or self._queue.jobs:
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
        connection.counters.requests[_REGISTRATION] += 1
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
        self._answers[text] = _RegistrationAnswer(
            key, last.revision, MasterAddresses(told.ha_server_addr, told.master_addr), answer
        )

    def forget(self, key: BrokerKey) -> None:
        """Drop the text of a broker that is gone."""
        self._answers.pop(self._texts.pop(key, None), None)

    def clear(self) -> None:
        """Drop all texts."""
        self._answers.clear()
        self._texts.clear()


@lru_cache(maxsize=4096)
def _cut(body_size: int) -> CutAnswer:
    """Encode the start of an answer with a body of that size, and cut its opaque out."""
    return cut_answer(encode_command(Command(0, PROBE, FLAG_RESPONSE, body=bytes(body_size))), body_size)
