from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import InvalidArgument, Rejected
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.net.dispatch.reply import Reply
from orbitmq.net.dispatch.work import Work, in_turns

from ...broker.parts import FakePeer, call


def work(steps: int, end: Reply | Exception | None) -> Work:
    for _ in range(steps):
        yield
    if isinstance(end, Exception):
        raise end
    return end if end is not None else LATER


def test_work_of_one_step_is_answered_immediately() -> None:
    peer = FakePeer()
    assert in_turns(call(None, peer=peer), work(0, Reply(7))) == Reply(7)
    assert (peer.turns, peer.replies) == (0, [])


def test_work_of_one_step_is_refused_as_any_request_is() -> None:
    with pytest.raises(Rejected):
        in_turns(call(None), work(0, Rejected(13, "no")))


@each_case(
    (Reply(7), [Reply(7)]),
    (None, []),
    (Rejected(13, "no"), [Reply(13, "no")]),
    (InvalidArgument("x", 1, "2"), [Reply(1, str(InvalidArgument("x", 1, "2")))]),
    (KeyError("x"), [Reply(1, "KeyError: 'x'")]),
)
def test_work_of_many_steps_is_answered_when_it_is_done_whatever_comes_of_it(
    end: Reply | Exception | None, replies: list[Reply]
) -> None:
    peer = FakePeer()
    assert in_turns(call(None, peer=peer), work(3, end)) is LATER
    assert (peer.turns, peer.replies) == (2, replies)
    assert peer.counters.failed_requests == isinstance(end, KeyError)
