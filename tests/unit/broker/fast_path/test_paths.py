from __future__ import annotations

from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.fast_path.paths import FastPaths

from ..parts import FakePeer, Serve

SEND, END = b"\0" * 8 + b'{"code":310,', b"\0" * 8 + b'{"code":37,"'


def paths(taken: list[bytes]) -> FastPaths:
    def way(data: bytes, answers: list[bytes], connection: object) -> int:
        taken.append(data)
        answers.append(b"answer")
        return 5

    return FastPaths({b"310": way})


def test_a_read_goes_the_way_of_the_request_that_it_begins_with() -> None:
    taken: list[bytes] = []
    answers: list[bytes] = []
    assert paths(taken).answer(SEND, answers, FakePeer()) == 5
    assert (taken, answers) == ([SEND], [b"answer"])


@each_case(END, b"", SEND[:17], b"x" * 100)
def test_other_reads_go_the_slow_path(data: bytes) -> None:
    taken: list[bytes] = []
    assert paths(taken).answer(data, [], FakePeer()) == 0
    assert taken == []


def test_a_closed_fast_path_takes_nothing() -> None:
    taken: list[bytes] = []
    closed = paths(taken)
    closed.close()
    assert closed.answer(SEND, [], FakePeer()) == 0
    assert taken == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {b"310", b"11,", b"37,", b"200"}),
        ({"reject_transaction_message": True}, {b"310", b"11,", b"200"}),
        ({"flush_disk_type": "SYNC_FLUSH"}, {b"310", b"11,"}),
    ],
)
async def test_what_would_wait_for_the_disk_has_no_fast_path(
    serve: Serve, settings: dict[str, Any], expected: set[bytes]
) -> None:

    async with serve(**settings) as harness:
        assert set(harness.broker.running.fast_path._by_code) == expected
