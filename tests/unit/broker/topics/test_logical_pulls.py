"""Answers to pulls of logical queues."""

from __future__ import annotations

from cases import each_case
from orbitmq.broker.topics.logical_pulls import logical_answer
from orbitmq.model.static_topic import MappingItem
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.headers import PullResponse

FIRST = MappingItem(0, 3, "a", 0)
MIDDLE = MappingItem(1, 0, "b", 10_000)
LEADER = MappingItem(2, 5, "a", 20_000)
UNDECIDED = MappingItem(3, 1, "b", -1)
FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
ALL = (FIRST, MIDDLE, LEADER)


def answer(
    items: tuple[MappingItem, ...],
    item: MappingItem,
    offset: int,
    code: int,
    after: int,
    low: int,
    high: int,
    remark: str | None = None,
) -> tuple[int, int, int, int, int | None]:
    """Return code, next, smallest and largest offset, and delta of what comes of a queue's own answer."""
    header = PullResponse(suggest_which_broker_id=0, next_begin_offset=after, min_offset=low, max_offset=high)
    reply = logical_answer(items, item, offset, Reply(code, remark, header, b"body"))
    found = reply.header
    assert isinstance(found, PullResponse)
    assert reply.body == b"body"
    return reply.code, found.next_begin_offset, found.min_offset, found.max_offset, found.offset_delta  # fmt: skip


@each_case(
    (FIRST, (FOUND, 7, 2, 20_000, 0)),
    (MIDDLE, (FOUND, 10_007, 10_002, 20_000, 10_000)),
    (LEADER, (FOUND, 20_007, 20_002, 20_009, 20_000)),
)
def test_messages_come_with_logical_offsets(item: MappingItem, expected: tuple[int, ...]) -> None:
    assert answer(ALL, item, 5, FOUND, 7, 2, 9) == expected


def test_no_reader_is_sent_behind_the_end_of_an_item() -> None:
    ended = MIDDLE._replace(end_offset=6)
    assert answer((FIRST, ended, LEADER), ended, 5, FOUND, 7, 2, 9)[:2] == (FOUND, 10_006)


@each_case(NOT_FOUND, MOVED)
def test_a_reader_at_the_end_of_an_older_item_goes_on_in_the_next_one(code: int) -> None:
    assert answer(ALL, FIRST, 9, code, 9, 2, 9)[:4] == (RETRY, 10_000, 10_000, 20_000)
    assert answer(ALL, MIDDLE, 9, code, 9, 2, 9)[:4] == (RETRY, 20_000, 20_000, 20_000)


def test_a_reader_at_the_end_waits_while_the_next_item_is_not_decided() -> None:
    assert answer((FIRST, UNDECIDED), FIRST, 9, NOT_FOUND, 9, 2, 9)[:2] == (NOT_FOUND, 9)
    assert answer((FIRST, MIDDLE, UNDECIDED), MIDDLE, 9, NOT_FOUND, 9, 2, 9)[:2] == (NOT_FOUND, 10_009)


def test_a_reader_at_the_leaders_end_waits() -> None:
    assert answer(ALL, LEADER, 9, NOT_FOUND, 9, 2, 9) == (NOT_FOUND, 20_009, 20_002, 20_009, 20_000)
    assert answer((FIRST,), FIRST, 9, NOT_FOUND, 9, 2, 9) == (NOT_FOUND, 9, 2, 9, 0)


@each_case(
    (FIRST, 1, MOVED, (MOVED, 2)),
    (FIRST, 1, NOT_FOUND, (MOVED, 2)),
    (MIDDLE, 1, MOVED, (RETRY, 10_002)),
    (LEADER, 1, MOVED, (RETRY, 20_002)),
    (LEADER, 12, MOVED, (MOVED, 20_009)),
    (LEADER, 12, NOT_FOUND, (NOT_FOUND, 20_012)),
    (FIRST, 5, RETRY, (RETRY, 12)),
    (MIDDLE, 5, RETRY, (RETRY, 10_012)),
    (LEADER, 5, RETRY, (RETRY, 20_012)),
)
def test_an_offset_that_is_not_there_is_told_as_java_tells_it(
    item: MappingItem, offset: int, code: int, expected: tuple[int, int]
) -> None:
    assert answer(ALL, item, offset, code, 12, 2, 9)[:2] == expected


def test_behind_the_only_items_end_java_lets_the_reader_wait_there() -> None:
    assert answer((FIRST,), FIRST, 12, MOVED, 9, 2, 9)[:2] == (NOT_FOUND, 9)


def test_a_group_that_was_reset_is_sent_where_it_was_reset_to() -> None:
    assert answer((FIRST,), FIRST, 9, MOVED, 4, 2, 9, "OFFSET_RESET")[:2] == (MOVED, 4)
    assert answer(ALL, LEADER, 1, MOVED, 4, 2, 9, "OFFSET_RESET")[:2] == (MOVED, 20_004)


def test_a_refusal_without_offsets_stays_as_it_is() -> None:
    refusal = Reply(17, "no topic")
    assert logical_answer(ALL, FIRST, 0, refusal) is refusal
