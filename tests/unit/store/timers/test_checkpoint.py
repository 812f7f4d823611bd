from __future__ import annotations

from struct import pack

import pytest

from orbitmq.model.topic import DataVersion
from orbitmq.store.timers.checkpoint import (
    TimerCheckpoint,
    format_timer_checkpoint,
    format_timer_checkpoint_file,
    parse_timer_checkpoint,
)

CHECKPOINT = TimerCheckpoint(1_000, 52, 3, 4, DataVersion(5, 6, 7))


def test_the_checkpoint_is_seven_numbers_and_the_file_a_page() -> None:
    assert format_timer_checkpoint(CHECKPOINT) == pack(">qqqqqqq", 1_000, 52, 3, 4, 5, 6, 7)
    content = format_timer_checkpoint_file(CHECKPOINT)
    assert len(content) == 4096
    assert parse_timer_checkpoint(content) == CHECKPOINT


@pytest.mark.parametrize("content", [b"", b"x" * 55, pack(">qqqqqqq", 1, -1, 0, 0, 0, 0, 0)])
def test_a_file_that_is_missing_short_or_impossible_knows_nothing(content: bytes) -> None:
    assert parse_timer_checkpoint(content) == TimerCheckpoint()
