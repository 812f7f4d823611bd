"""The tasks of a read of files: all of the log, in pieces that are worth a task."""

from __future__ import annotations

from orbitmq.spark.commitlog.splits import SPLIT_SIZE, SegmentFile, Split, split_log


def test_a_log_is_cut_into_pieces_and_at_its_end():
    one, two, three = (SegmentFile(str(n), n * 100 * 2**20, 100 * 2**20) for n in range(3))
    end = 100 * 2**20 + 70 * 2**20

    assert split_log([one, two, three], end, 5) == [
        Split(one, 0, SPLIT_SIZE, 5),
        Split(one, SPLIT_SIZE, 100 * 2**20, 5),
        Split(two, 0, SPLIT_SIZE, 5),
        Split(two, SPLIT_SIZE, 70 * 2**20, 5),
    ]


def test_more_tasks_are_smaller_ones():
    segment = SegmentFile("0", 0, 1000)

    assert [(split.begin, split.end) for split in split_log([segment], 1000, 0, 3)] == [
        (0, 334),
        (334, 668),
        (668, 1000),
    ]
    assert len(split_log([segment], 10, 0, 100)) == 10


def test_an_empty_log_has_no_task():
    assert split_log([SegmentFile("0", 0, 1000)], 0, 0, 4) == []
    assert split_log([], 0, 0) == []
