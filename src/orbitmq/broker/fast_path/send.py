"""The fast path of sends: they are stored without a command, a header or a call each.

A broker's day is SEND_MESSAGE_V2 with a JSON header. Such frames at the start of a read are appended one after another,
up to the first that is anything else: another request, another header form, a topic that is not there, a value that must
be looked at. What a half of a transaction or a message for a later time becomes is made by the slow path's own function, or by
a template of what that made before. Anything else takes the slow path (`handlers.send`), which refuses or serves it. So the
fast path never refuses, and it stores only what the slow path would store, byte for byte; a test holds the two together.

It takes a third of the slow path's time per message: docs/adr/0010-send-fast-path.md.
"""

from __future__ import annotations

from orbitmq.broker.fast_path.send_template import SendTemplates
from orbitmq.broker.fast_path.special_templates import HalfTemplate, half_templates, timer_templates
from orbitmq.broker.handlers.send import PRIORITY_MARK, note_waiting, special_message
from orbitmq.broker.sending.answers import NOT_DURABLE, SendAnswers, remark_of
from orbitmq.broker.sending.tables import SendTables, host_of
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import OrbitError
from orbitmq.model.message import PROPERTIES_SIZE_MAX, Host, SysFlag
from orbitmq.model.topic import RETRY_PREFIX, DataVersion
from orbitmq.net.dispatch.fast_path import answer_to_failure
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.store import AppendResult, Draft
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import HEADER_SIZE_MASK, PREFIX, FrameDecoder
from orbitmq.wire.messages.message_id import offset_message_id

_START = b'{"code":310,'
_FRAME_SIZE_MIN = 20
_CODE = int(RequestCode.SEND_MESSAGE_V2)
_unpack_prefix = PREFIX.unpack_from
_OFFSET_DIGITS = 16  # of a message id: the physical offset, in hexadecimal
_SENTINELS = ("<id>", "111111111", "222222222", "333333333")
_KEY_SENTINEL = "<key>"
_HANDLE_SENTINEL = "<handle>"
_PREPARED = SysFlag.TRANSACTION_PREPARED
_TURN_ROOM = 8 * TURN_COUNT
"""Sends of one read that are served in one time slice: some four milliseconds. A read has a quarter of a megabyte, and room for 900."""
_SPECIAL_COST = 3
"""A message that waits for something takes about as long as so many sends more."""
_new = tuple.__new__  # a named tuple's own constructor is a Python function


class _Read:
    """The sends of one read, as far as they are stored."""

    __slots__ = (
        "at", "counted", "counted_size", "frame_end", "has_timers", "log_end", "opaques", "size_sum", "taken", "topic"
    )  # fmt: skip

    def __init__(self) -> None:
        self.at = 0
        """Bytes of the frames that are answered."""
        self.frame_end = 0
        self.taken: int | None = None
        """The opaque of the send that is being stored."""
        self.opaques: list[int] = []
        self.log_end = 0
        self.has_timers = False
        """Timers were stored whose delivery has not been told of them."""
        self.size_sum = 0
        self.topic = ""
        """What was sent to one topic is counted when another one comes, or at the end."""
        self.counted = self.counted_size = 0


