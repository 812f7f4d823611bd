"""The fast path of pulls (11): messages that are there are answered without a command, a typed header or a call each.

It does what `handlers.pull` does, through the same decisions and the same read. A pull that finds nothing, that filters by an
expression, or that may be refused takes the slow path, which holds, answers or refuses it.

docs/adr/0019-pull-fast-path.md has the figures.
"""

from __future__ import annotations

from orbitmq.broker.fast_path.pull_template import PullTemplates
from orbitmq.broker.handlers.pull import PullTables, find_plain
from orbitmq.clock import Clock
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.command import encode_response
from orbitmq.wire.frame import HEADER_SIZE_MASK, PREFIX
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import PullResponse

_CODE = int(RequestCode.PULL_MESSAGE)
_START = b'{"code":11,'
_TURN_SIZE = 1024 * 1024
"""Bytes of messages after which a read has had its turn."""
_SENTINELS = (111_111_111, 222_222_222, 333_333_333, 444_444_444, 555_555_555)
_unpack_prefix = PREFIX.unpack_from


class PullFastPath:
    """Answers pulls straight from a read's bytes."""

    def __init__(self, tables: PullTables, clock: Clock) -> None:
        self._tables = tables
        self._clock = clock
        self._templates = PullTemplates()
        self._answer = _answer_template()

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Answer the pulls at the start of `data` that find messages; return how many bytes their frames take."""
        tables, read_template = self._tables, self._templates.read
        at, end, size_sum, count = 0, len(data), 0, 0
        now_ms = self._clock()
        # Others wait meanwhile: what is left takes the slow path, where connections take turns.
        while count < TURN_COUNT and size_sum < _TURN_SIZE and data.startswith(_START, at + 8):
            size, mark = _unpack_prefix(data, at)
            frame_end = at + 4 + size
            # A frame that the read cut off, a body, or a binary header (mark >> 24): left to the frame decoder.
            if frame_end > end or size != 4 + (mark & HEADER_SIZE_MASK) or mark >> 24:
                break
            pull = read_template(data[at + 8 : frame_end])
            if pull is None:
                break
            header, queue_offset, commit_offset, opaque = pull
            try:
                found = find_plain(tables, header, queue_offset, commit_offset, now_ms, connection)
            except Exception:
                break  # nothing was committed or counted: the slow path says what is wrong
            if found is None:
                break
            result, broker_id = found
            body = result.body
            head = self._answer % (broker_id, result.next_offset, result.min_offset, result.max_offset, opaque)
            answers.append(PREFIX.pack(len(head) + len(body) + 4, len(head)) + head)
            answers.append(body)
            size_sum += len(body)
            count += 1
            at = frame_end
        if count:
            connection.counters.requests[_CODE] += count
        return at


def _answer_template() -> bytes:
    """Return the header of an answer of the slow path with `%d` in place of its numbers."""
    *fields, opaque = _SENTINELS
    response = PullResponse(
        suggest_which_broker_id=fields[0], next_begin_offset=fields[1], min_offset=fields[2], max_offset=fields[3]
    )
    template = encode_response(ResponseCode.SUCCESS, opaque, None, encode_header(response))[PREFIX.size :]
    for sentinel in _SENTINELS:
        template = template.replace(b"%d" % sentinel, b"%d", 1)
    return template
