"""Pulls under way: each is read and answered, or held and read again when something has come.

Source: Java PullMessageProcessor, PullRequestHoldService.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Collection
from typing import NamedTuple

from orbitmq.broker.delivery.filters import Selection
from orbitmq.broker.delivery.long_poll import HeldPull, HeldPulls
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.dispatch.handlers import Call, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import PropertyTest, ReadResult, ReadStatus, Store
from orbitmq.wire.command import Command
from orbitmq.wire.headers import PullMessage, PullResponse

log = logging.getLogger(__name__)

_MASTER_ID = 0
_TURN_COUNT = 200
_TURN_SIZE = 1024 * 1024
"""Pulls, and bytes of their answers, after which others have the loop: one message may wake a hundred thousand."""
_CODES = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
}


_FORGOTTEN_COUNT = 1_000
"""Pulls of connections that closed that are forgotten in one turn."""
_HELD_SIZE = 800
"""Bytes that a held pull takes of memory besides its tags, measured."""
_TAG_SIZE = 200
_SHARED_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of what was read that pulls of one crowd share."""
_POSTPONED_S = 0.01
"""After so long it is looked again whether there is room for answers that there was no room for."""
POSTPONED_MAX_MS = 1_000
"""So long a large answer waits for room; then the peers that read nothing make room for it."""

_TURN_WORK = 8_192
"""Looks at properties after which others have the loop; one read takes half of it at most."""

_Place = tuple[str, int, int, int, int]
"""Where a read begins and how far it goes, as `Store.read` takes it."""
_ReadKey = tuple[_Place, Selection]
"""What a read depends on."""


class _HeldRequest(NamedTuple):
    """What is kept of a request that waits: no more than its answer needs."""

    peer: Peer
    command: Command
    key: _ReadKey
    group: str
    rewrite: Callable[[Reply], Reply] | None
    """Makes the answer of a logical queue of it."""


Suggest = Callable[[str, str, int, int], int]
"""Called with topic, group, queue id and the next offset."""