class SendFastPath:
    """Serves plain sends straight from a read's bytes (a `net.dispatch.fast_path.FastPath`)."""

    def __init__(self, tables: SendTables) -> None:
        self._tables = tables
        self._version: DataVersion | None = None
        self._queue_counts: dict[str, int] = {}
        self._templates = SendTemplates(tables.properties)
        self._halves = half_templates(self._special_message)
        self._timers = timer_templates(self._special_message)
        self._answer = _answer_template(tables.answers, _KEY_SENTINEL)
        self._keyless_answer = _answer_template(tables.answers, None)
        self._recall_answer = _answer_template(tables.answers, _KEY_SENTINEL, _HANDLE_SENTINEL)

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Store the plain sends at the start of `data`; return how many bytes their frames take."""
        if not data.startswith(_START, 8):
            return 0
        version = self._tables.queue_resolver.topics.table.version
        # Every change of the table makes a new version: what was counted before may not be sent to any more.
        if version is not self._version:
            self._version = version
            self._queue_counts.clear()
        read = _Read()
        first = len(answers)
        failure: bytes | None = None
        try:
            self._store_sends(data, answers, read, host_of(connection.remote))
        except Exception as error:
            # Before it is stored, the slow path says what is wrong. Afterwards, that would store it once more.
            if read.taken is not None and (read.at == read.frame_end or not isinstance(error, OrbitError)):
                read.at, failure = read.frame_end, answer_to_failure(error, read.taken, connection)
        if read.has_timers:
            self._tables.timers.wake()
        if read.opaques:
            self._count(read, connection)
            if self._tables.is_sync:
                self._hold(answers, first, read.opaques, read.log_end, connection)
            else:
                self._tables.store.bound_unsynced(read.log_end)
        if failure is not None:
            answers.append(failure)
        return read.at

    def _store_sends(self, data: bytes, answers: list[bytes], read: _Read, host: Host) -> None:
        """Store one send after another, up to the first that is not plain."""
        # Bound once for each read: every attribute that the loop looks up costs a message some thirty nanoseconds.
        tables = self._tables
        append, read_template, format_answer = tables.store.append, self._templates.read, self._format
        note_key, queue_counts, put_bits = tables.store.note_key, self._queue_counts, tables.stats.put_bits
        body_size_max, opaques = tables.body_size_max, read.opaques
        at, end, room = 0, len(data), _TURN_ROOM
        # Without room others have waited long enough: what is left takes the slow path, where connections take turns.
        while room > 0 and end - at > _FRAME_SIZE_MIN and data.startswith(_START, at + 8):
            size, mark = _unpack_prefix(data, at)
            body_start = at + 8 + (mark & HEADER_SIZE_MASK)
            read.frame_end = frame_end = at + 4 + size
            # A frame that the read cut off, or a binary header (mark >> 24): left to the frame decoder.
            if frame_end > end or body_start > frame_end or mark >> 24 or frame_end - body_start > body_size_max:
                break
            # The whole header: a known template gives its values by slices, without JSON.
            fields = read_template(data[at + 8 : body_start])
            if fields is None:
                break
            topic, queue_id, sys_flag, born_at_ms, flag, properties, opaque, stored, key, tag_code, words = fields
            # Unknown topics, static topics and queues out of range are left to the slow path.
            if not 0 <= queue_id < (queue_counts.get(topic) or self._count_queues(topic)):
                break
            # From here on nothing is refused: append stores the message, or raises before it has stored anything.
            body = data[body_start:frame_end]
            recall_handle = None
            if stored is None or sys_flag & _PREPARED:
                sent = _new(Draft, (topic, queue_id, body, properties, flag, sys_flag, born_at_ms, host, 0, 0, None))
                # Of the unique key alone: little else differs between special messages of one template.
                template, due_ms, special = None, None, None
                if key and words == b"":
                    if sys_flag & _PREPARED:
                        template = self._halves.find(sent, key)
                        special = None if template is None else template.fill(sent, key)
                    elif (timer := self._timers.find(sent, key)) is not None:
                        due_ms = tables.timers.step_for(timer.asked)
                        special = None if due_ms is None else timer.fill(sent, key, due_ms)
                if special is None:
                    special = self._special_message(sent)
                    if special is None:
                        break
                    room -= _SPECIAL_COST
                read.taken = opaque
                result = append(special)
                read.at = at = frame_end
                if due_ms is None:
                    topic, recall_handle = self._note_special(topic, special, result, key, template)
                else:
                    read.has_timers = True
                    if not topic.startswith(RETRY_PREFIX):
                        recall_handle = tables.timers.handle_of(topic, due_ms, key.decode())
                    topic = special.topic
                    note_key((result.physical_offset, result.size, result.stored_at_ms, topic, key, b""))
                queue_offset, physical_offset, record_size, _stored_at_ms = result
            elif len(stored) > PROPERTIES_SIZE_MAX:
                break
            else:
                draft = (topic, queue_id, body, stored, flag, sys_flag, born_at_ms, host, 0, 0, tag_code)
                read.taken = opaque
                queue_offset, physical_offset, record_size, stored_at_ms = append(_new(Draft, draft))
                read.at = at = frame_end
                if words is not None:
                    note_key((physical_offset, record_size, stored_at_ms, topic, key, words))
            read.log_end = physical_offset + record_size
            if topic != read.topic:
                self._count_topic(read, topic)
            read.size_sum += record_size
            put_bits[(record_size - 1).bit_length()] += 1
            answers.append(format_answer(physical_offset, queue_id, queue_offset, opaque, key, recall_handle))
            opaques.append(opaque)
            room -= 1
            read.taken = None

    def _note_special(
        self, topic: str, special: Draft, result: AppendResult, key: bytes, template: HalfTemplate | None
    ) -> tuple[str, str | None]:
        """Take note of a stored message that waits for something; return where it is counted, and its recall handle."""
        recall_handle = None
        if special.topic is not topic:
            recall_handle = note_waiting(self._tables, topic, special, result.stored_at_ms)
            topic = special.topic  # where it is counted, as on the slow path
        if template is not None:
            if template.ending is not None and self._tables.transactions is not None:
                self._tables.transactions.keep(special, result, key, template.ending)
            noted = result.physical_offset, result.size, result.stored_at_ms, topic, key, b""
            self._tables.store.note_key(noted)
        return topic, recall_handle

    def _count_topic(self, read: _Read, following: str) -> None:
        """Count what was sent to one topic, since another one comes or the read ends."""
        count = len(read.opaques) - read.counted
        if count:
            self._tables.stats.puts.add(read.topic, count, read.size_sum - read.counted_size, count)
        read.topic, read.counted, read.counted_size = following, len(read.opaques), read.size_sum

    def _count(self, read: _Read, connection: Peer) -> None:
        self._count_topic(read, "")
        stats = self._tables.stats
        stats.put_count += len(read.opaques)
        stats.put_size += read.size_sum
        connection.counters.requests[_CODE] += len(read.opaques)

    def _count_queues(self, topic: str) -> int:
        """Return how many queues of a topic may be sent to without a second look; 0: none."""
        config = self._tables.queue_resolver.open_topic(topic)
        if config is None or topic in self._tables.static.mappings:
            return 0
        count = max(config.read_queue_count, config.write_queue_count)
        self._queue_counts[topic] = count
        return count

    def _special_message(self, sent: Draft) -> Draft | None:
        """Return the stored form of a message that asks for something special; None: it is for the slow path."""
        if PRIORITY_MARK in sent.properties:  # it chooses the queue
            return None
        try:
            special = special_message(self._tables, sent)
        except OrbitError:
            return None
        is_taken = len(special.properties) <= PROPERTIES_SIZE_MAX and not special.sys_flag & SysFlag.FOR_THE_BROKER
        return special if is_taken else None

    def _format(
        self, physical_offset: int, queue_id: int, queue_offset: int, opaque: int, key: bytes, recall_handle: str | None
    ) -> bytes:
        if recall_handle is not None:  # only a message with a key has one
            handle = recall_handle.encode()
            header = self._recall_answer % (physical_offset, queue_id, queue_offset, key, handle, opaque)
        elif key:
            header = self._answer % (physical_offset, queue_id, queue_offset, key, opaque)
        else:
            header = self._keyless_answer % (physical_offset, queue_id, queue_offset, opaque)
        return PREFIX.pack(len(header) + 4, len(header)) + header

    def _hold(self, answers: list[bytes], first: int, opaques: list[int], log_end: int, connection: Peer) -> None:
        """Take this read's answers back until its messages are as safe as SYNC_FLUSH and SYNC_MASTER promise."""
        # One waiter for all sends of this read: group commit, as the disk sees it.
        held = answers[first:]
        del answers[first:]
        connection.pending_count += 1

        def safe(code: ResponseCode) -> None:
            if code == ResponseCode.SUCCESS:
                connection.answer_held(held)
                return
            connection.counters.refusals[_CODE, code] += len(held)
            if code == NOT_DURABLE.code:
                connection.answer_held(_refusals(opaques))
            else:
                connection.answer_held([_as_maybe_stored(answer, code) for answer in held])

        if self._tables.answers.wait_safe(log_end, safe):
            safe(ResponseCode.SUCCESS)


