"""Blocks cover the range once, are pulled side by side, and hand their bodies on in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Earliest
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading import blocks as module
from orbitmq.spark.reading.blocks import Block, Blocks
from orbitmq.spark.reading.planning import Range

OPTIONS = ReadOptions(name_servers=("h:1",), start=Earliest(), pull_outstanding=3, pull_count=100)


def blocks(begin: int, end: int, **options) -> Blocks:
    return Blocks(Range(MessageQueue("orders", "a", 0), begin, end), replace(OPTIONS, **options))


def bounds(due) -> list[tuple[int, int]]:
    return [(block.cursor, block.end) for block in due]


def pull(found: Blocks, block: Block, count: int, size: int = 10) -> None:
    """Let a broker give `count` messages of `size` bytes each."""
    found.add(block, b"%d " % block.cursor + b"." * (count * size), block.cursor + count)
    block.cursor += count


def test_the_first_blocks_are_small_and_cover_the_range_side_by_side():
    assert bounds(blocks(5, 200).due()) == [(5, 37), (37, 69), (69, 101)]
    assert bounds(blocks(5, 50).due()) == [(5, 37), (37, 50)]
    assert bounds(blocks(5, 50, pull_count=7).due()) == [(5, 12), (12, 19), (19, 26)]


def test_a_block_is_due_again_when_its_pull_was_answered():
    found = blocks(0, 1000)
    first, second, third = found.due()
    first.opaque, second.opaque, third.opaque = 1, 2, 3
    assert list(found.due()) == []
    pull(found, second, 10)
    second.opaque = None

    assert list(found.due()) == [second]


def test_blocks_that_lost_their_connection_are_due_again():
    found = blocks(0, 1000)
    for number, block in enumerate(found.due()):
        block.opaque = number
    found.forget_pulls()

    assert bounds(found.due()) == [(0, 32), (32, 64), (64, 96)]


def test_a_tag_filter_makes_the_range_one_block():
    assert bounds(blocks(0, 1000, tags=frozenset("a")).due()) == [(0, 1000)]


def test_later_blocks_have_the_size_of_a_pull(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_SIZE", 1000)
    found = blocks(0, 10_000, pull_outstanding=1)
    (first,) = found.due()
    found.add(first, b"." * 640, 32)  # 20 bytes a message
    first.cursor = 32
    list(found.drain())
    (second,) = found.due()
    assert bounds([second]) == [(32, 82)]
    found.add(second, b"." * 50 * 60, 82)  # 60 bytes a message: 40 is expected now
    second.cursor = 82
    list(found.drain())

    assert bounds(found.due()) == [(82, 107)]


@pytest.mark.parametrize(("size", "count"), [(1, 100), (5000, 1)])
def test_a_block_has_at_least_one_message_and_at_most_a_pull(size, count, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_SIZE", 1000)
    found = blocks(0, 10_000, pull_outstanding=1)
    (first,) = found.due()
    found.add(first, b"." * 32 * size, 32)
    first.cursor = 32
    list(found.drain())

    assert bounds(found.due()) == [(32, 32 + count)]


def test_bodies_come_in_order_and_only_when_those_before_are_complete():
    found = blocks(0, 1000)
    first, second, _ = found.due()
    pull(found, second, 32)
    assert list(found.drain()) == []
    pull(found, first, 20)
    assert [body.split()[0] for body in found.drain()] == [b"0"]
    pull(found, first, 12)

    assert [body.split()[0] for body in found.drain()] == [b"20", b"32"]
    assert list(found.drain()) == []


def test_a_block_that_holds_enough_waits_unless_it_is_the_first(monkeypatch):
    monkeypatch.setattr(module, "BUFFER_SIZE_MAX", 50)
    found = blocks(0, 64, pull_outstanding=2)
    first, second = found.due()
    pull(found, first, 10)
    pull(found, second, 10)

    assert list(found.due()) == [first]
    pull(found, first, 22)
    list(found.drain())
    assert list(found.due()) == [second]


def test_an_answer_that_does_not_move_on_says_nothing_of_the_size_of_messages():
    found = blocks(0, 1000, pull_outstanding=1)
    (block,) = found.due()
    found.add(block, b"." * 100, block.cursor)
    block.cursor = block.end
    list(found.drain())

    assert bounds(found.due()) == [(32, 64)]


def test_a_range_is_finished_when_everything_was_handed_on():
    assert blocks(7, 7).is_finished
    found = blocks(0, 40)
    assert not found.is_finished
    first, second = found.due()
    pull(found, first, 32)
    pull(found, second, 8)
    assert not found.is_finished
    list(found.drain())

    assert found.is_finished
    assert list(found.due()) == []


def test_a_complete_block_is_not_pulled_again():
    found = blocks(0, 64)
    _, second = found.due()
    pull(found, second, 32)

    assert second.is_complete
    assert bounds(found.due()) == [(0, 32)]
