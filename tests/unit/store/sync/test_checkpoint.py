"""The checkpoint file."""

import pytest

from orbitmq.store.sync.checkpoint import Checkpoint, format_checkpoint, parse_checkpoint

SOME = Checkpoint(
    commit_log_ms=1_700_000_010_000,
    consume_queue_ms=1_700_000_005_000,
    index_ms=7,
    flushed_offset=8,
    confirmed_offset=9,
)


def test_the_file_is_five_longs_in_a_page():
    content = format_checkpoint(SOME)
    assert len(content) == 4096
    assert (
        content[:40].hex(" ", 8)
        == "0000018bcfe58f10 0000018bcfe57b88 0000000000000007 0000000000000008 0000000000000009"
    )
    assert not any(content[40:])
    assert parse_checkpoint(content) == SOME


@pytest.mark.parametrize("content", [b"", bytes(39)])
def test_a_missing_or_cut_file_knows_nothing(content):
    assert parse_checkpoint(content) == Checkpoint()
    assert parse_checkpoint(content).recovery_ms == 0


def test_recovery_trusts_what_both_logs_have_less_three_seconds():
    assert SOME.recovery_ms == 1_700_000_002_000
    assert SOME._replace(commit_log_ms=2000).recovery_ms == 0


def test_while_entries_are_written_again_recovery_trusts_those_before_them_alone():
    known = SOME.without_entries_since(1_700_000_000_500)
    assert known.recovery_ms == 1_700_000_000_499
    assert known == SOME._replace(consume_queue_ms=known.consume_queue_ms)
    assert SOME.without_entries_since(1_700_000_009_000) == SOME
    assert SOME.without_entries_since(0).recovery_ms == 0


def test_nothing_is_known_without_being_told_and_the_five_numbers_alone_are_enough():
    assert Checkpoint() == (0, 0, 0, 0, 0)
    assert parse_checkpoint(format_checkpoint(SOME)[:40]) == SOME