def _refusals(opaques: list[int]) -> list[bytes]:
    return [encode_reply(Command(RequestCode.SEND_MESSAGE_V2, opaque), NOT_DURABLE) for opaque in opaques]


def _as_maybe_stored(answer: bytes, code: ResponseCode) -> bytes:
    """Return the answer to a message that disk or slaves have not kept in time: it says where the message lies all the same."""
    (frame,) = FrameDecoder().feed(answer)
    late = decode_command(frame)._replace(code=code, remark=remark_of(code))
    return encode_command(late)


def _answer_template(answers: SendAnswers, key: str | None, recall_handle: str | None = None) -> bytes:
    """Return an answer of the slow path with `%` in place of its values.

    They are the physical offset, the queue and its offset, the key, the recall handle, and the opaque.
    """
    message_id, queue_id, queue_offset, opaque = _SENTINELS
    header = answers.header(message_id, int(queue_id), int(queue_offset), key, recall_handle)
    text = encode_reply(Command(RequestCode.SEND_MESSAGE_V2, int(opaque)), Reply(header=header))[8:].decode()
    template = text.replace("%", "%%")
    id_template = offset_message_id(answers.host, 0)[:-_OFFSET_DIGITS] + f"%0{_OFFSET_DIGITS}X"
    sentinels = (*_SENTINELS, _KEY_SENTINEL, _HANDLE_SENTINEL)
    for sentinel, value in zip(sentinels, (id_template, "%d", "%d", "%d", "%b", "%b"), strict=True):
        template = template.replace(sentinel, value, 1)
    return template.encode()
