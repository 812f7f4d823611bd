"""The fast lane: sends that ask for nothing special are stored and answered without a command, a header or a call each.

A broker's day is SEND_MESSAGE_V2 with a JSON header. The lane takes such frames from the start of a read, appends them
one after another, and leaves at the first that is anything else: another request, another header form, a topic that is
not there, a value that must be looked at. That one goes the long way (`handlers.send`), which refuses or serves it. So
the lane never refuses, and it stores only what the long way would store, byte for byte; a test holds the two together.

It is worth its lines: a third of the long way's time per message (benchmarks/).
"""

from __future__ import annotations

from orbitmq.broker.fast_path.send_header import SendTexts, parse_plain_send
from orbitmq.broker.handlers.send import host_of, plain_properties
from orbitmq.broker.service import BrokerService
from orbitmq.broker.topics import CLOSED_TO_CLIENTS
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import OrbitError
from orbitmq.model.message import PROPERTIES_SIZE_MAX
from orbitmq.model.topic import DataVersion, Perm
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.store.values import Draft
from orbitmq.wire.command import Command
from orbitmq.wire.frame import HEADER_SIZE_MASK, PREFIX, Frame
from orbitmq.wire.headers import SendResponse
from orbitmq.wire.message_id import offset_message_id

_START = b'{"code":310,'
_FRAME_SIZE_MIN = 20
_CODE = int(RequestCode.SEND_MESSAGE_V2)
_unpack_prefix = PREFIX.unpack_from
_WRITE = int(Perm.WRITE)
_SENTINELS = ("<id>", 111_111_111, 222_222_222, 333_333_333)
_new = tuple.__new__  # a named tuple's own constructor is a Python function

NOT_DURABLE = Reply(ResponseCode.SERVICE_NOT_AVAILABLE, "the disk refused to keep the message: it is not acknowledged")


class SendLane:
    """Serves plain sends straight from a read's bytes (a `net.dispatch.fast_path.FastPath`)."""

    def __init__(self, service: BrokerService) -> None:
        self.is_open = True
        """False while the broker shuts down: everybody goes the long way, and is sent away there."""
        self._service = service
        self._version: DataVersion | None = None
        self._queue_counts: dict[str, int] = {}
        self._texts = SendTexts()
        self._parts = _answer_parts(service)
        self._id_start = offset_message_id(service.host, 0)[:-16]
        self._body_size_max = service.config.max_message_size

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Store the plain sends at the start of `data`; return how many bytes their frames take."""
        if not data.startswith(_START, 8) or not self.is_open:
            return 0
        service = self._service
        if service.topics.version is not self._version:
            self._version = service.topics.version
            self._queue_counts.clear()
        append, parse_text, format_answer = service.store.append, self._texts.parse, self._format
        queue_counts, body_size_max = self._queue_counts, self._body_size_max
        host = host_of(connection.remote)
        first, at, end, size_sum = len(answers), 0, len(data), 0
        opaques: list[int] = []
        log_end = 0
        try:
            while end - at > _FRAME_SIZE_MIN and data.startswith(_START, at + 8):
                size, mark = _unpack_prefix(data, at)
                body_start = at + 8 + (mark & HEADER_SIZE_MASK)
                frame_end = at + 4 + size
                if frame_end > end or body_start > frame_end or mark >> 24 or frame_end - body_start > body_size_max:
                    break
                text = data[at + 8 : body_start]
                fields = parse_text(text) or parse_plain_send(text)
                if fields is None:
                    break
                topic, queue_id, sys_flag, born_at_ms, flag, properties, opaque = fields
                if not 0 <= queue_id < (queue_counts.get(topic) or self._count_queues(topic)):
                    break
                stored = plain_properties(service, properties)
                if stored is None or len(stored) > PROPERTIES_SIZE_MAX:
                    break
                body = data[body_start:frame_end]
                draft = (topic, queue_id, body, stored, flag, sys_flag, born_at_ms, host, 0, 0, None)
                queue_offset, physical_offset, record_size, _ = append(_new(Draft, draft))
                log_end = physical_offset + record_size
                size_sum += record_size
                answers.append(format_answer(physical_offset, queue_id, queue_offset, opaque))
                opaques.append(opaque)
                at = frame_end
        except OrbitError:
            pass  # nothing of this message was stored: the long way says what is wrong
        if opaques:
            stats = service.stats
            stats.put_count += len(opaques)
            stats.put_size += size_sum
            connection.counters.requests[_CODE] += len(opaques)
            if service.is_sync:
                self._hold(answers, first, opaques, log_end, connection)
        return at

    def learn(self, frame: Frame, command: Command, reply: Reply) -> None:
        """Nothing is learnt here: no two sends are alike."""

    def _count_queues(self, topic: str) -> int:
        """Return how many queues of a topic may be sent to without a second look; 0: none."""
        config = self._service.topics.get(topic)
        if config is None or not config.perm & _WRITE or not self._service.is_writable or topic in CLOSED_TO_CLIENTS:
            return 0
        count = max(config.read_queue_count, config.write_queue_count)
        self._queue_counts[topic] = count
        return count

    def _format(self, physical_offset: int, queue_id: int, queue_offset: int, opaque: int) -> bytes:
        to_id, to_queue, to_offset, to_opaque, rest = self._parts
        header = (
            f"{to_id}{self._id_start}{physical_offset:016X}{to_queue}{queue_id}{to_offset}{queue_offset}"
            f"{to_opaque}{opaque}{rest}"
        ).encode()
        return PREFIX.pack(len(header) + 4, len(header)) + header

    def _hold(self, answers: list[bytes], first: int, opaques: list[int], log_end: int, connection: Peer) -> None:
        """SYNC_FLUSH: take this read's answers back until the disk has its messages."""
        held = answers[first:]
        del answers[first:]
        connection.parked_count += 1

        def synced(is_durable: bool) -> None:
            connection.answer_held(held if is_durable else _refusals(opaques))

        if self._service.store.wait_durable(log_end, synced):
            synced(True)


def _refusals(opaques: list[int]) -> list[bytes]:
    return [encode_reply(Command(RequestCode.SEND_MESSAGE_V2, opaque), NOT_DURABLE) for opaque in opaques]


def _answer_parts(service: BrokerService) -> tuple[str, ...]:
    """Take an answer of the long way apart: what stands before, between and after its four values."""
    message_id, queue_id, queue_offset, opaque = _SENTINELS
    response = SendResponse(
        message_id=str(message_id),
        queue_id=int(queue_id),
        queue_offset=int(queue_offset),
        region_id=service.config.region_id,
        trace_on=service.trace_on,
    )
    text = encode_reply(Command(RequestCode.SEND_MESSAGE_V2, int(opaque)), Reply(header=response))[8:].decode()
    parts = []
    for sentinel in _SENTINELS:
        before, _, text = text.partition(str(sentinel))
        parts.append(before)
    return (*parts, text)
