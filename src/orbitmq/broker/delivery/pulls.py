"""Pulls under way: each is read and answered, or parked and read again when something has come.

Source: Java PullMessageProcessor, PullRequestHoldService.
"""

from __future__ import annotations

import asyncio
import logging

from orbitmq.broker.delivery.long_poll import ParkedPull, ParkedPulls
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import ReadResult, ReadStatus, Store
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


_ReadKey = tuple[str, int, int, int, int, frozenset[int] | None]
"""What a read depends on, as `Store.read` takes it."""


class Pulls:
    """Reads for pulls, and keeps those that wait.

    Args:
        parked_max: pulls that may wait, all queues together.
        count_max: messages of one answer.
        size_max: bytes of one answer.
    """

    def __init__(
        self, store: Store, stats: BrokerStats, clock: Clock, *, parked_max: int, count_max: int, size_max: int
    ) -> None:
        self._store = store
        self._stats = stats
        self._clock = clock
        self._parked: ParkedPulls[Call[PullMessage]] = ParkedPulls(parked_max)
        self._count_max = count_max
        self._size_max = size_max
        self._last_read: tuple[_ReadKey, ReadResult] | None = None
        """What the pull before found: those that wait for the same messages share one copy of them."""
        store.on_arrived.append(self._arrived)

    @property
    def parked_count(self) -> int:
        """Pulls that wait."""
        return self._parked.count

    def read(self, header: PullMessage, tag_codes: frozenset[int] | None) -> Reply:
        """Return the answer to a pull as the queue is now.

        Raises:
            Rejected: 1, it asks for no message at all.
        """
        return self._reply(header, self._store.read(*self._read_key(header, tag_codes)))

    def _read_key(self, header: PullMessage, tag_codes: frozenset[int] | None) -> _ReadKey:
        if header.count_max < 1:
            raise Rejected(
                ResponseCode.SYSTEM_ERROR, f"maxMsgNums: {header.count_max} is not allowed, expected 1 or more"
            )
        size_max = self._size_max
        if header.size_max is not None and 0 < header.size_max < size_max:
            size_max = header.size_max
        count_max = min(header.count_max, self._count_max)
        return header.topic, header.queue_id, header.queue_offset, count_max, size_max, tag_codes

    def park(self, call: Call[PullMessage], tag_codes: frozenset[int] | None, suspend_ms: int) -> bool:
        """Let a pull wait for messages for so long. False: too many wait, answer it now."""
        header = call.header
        deadline_ms = call.now_ms + suspend_ms
        return self._parked.park(
            ParkedPull(
                header.topic, header.queue_id, header.queue_offset, tag_codes, deadline_ms, call.connection, call
            )
        )

    def answer_expired(self, now_ms: int) -> None:
        """Answer the pulls whose time is over."""
        self._answer_in_turns(self._parked.take_expired(now_ms))

    def answer_overtaken(self) -> None:
        """Answer the pulls whose queue has grown past them: the safety net under lost wake-ups."""
        self._answer_in_turns(self._parked.take_overtaken(self._store.max_offset))

    def answer_topic(self, topic: str) -> None:
        """Answer the pulls of a topic that was deleted."""
        self._last_read = None
        self._answer_in_turns(self._parked.take_topic(topic))

    def drop_connection(self, connection: Peer) -> None:
        """Forget the pulls of a connection that closed: nobody is there to be answered."""
        self._parked.drop_connection(connection)

    def close(self) -> None:
        """Answer every pull that waits, and let none wait from now on."""
        for pull in self._parked.close():
            self._try_again(pull)
        self._last_read = None

    def _arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        """Wake parked pulls at the end of this turn, so that a burst answers each of them once."""
        parked = self._parked
        # Most messages come while nobody waits: they pay for one look at a number.
        if parked.count and parked.arrived(topic, queue_id, queue_offset, tag_code):
            asyncio.get_running_loop().call_soon(self._answer_ready)

    def _answer_in_turns(self, pulls: list[ParkedPull[Call[PullMessage]]]) -> None:
        self._parked.make_ready(pulls)
        self._answer_ready()

    def _answer_ready(self) -> None:
        """Answer some of the pulls that are ready, and the others in turns of the loop to come."""
        size = 0
        for _ in range(_TURN_COUNT):
            if size >= _TURN_SIZE or (pull := self._parked.next_ready()) is None:
                break
            size += self._try_again(pull)
        if self._parked.has_ready:
            asyncio.get_running_loop().call_soon(self._answer_ready)
        else:
            self._last_read = None

    def _try_again(self, pull: ParkedPull[Call[PullMessage]]) -> int:
        """Answer a pull or let it wait on; return the bytes that it was sent."""
        reply = self._read_again(pull)
        is_waiting = reply.code == ResponseCode.PULL_NOT_FOUND and self._clock() < pull.deadline_ms
        if is_waiting and self._parked.park(pull):
            return 0
        pull.call.answer(reply)
        return len(reply.body)

    def _read_again(self, pull: ParkedPull[Call[PullMessage]]) -> Reply:
        """Read for a pull that waited. Whatever goes wrong is its own answer: the pulls beside it are answered, too."""
        try:
            header = pull.call.header
            key = self._read_key(header, pull.tag_codes)
            if self._last_read is not None and self._last_read[0] == key:
                return self._reply(header, self._last_read[1])
            result = self._store.read(*key)
            # Only what was found stays true: a message may come before the turn of the next pull.
            if result.status is ReadStatus.FOUND:
                self._last_read = key, result
            return self._reply(header, result)
        except Rejected as refusal:
            return Reply(refusal.code, refusal.remark)
        except Exception as error:
            log.exception("a parked pull of %s queue %d failed", pull.topic, pull.queue_id)
            return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _reply(self, header: PullMessage, result: ReadResult) -> Reply:
        stats = self._stats
        code = _CODES.get(result.status)
        if code is None:  # an empty queue: its reader waits at 0, anybody else has lost the way
            code = ResponseCode.PULL_NOT_FOUND if header.queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        if code == ResponseCode.SUCCESS:
            stats.found_count += 1
            stats.get_count += result.message_count
            stats.get_size += len(result.body)
        else:
            stats.miss_count += 1
        return Reply(
            code,
            None if code == ResponseCode.SUCCESS else result.status.name,
            PullResponse(
                suggest_which_broker_id=_MASTER_ID,
                next_begin_offset=result.next_offset,
                min_offset=result.min_offset,
                max_offset=result.max_offset,
            ),
            result.body,
        )
