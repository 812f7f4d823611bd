"""The fast path of ends of transactions (37): a decision is carried out without a command or a call.

It does what `handlers.transactions` does, through the same `Transactions.end`. What that refuses has changed nothing, and
takes the slow path, which refuses it again, with its remark. The end of a message that is remembered is read by the pattern
of its client's requests.

docs/adr/0013-small-requests-fast-path.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from orbitmq.broker.fast_path.plain_requests import WORD, Patterns, plain_requests
from orbitmq.broker.transactions.transactions import ENDS, Transactions
from orbitmq.clock import Clock
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.store import AppendResult, Store
from orbitmq.wire.command import encode_response
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import EndTransaction

_CODE = int(RequestCode.END_TRANSACTION)
_START = b'{"code":37,'
_COUNT = r"\d{1,18}"
_READ = {
    "tranStateTableOffset": _COUNT, "commitLogOffset": _COUNT, "producerGroup": WORD,
    "commitOrRollback": "|".join(map(str, map(int, ENDS))),
}  # fmt: skip
_CHECKED = {"fromTransactionCheck": "true|false"}
_TURN_ROOM = 8 * TURN_COUNT
"""End-transaction requests of one read that are carried out in one time slice, as with sends."""
_FOUND_COST = 8
"""A half message that has to be looked for in the log takes as long as so many that are remembered."""
_TURN_SIZE = 1024 * 1024
"""Bytes of the log after which a read has had its turn: a decision of 300 bytes commits a message of megabytes."""


class EndTransactionFastPath:
    """Carries out decisions straight from a read's bytes, where nothing waits for the disk (ASYNC_FLUSH)."""

    def __init__(self, store: Store, transactions: Transactions, clock: Clock) -> None:
        self._store = store
        self._transactions = transactions
        self._clock = clock
        self._patterns = Patterns(_CODE, _READ, _CHECKED)

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Carry out the decisions at the start of `data`; return how many bytes their frames take."""
        if not data.startswith(_START, 8):
            return 0
        done, count, log_end, room = 0, 0, 0, _TURN_ROOM
        turn_end = self._store.max_physical_offset + _TURN_SIZE
        now_ms = self._clock()
        try:
            for result, cost, opaque, frame_end in self._ended(data, now_ms):
                log_end = result.end
                answers.append(encode_response(ResponseCode.SUCCESS, opaque, None, None))
                done = frame_end
                count += 1
                room -= cost
                # Others wait meanwhile: what is left takes the slow path, where connections take turns.
                if room <= 0 or log_end > turn_end:
                    break
        except Exception:
            pass  # nothing of this one has happened: the slow path says what is wrong
        if count:
            connection.counters.requests[_CODE] += count
            self._store.bound_unsynced(log_end)
        return done

    def _ended(self, data: bytes, now_ms: int) -> Iterator[tuple[AppendResult, int, int, int]]:
        """Carry out one decision after the other; yield what came of it, its cost, its opaque, and where its frame ends."""
        transactions, at = self._transactions, 0
        while read := self._patterns.read(data, at):
            (offset, place, group, decision), opaque, frame_end = read
            result = transactions.end_remembered(int(offset), int(place), group.decode(), int(decision), now_ms)
            if result is None:
                break
            yield result, 1, opaque, frame_end
            at = frame_end
        for fields, opaque, frame_end in plain_requests(data, _CODE, at):
            header = decode_header(EndTransaction, fields)
            if header.commit_or_rollback not in ENDS:
                break
            yield transactions.end(header, now_ms), _FOUND_COST, opaque, frame_end
            self._patterns.learn(data, at, frame_end)
            at = frame_end
