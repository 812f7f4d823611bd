"""The texts by which a pop's answer says which messages it holds, queue by queue. Pure.

`retry queue offset;...` (where each queue's checkpoint begins), `retry queue offset,offset,...;...` (its messages), and
for messages in order how often each was tried: `retry queue count;...` or `retry qo<queue>%<offset> count;...`.

Source: Java ExtraInfoUtil.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from orbitmq.errors import InvalidArgument

_FIELD_COUNT = 3


class PoppedQueue(NamedTuple):
    """The messages of one queue in a pop's answer.

    Args:
        retry: which topic they came from, as in their handles.
        start_offset: where their checkpoint begins.
        offsets: their own.
    """

    retry: str
    queue_id: int
    start_offset: int
    offsets: Sequence[int]


def format_start_offsets(queues: Iterable[PoppedQueue]) -> str:
    """Return `startOffsetInfo`."""
    return ";".join(f"{queue.retry} {queue.queue_id} {queue.start_offset}" for queue in queues)


def format_message_offsets(queues: Iterable[PoppedQueue]) -> str:
    """Return `msgOffsetInfo`."""
    return ";".join(f"{queue.retry} {queue.queue_id} {','.join(map(str, queue.offsets))}" for queue in queues)


def format_order_counts(retry: str, queue_id: int, counts: Mapping[int, int], default: int) -> str:
    """Return one queue's part of `orderCountInfo`.

    Args:
        counts: how often messages were tried before, by offset; messages that were not are left out.
        default: of the queue's messages that are not named; clients of old read it alone.
    """
    parts = [f"{retry} {order_count_key(queue_id, offset)} {count}" for offset, count in counts.items()]
    return ";".join([*parts, f"{retry} {queue_id} {default}"])


def order_count_key(queue_id: int, queue_offset: int) -> str:
    """Return the word that stands for a message in `orderCountInfo`."""
    return f"qo{queue_id}%{queue_offset}"


def parse_popped_queues(start_offsets: str | None, message_offsets: str | None) -> list[PoppedQueue]:
    """Return the queues of an answer, in its order.

    Raises:
        InvalidArgument: the texts are not such, or do not belong together.
    """
    starts = {(retry, queue): _number(start) for retry, queue, start in _parts("startOffsetInfo", start_offsets)}
    queues = []
    for retry, queue, offsets in _parts("msgOffsetInfo", message_offsets):
        start = starts.get((retry, queue))
        if start is None:
            raise InvalidArgument("msgOffsetInfo", f"{retry} {queue}"[:80], "queues that startOffsetInfo names")
        queues.append(PoppedQueue(retry, _number(queue), start, [_number(offset) for offset in offsets.split(",")]))
    return queues


def parse_order_counts(text: str | None) -> dict[tuple[str, str], int]:
    """Return how often messages were tried before, by retry and queue, or retry and the message's word.

    Raises:
        InvalidArgument: the text is not such.
    """
    return {(retry, word): _number(count) for retry, word, count in _parts("orderCountInfo", text)}


def _parts(name: str, text: str | None) -> Iterator[tuple[str, str, str]]:
    for part in (text or "").split(";") if text else ():
        fields = part.split(" ")
        if len(fields) != _FIELD_COUNT:
            raise InvalidArgument(name, part[:80], "three fields with blanks between them")
        yield fields[0], fields[1], fields[2]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument("offset", text[:24], "a number") from None
