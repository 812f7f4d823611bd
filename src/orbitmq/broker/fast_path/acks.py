"""The fast path of acks (200051): those of one checkpoint that come together are noted by one record.

A consumer acknowledges what it popped message by message, and its acks come many in a read. The slow path
(`handlers.pop_acks`) makes a record in the revive topic of each; here they become one batch ack, as Java's broker writes
it. An ack that is not taken here, with all of its checkpoint in the same read, takes the slow path, which refuses or serves it.

docs/adr/0013-small-requests-fast-path.md has the figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from orbitmq.broker.fast_path.plain_requests import plain_requests
from orbitmq.broker.handlers.pop import PopTables, parse_ack
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.errors import OrbitError
from orbitmq.net.dispatch.fast_path import answer_to_failure
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.command import encode_response
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import AckMessage
from orbitmq.wire.pop.handles import ORDER_REVIVE_QUEUE
from orbitmq.wire.pop.revive_log import CheckpointKey

_CODE = int(RequestCode.ACK_MESSAGE)
_START = b'{"code":200051,'
_DIGITS_MAX = 18
"""So many digits always fit a long."""


@dataclass(slots=True)
class _CheckpointAcks:
    """Acks of one checkpoint that follow one another in a read.

    Args:
        place: what they have in common: the handle without its offset, group, topic and queue, as they travel.
        fields: the header of the first.
        end: where the last one's frame ends.
    """

    place: tuple[str, ...]
    fields: Mapping[str, str]
    offsets: list[int] = field(default_factory=list)
    opaques: list[int] = field(default_factory=list)
    end: int = 0


class AckFastPath:
    """Notes acks straight from a read's bytes, where nothing waits for the disk (ASYNC_FLUSH)."""

    def __init__(self, tables: PopTables) -> None:
        self._tables = tables

    def answer(self, data: bytes, answers: list[bytes], connection: Peer) -> int:
        """Note the acks at the start of `data`; return how many bytes their frames take."""
        if not data.startswith(_START, 8):
            return 0
        done, runs = 0, _runs(data)
        # A record for each run. Others wait meanwhile: what is left takes the slow path, where connections take turns.
        for _ in range(TURN_COUNT):
            try:
                run = next(runs, None)
                key = None if run is None else self._read(run)
            except Exception:
                break  # the slow path says what is wrong
            if run is None or key is None:
                break
            try:
                self._acknowledge(key, run.offsets)
                answers += [encode_response(ResponseCode.SUCCESS, opaque, None, None) for opaque in run.opaques]
            except OrbitError:
                break  # nothing of this run was noted
            except Exception as error:  # it may be noted: the slow path would do so once more
                answers += [answer_to_failure(error, opaque, connection) for opaque in run.opaques]
            connection.counters.requests[_CODE] += len(run.opaques)
            done = run.end
        return done

    def _read(self, run: _CheckpointAcks) -> CheckpointKey | None:
        """Return what a run's checkpoint is found by; None: its messages have to be looked at one by one."""
        tables = self._tables
        header = decode_header(AckMessage, run.fields)
        handle, key = parse_ack(tables, header)
        begin = tables.store.min_offset(header.topic, header.queue_id)
        end = tables.store.max_offset(header.topic, header.queue_id)
        if handle.revive_queue_id == ORDER_REVIVE_QUEUE or min(run.offsets) < begin or max(run.offsets) > end:
            return None
        return key

    def _acknowledge(self, key: CheckpointKey, offsets: list[int]) -> None:
        tables = self._tables
        result = tables.pop.revive_log.acknowledge(key, offsets)
        if result is not None:
            tables.stats.acknowledged(key.topic, key.group, len(offsets))
            tables.store.bound_unsynced(result.end)


def _runs(data: bytes) -> Iterator[_CheckpointAcks]:
    """Yield the acks at the start of a read, those together that name the same checkpoint."""
    run = None
    for fields, opaque, end in plain_requests(data, _CODE):
        get = fields.get
        handle, _, offset = get("extraInfo", "").rpartition(" ")
        # A handle may go without its offset, and either may be written in another way: left to the slow path.
        if offset != get("offset") or not (offset.isascii() and offset.isdigit()) or len(offset) > _DIGITS_MAX:
            break
        place = handle, get("consumerGroup", ""), get("topic", ""), get("queueId", "")
        if run is None or place != run.place:
            if run is not None:
                yield run
            run = _CheckpointAcks(place, fields)
        run.offsets.append(int(offset))
        run.opaques.append(opaque)
        run.end = end
    if run is not None:
        yield run
