"""Route answers as bytes, encoded once per change of the topic.

`RouteAnswers` keeps the encoded bodies; topics on the same brokers have the same one, and share it. `RouteMemo` goes
further: it answers a whole frame by looking up the text of its header before and after the opaque, so that a query that
was seen before is neither parsed nor encoded. Both forget a topic at the change that outdates it, never by a timer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

from orbitmq.codes import RequestCode
from orbitmq.nameserver.cache.interned import Shared
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import FLAG_RESPONSE, Command, encode_command
from orbitmq.wire.frame import PREFIX, Frame
from orbitmq.wire.header_text import OPAQUE, OPAQUE_SIZE, PROBE, CutAnswer, cut_answer, is_plain_opaque, split_header

BODIES_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of encoded routes that are kept."""
TEXTS_MAX = 20_000
"""Header texts that are kept: one per topic and kind of client."""
ANSWERS_SIZE_MAX = 1024 * 1024
"""Bytes of answers from memory to one read; what the peer asked beyond goes the long way, which minds slow readers."""

_unpack_prefix = PREFIX.unpack_from
_CODE = int(RequestCode.GET_ROUTEINFO_BY_TOPIC)


class RouteAnswers:
    """Encoded routes by topic and JSON dialect.

    Args:
        encode: returns the encoded route of (topic, standard JSON?), None without one.
    """

    def __init__(self, encode: Callable[[str, bool], bytes | None], size_max: int = BODIES_SIZE_MAX) -> None:
        self._encode = encode
        self._size_max = size_max
        self._bodies: dict[tuple[str, bool], bytes] = {}
        self._shared = Shared(lambda body: body)

    def get(self, topic: str, standard: bool) -> bytes | None:
        """Return a topic's encoded route, None when it has none."""
        body = self._bodies.get((topic, standard))
        if body is not None:
            return body
        body = self._encode(topic, standard)
        if body is not None:
            body = self._bodies[topic, standard] = self._shared.take(body)
            while self._shared.size > self._size_max and len(self._bodies) > 1:
                self._drop(next(iter(self._bodies)))
        return body

    def forget(self, topics: Iterable[str]) -> None:
        """Drop the answers of topics whose routes have changed."""
        for topic in topics:
            self._drop((topic, True))
            self._drop((topic, False))

    def clear(self) -> None:
        """Drop all answers."""
        self._bodies.clear()
        self._shared.clear()

    def _drop(self, key: tuple[str, bool]) -> None:
        body = self._bodies.pop(key, None)
        if body is not None:
            self._shared.release(body)


class _Known(NamedTuple):
    """An answer but for its opaque: prefixes by the number of digits, what follows the digits, and the body.

    The body is the one that `RouteAnswers` keeps, not a copy.
    """

    prefixes: tuple[bytes, ...]
    rest: bytes
    body: bytes


class RouteMemo:
    """Answers route queries whose header text was seen before, whatever their opaque.

    A text is learnt from a query that was parsed and answered the long way (`wire.header_text`), so a hit answers what the
    long way would.
    """

    def __init__(self, texts_max: int = TEXTS_MAX) -> None:
        self._texts_max = texts_max
        self._count = 0
        # By what follows the opaque, which clients of a kind share, then by what stands before it.
        self._known: dict[bytes, dict[bytes, _Known]] = {}
        self._texts_by_topic: dict[str, list[tuple[bytes, bytes]]] = {}
        self._answers = Shared(lambda body: _Known(*_cut(len(body)), body))

    def __len__(self) -> int:
        return self._count

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Append the answers of the known queries at the start of `data`; return how many bytes those take."""
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
            known = self._known.get(data[comma:frame_end])
            if known is None:
                break
            found = known.get(data[start + 8 : mark])
            if found is None:
                break
            digits = data[digits_start:comma]
            if not is_plain_opaque(digits):
                break
            prefixes, rest, body = found
            answers += (prefixes[len(digits)], digits, rest, body)
            size_left -= len(body)
            start = frame_end
            hits += 1
        if hits:
            connection.counters.requests[_CODE] += hits
        return start

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """See how a request was answered the long way."""
        if command.code == _CODE and not (reply.code or reply.header or frame.body):
            text = split_header(frame, command)
            topic = (command.ext_fields or {}).get("topic")
            if text is not None and topic is not None:
                self._remember(topic, text, reply.body)

    def forget(self, topics: Iterable[str]) -> None:
        """Drop the answers of topics whose routes have changed."""
        for topic in topics:
            for before, after in self._texts_by_topic.pop(topic, ()):
                known = self._known[after]
                self._answers.release(known.pop(before).body)
                self._count -= 1
                if not known:
                    del self._known[after]

    def clear(self) -> None:
        """Drop all answers."""
        self._known.clear()
        self._texts_by_topic.clear()
        self._answers.clear()
        self._count = 0

    def _remember(self, topic: str, text: tuple[bytes, bytes], body: bytes) -> None:
        before, after = text
        if before in self._known.get(after, ()):
            return
        if self._count >= self._texts_max:
            self.forget([next(iter(self._texts_by_topic))])
        self._texts_by_topic.setdefault(topic, []).append(text)
        self._known.setdefault(after, {})[before] = self._answers.take(body)
        self._count += 1


@lru_cache(maxsize=4096)
def _cut(body_size: int) -> CutAnswer:
    """Encode the start of an answer with a body of that size, and cut its opaque out."""
    return cut_answer(encode_command(Command(0, PROBE, FLAG_RESPONSE, body=bytes(body_size))), body_size)
