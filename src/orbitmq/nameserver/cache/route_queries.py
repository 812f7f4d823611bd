"""Route queries that were seen before, answered without being parsed.

Clients ask for the same topics all day, and write the same header each time, all but its opaque. So the text before and
after the opaque stands for the whole query, and its answer is put together from kept bytes and the new opaque. A text is
learnt from a query that was parsed and answered (`wire.header_text`), and forgotten at the change that outdates its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from orbitmq.codes import RequestCode
from orbitmq.nameserver.cache.interned import Interned
from orbitmq.nameserver.routing.events import RouteChange
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import PREFIX, Frame
from orbitmq.wire.header import OPAQUE, OPAQUE_SIZE, PROBE, CutAnswer, cut_answer, is_plain_opaque, split_header

TEXTS_MAX = 20_000
"""Header texts that are kept: one per topic and kind of client; each has at most `wire.header_text.TEXT_SIZE_MAX`."""
BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of the routes that the kept answers hold; most of them are those that `RouteCache` holds, too."""
ANSWERS_SIZE_MAX = 1024 * 1024
"""Bytes of kept answers to one read; what the peer asked beyond is answered by the handler, which minds slow readers."""

_unpack_prefix = PREFIX.unpack_from
_CODE = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class _Answer(NamedTuple):
    """An answer but for its opaque: prefixes by the number of digits, what follows the digits, and the body.

    The body is the one that `RouteCache` keeps, not a copy.
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
        self._answers: dict[bytes, dict[bytes, _Answer]] = {}
        self._texts_by_topic: dict[str, list[tuple[bytes, bytes]]] = {}
        self._interned = Interned(lambda body: _Answer(*_cut(len(body)), body))

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
            connection.counters.requests[_CODE] += hits
        return start

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Keep what a handler answered to a query."""
        if command.code == _CODE and not (reply.code or reply.header or frame.body):
            text = split_header(frame, command)
            topic = (command.ext_fields or {}).get("topic")
            if text is not None and topic is not None:
                self._remember(topic, text, reply.body)

    def outdate(self, change: RouteChange) -> None:
        """Drop the answers that a change of the route table makes wrong."""
        self.forget(change.affected_topics)

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


@lru_cache(maxsize=4096)
def _cut(body_size: int) -> CutAnswer:
    """Encode the start of an answer with a body of that size, and cut its opaque out."""
    return cut_answer(encode_command(Command(0, PROBE, FLAG_RESPONSE, body=bytes(body_size))), body_size)
