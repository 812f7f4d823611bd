from __future__ import annotations

import orjson
import pytest

from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.lag_samples import UNKNOWN, GroupPosition, append_sample, encode_sample, recover_samples

QUEUE, OTHER = MessageQueue("t", "a", 0), MessageQueue("t", "a", 1)


def test_a_lag_is_known_where_both_ends_are():
    assert GroupPosition(3, 10).lag == 7
    assert GroupPosition(12, 10).lag == 0
    assert GroupPosition(None, 10).lag is GroupPosition(3, None).lag is UNKNOWN.lag is None


def test_a_line_says_null_where_nothing_is_known():
    line = encode_sample(17, {OTHER: UNKNOWN, QUEUE: GroupPosition(0, 2)}, "no answer")
    assert line.endswith(b"}\n")
    assert orjson.loads(line) == {
        "at_ms": 17,
        "queues": [
            {"broker": "a", "queue": 0, "committed": 0, "end": 2, "lag": 2},
            {"broker": "a", "queue": 1, "committed": None, "end": None, "lag": None},
        ],
        "trouble": "no answer",
    }


def test_a_line_without_its_end_is_cut_off(tmp_path):
    path = tmp_path / "lag.jsonl"
    assert recover_samples(path, "t") == (0, [])
    lines = [encode_sample(number, {QUEUE: UNKNOWN}, None) for number in range(2)]
    for line in lines:
        append_sample(path, line)
    append_sample(path, lines[0][:-1])

    assert recover_samples(path, "t") == (2, [QUEUE])

    assert path.read_bytes() == b"".join(lines)


def test_a_file_with_nothing_whole_begins_again(tmp_path):
    path = tmp_path / "lag.jsonl"
    path.write_bytes(b'{"at_ms"')
    assert recover_samples(path, "t") == (0, [])
    assert path.read_bytes() == b""


@pytest.mark.parametrize("line", [b"{", b"{}", b"[]", b'{"queues":7}'])
def test_a_line_that_is_no_sample_is_told(tmp_path, line):
    path = tmp_path / "lag.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(JobFailed, match="is no sample"):
        recover_samples(path, "t")