class Pulls:
    """Reads for pulls, and keeps those that wait.

    Args:
        clock: the monotonic one, which deadlines are counted on.
        held_max: pulls that may wait, all queues together.
        held_size_max: bytes that they may take of memory.
        count_max: messages of one answer.
        size_max: bytes of one answer.
        suggest: returns the id of the broker that a reader should ask next; None: always this one.
    """

    def __init__(
        self,
        store: Store,
        stats: BrokerStats,
        clock: Clock,
        *,
        held_max: int,
        held_size_max: int,
        count_max: int,
        size_max: int,
        suggest: Suggest | None = None,
    ) -> None:
        self._store = store
        self._suggest = suggest
        self._stats = stats
        self._clock = clock
        self.held: HeldPulls[_HeldRequest] = HeldPulls(held_max, held_size_max)
        self._count_max = count_max
        self._size_max = size_max
        self._reads: dict[_ReadKey, ReadResult] = {}
        """What pulls before found: those that wait for the same messages share one copy of them."""
        self._reads_size = 0
        self._is_waiting_for_room = False
        self._turn_work = 0
        """Looks at properties in this turn of the loop."""
        store.on_arrived.append(self._arrived)

    @property
    def held_count(self) -> int:
        """Pulls that wait."""
        return self.held.count

    @property
    def is_busy(self) -> bool:
        """Return True if this turn of the loop has read enough properties: pulls that test them are for a turn to come."""
        return self._turn_work >= _TURN_WORK or self.held.has_ready

    def read(self, header: PullMessage, selection: Selection) -> Reply:
        """Return the answer to a pull as the queue is now.

        Raises:
            Rejected: 1, it asks for no message at all.
        """
        if isinstance(selection, PropertyTest):
            result = self._read_matching(self._place(header), selection)
        else:
            result = self.find(header, header.queue_offset, selection)
        return self._reply(header.topic, header.consumer_group, header.queue_id, header.queue_offset, result)

    def find(self, header: PullMessage, queue_offset: int, tag_codes: frozenset[int] | None) -> ReadResult:
        """Return what a pull finds from an offset on, without counting it. Raises as `read`."""
        topic, queue_id, _, count_max, size_max = self._place(header)
        return self._store.read(topic, queue_id, queue_offset, count_max, size_max, tag_codes)

    def moved(self, header: PullMessage, queue_offset: int) -> Reply:
        """Return the answer to a reader whose group was set to another offset (Java: OFFSET_RESET)."""
        topic, queue_id = header.topic, header.queue_id
        self._stats.miss_count += 1
        self._stats.pulled_to(topic, header.consumer_group, queue_id, queue_offset)
        return Reply(
            ResponseCode.PULL_OFFSET_MOVED,
            "OFFSET_RESET",
            PullResponse(
                suggest_which_broker_id=_MASTER_ID,
                next_begin_offset=queue_offset,
                min_offset=self._store.min_offset(topic, queue_id),
                max_offset=self._store.max_offset(topic, queue_id),
            ),
        )

    def _read_matching(self, place: _Place, test: PropertyTest) -> ReadResult:
        result, work = self._store.read_matching(*place, test)
        if not self._turn_work:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._turn_work += 1 + work
        return result

    def _end_turn(self) -> None:
        self._turn_work = 0

    def _place(self, header: PullMessage) -> _Place:
        if header.count_max < 1:
            raise Rejected(
                ResponseCode.SYSTEM_ERROR, f"maxMsgNums: {header.count_max} is not allowed, expected 1 or more"
            )
        size_max = self._size_max
        if header.size_max is not None and 0 < header.size_max < size_max:
            size_max = header.size_max
        count_max = min(header.count_max, self._count_max)
        return header.topic, header.queue_id, header.queue_offset, count_max, size_max

    def hold(self, call: Call[PullMessage], selection: Selection, suspend_ms: int) -> bool:
        """Let a pull wait for messages for so long. False: too many wait, answer it now."""
        return self.held.hold(self._held_pull(call, selection, suspend_ms))

    def enqueue(self, call: Call[PullMessage], selection: Selection, suspend_ms: int) -> bool:
        """Read for a pull in a turn to come, and let it wait for so long. False: too many wait."""
        was_idle = not self.held.has_ready
        is_taken = self.held.enqueue(self._held_pull(call, selection, suspend_ms))
        if is_taken and was_idle:
            asyncio.get_running_loop().call_soon(self._answer_ready)
        return is_taken

    def wait_for_room(self, call: Call[PullMessage], selection: Selection, size: int) -> bool:
        """Let a pull wait while other clients have too much to read, a second at most. False: answer it now.

        Args:
            size: bytes of its answer.
        """
        return self._has_to_wait(self._held_pull(call, selection, 0), size)

    def _held_pull(self, call: Call[PullMessage], selection: Selection, suspend_ms: int) -> HeldPull[_HeldRequest]:
        header = call.header
        topic = sys.intern(header.topic)  # one text for all pulls that wait for it
        place = (topic, *self._place(header)[1:])
        tag_codes = selection.tag_codes if isinstance(selection, PropertyTest) else selection
        return HeldPull(
            topic,
            header.queue_id,
            header.queue_offset,
            tag_codes,
            self._clock() + suspend_ms,
            call.connection,
            _HeldRequest(
                call.connection,
                call.command._replace(ext_fields=None, body=b""),
                (place, selection),
                sys.intern(header.consumer_group),
                call.rewrite,
            ),
            _HELD_SIZE + _TAG_SIZE * len(tag_codes or ()),
        )

    def answer_expired(self, now_ms: int) -> None:
        """Answer the pulls whose time is over.

        Args:
            now_ms: by the monotonic clock.
        """
        self.held.wake_expired(now_ms)
        self._answer_ready()

    def answer_overtaken(self) -> None:
        """Answer the pulls whose queue has grown past them: the safety net under lost wake-ups."""
        self.held.wake_overtaken(self._store.max_offset)
        self._answer_ready()

    def answer_topic(self, topic: str) -> None:
        """Answer the pulls of a topic that was deleted."""
        self._forget_reads()
        self.held.wake_topic(topic)
        self._answer_ready()

    def end_waits(self, topic: str, connections: Collection[Peer] | None = None) -> None:
        """Let some clients' pulls of a topic, or all, wait no longer: there is something to be told that is not a message."""
        self.held.end_waits(topic, connections)
        self._answer_ready()

    def drop_connection(self, connection: Peer) -> None:
        """Forget the pulls of a connection that closed, some in each turn."""
        self.held.drop_connection(connection)
        self._forget_some()

    def _forget_some(self) -> None:
        if self.held.forget_some(_FORGOTTEN_COUNT):
            asyncio.get_running_loop().call_soon(self._forget_some)

    def close(self) -> None:
        """Answer every pull that waits, and let none wait from now on."""
        for pull in self.held.close():
            self._answer(pull, self._read_again(pull))
        self._forget_reads()

    def _arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        """Wake held pulls at the end of this turn, so that a burst answers each of them once."""
        held = self.held
        # Most messages come while no pull waits: they pay for one comparison.
        if held.count and held.arrived(topic, queue_id, queue_offset, tag_code):
            asyncio.get_running_loop().call_soon(self._answer_ready)

    def _answer_ready(self) -> None:
        """Answer some of the pulls that are ready, and the others in turns of the loop to come."""
        size = 0
        for _ in range(_TURN_COUNT):
            if size >= _TURN_SIZE or (pull := self.held.next_ready()) is None:
                break
            size += self._try_again(pull)
            if self._turn_work >= _TURN_WORK:
                break
        if self.held.has_ready:
            asyncio.get_running_loop().call_soon(self._answer_ready)
        else:
            self._forget_reads()

    def _try_again(self, pull: HeldPull[_HeldRequest]) -> int:
        """Answer a pull or let it wait on; return the bytes that it was sent."""
        if self._has_to_wait(pull, pull.answer_size):
            return 0
        reply = self._read_again(pull)
        is_waiting = reply.code == ResponseCode.PULL_NOT_FOUND and self._clock() < pull.deadline_ms
        if is_waiting and self.held.hold(pull):
            return 0
        if self._has_to_wait(pull, len(reply.body)):
            return 0
        self._answer(pull, reply)
        return len(reply.body)

    def _has_to_wait(self, pull: HeldPull[_HeldRequest], size: int) -> bool:
        """Put a pull off whose client does not read, or for whose large answer there is no room: for a second at most."""
        peer = pull.call.peer
        if peer.has_room(size):
            return False
        now_ms = self._clock()
        if pull.postponed_ms is None:
            pull.postponed_ms = now_ms
        elif now_ms >= pull.postponed_ms + POSTPONED_MAX_MS and peer.has_room(0):
            return False
        pull.answer_size = size
        if not self.held.postpone(pull):
            return False
        if not self._is_waiting_for_room:
            self._is_waiting_for_room = True
            asyncio.get_running_loop().call_later(_POSTPONED_S, self._resume)
        return True

    def _resume(self) -> None:
        self._is_waiting_for_room = self.held.resume(_TURN_COUNT)
        if self._is_waiting_for_room:
            asyncio.get_running_loop().call_later(_POSTPONED_S, self._resume)
        self._answer_ready()

    @staticmethod
    def _answer(pull: HeldPull[_HeldRequest], reply: Reply) -> None:
        asked = pull.call
        if asked.rewrite is not None:
            reply = asked.rewrite(reply)
        asked.peer.answer_later(asked.command, reply, was_pending=True)

    def _read_again(self, pull: HeldPull[_HeldRequest]) -> Reply:
        """Read for a pull that waited. Whatever goes wrong is its own answer: the other pulls are answered, too."""
        key = pull.call.key
        try:
            result = self._reads.get(key)
            if result is None:
                place, selection = key
                if isinstance(selection, PropertyTest):
                    result = self._read_matching(place, selection)
                    if self._clock() < pull.deadline_ms:
                        result = _pass_over(pull, result)
                else:
                    result = self._store.read(*place, selection)
                # Only what was found stays true: a message may come before the turn of the next pull.
                if result.status is ReadStatus.FOUND:
                    self._share(key, result)
            return self._reply(pull.topic, pull.call.group, pull.queue_id, pull.queue_offset, result)
        except OrbitError as error:  # files that were cut from outside: answered as a pull that has not waited
            return Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            log.exception("a held pull of %s queue %d failed", pull.topic, pull.queue_id)
            return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _share(self, key: _ReadKey, result: ReadResult) -> None:
        if self._reads_size + len(result.body) > _SHARED_SIZE_MAX:
            self._forget_reads()
        self._reads[key] = result
        self._reads_size += len(result.body)

    def _forget_reads(self) -> None:
        if self._reads:
            self._reads.clear()
            self._reads_size = 0

    def _reply(self, topic: str, group: str, queue_id: int, queue_offset: int, result: ReadResult) -> Reply:
        code = _CODES.get(result.status)
        if code is None:  # an empty queue: its reader waits at 0, all others are out of range
            code = ResponseCode.PULL_NOT_FOUND if queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        return Reply(
            code,
            None if code == ResponseCode.SUCCESS else result.status.name,
            PullResponse(
                suggest_which_broker_id=self.count(topic, group, queue_id, result),
                next_begin_offset=result.next_offset,
                min_offset=result.min_offset,
                max_offset=result.max_offset,
            ),
            result.body,
        )

    def count(self, topic: str, group: str, queue_id: int, result: ReadResult) -> int:
        """Count what a pull found; return the id of the broker that its reader should ask next."""
        stats = self._stats
        if result.status is ReadStatus.FOUND:
            stats.found_count += 1
            stats.got(topic, group, result.message_count, len(result.body))
        else:
            stats.miss_count += 1
        # Also where nothing passed the filter: the reader goes on behind it.
        stats.pulled_to(topic, group, queue_id, result.next_offset)
        suggest = self._suggest
        return _MASTER_ID if suggest is None else suggest(topic, group, queue_id, result.next_offset)


def _pass_over(pull: HeldPull[_HeldRequest], result: ReadResult) -> ReadResult:
    """Let a pull wait on behind messages that did not pass its test: they are not read for it again.

    Its client gets them when its time is over. Java asks each message by itself, as it comes.
    """
    if result.status is not ReadStatus.NO_MATCHED_MESSAGE or result.next_offset < result.max_offset:
        return result
    place, test = pull.call.key
    topic, queue_id, _, count_max, size_max = place
    pull.queue_offset = result.next_offset
    pull.call = pull.call._replace(key=((topic, queue_id, result.next_offset, count_max, size_max), test))
    return result._replace(status=ReadStatus.OFFSET_OVERFLOW_ONE)
