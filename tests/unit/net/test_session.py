"""Claims about the session: requests and answers matched without a socket or a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import ClientError
from orbitmq.net.session import OPAQUE_MAX, Session, make_request
from orbitmq.wire.command import FLAG_RESPONSE, Command, decode_command
from orbitmq.wire.headers import GetClusterInfo, GetRouteInfo


def ask(session: Session, answers: list[object], deadline_ms: int = 1000) -> int:
    return session.request(make_request(GetClusterInfo()), answers.append, deadline_ms)


def answer(opaque: int) -> Command:
    return Command(0, opaque, FLAG_RESPONSE)


def test_an_answer_reaches_the_one_who_asked():
    session, first, second = Session(), [], []
    one, two = ask(session, first), ask(session, second)

    assert session.resolve(answer(two))
    assert session.resolve(answer(one))
    assert [first[0].opaque, second[0].opaque] == [one, two]


def test_an_answer_without_a_waiter_is_said_to_be_so():
    session, answers = Session(), []
    opaque = ask(session, answers)
    session.resolve(answer(opaque))

    assert not session.resolve(answer(opaque))
    assert not session.resolve(answer(77))
    assert len(answers) == 1


def test_requests_expire_at_their_deadline_and_not_before():
    session, answers = Session(), []
    late, soon = ask(session, answers, 2000), ask(session, answers, 1000)

    assert session.next_deadline_ms == 1000
    assert session.expire(999) == []
    assert [pending.opaque for pending in session.expire(1000)] == [soon]
    assert session.next_deadline_ms == 2000
    assert session.resolve(answer(late))
    assert session.next_deadline_ms is None
    assert not session.resolve(answer(soon))


def test_a_lost_connection_gives_back_all_waiters():
    session = Session()
    asked = [ask(session, []) for _ in range(3)]

    assert [pending.opaque for pending in session.abandon()] == asked
    assert session.pending_count == 0
    assert session.next_deadline_ms is None


def test_frames_are_joined_in_order():
    session = Session()
    session.request(make_request(GetRouteInfo(topic="a")), lambda _: None, 1)
    session.oneway(make_request(GetRouteInfo(topic="b")))

    sent = [decode_command(frame) for frame in Session().feed(session.take_out())]
    assert [(command.ext_fields["topic"], command.is_oneway) for command in sent] == [("a", False), ("b", True)]
    assert session.take_out() == b""


def test_opaques_start_again_without_meeting_one_that_still_waits():
    session = Session()
    first = ask(session, [])
    session._next_opaque = OPAQUE_MAX
    assert ask(session, []) == OPAQUE_MAX
    assert ask(session, []) == first + 1


def test_a_header_under_a_second_code_travels_under_that():
    assert make_request(GetClusterInfo()).code == 106
    assert make_request(GetClusterInfo(), b"x", code=7)[:6] == (7, 0, 0, None, {}, b"x")


@given(st.lists(st.sampled_from(["ask", "answer", "expire"]), max_size=40))
def test_every_request_ends_exactly_once(steps: list[str]):
    session, told, now = Session(), {}, 0
    open_requests: list[int] = []
    for step in steps:
        now += 10
        if step == "ask":
            ends: list[Command | ClientError] = []
            opaque = session.request(make_request(GetClusterInfo()), ends.append, now + 25)
            told[opaque] = ends
            open_requests.append(opaque)
        elif step == "answer" and open_requests:
            session.resolve(answer(open_requests.pop()))
        elif step == "expire":
            for pending in session.expire(now):
                pending.waiter(ClientError())
                if pending.opaque in open_requests:
                    open_requests.remove(pending.opaque)
    for pending in session.abandon():
        pending.waiter(ClientError())
    assert all(len(ends) == 1 for ends in told.values())


def test_sessions_share_nothing_that_they_ask():
    first, second, answers = Session(), Session(), []
    ask(first, answers)
    assert (first.pending_count, second.pending_count) == (1, 0)
    second.abandon()
    assert (first.pending_count, second.next_deadline_ms) == (1, None)
    ask(second, answers)
    first.abandon()
    assert (first.pending_count, second.pending_count, Session().pending_count) == (0, 1, 0)


def test_a_request_knows_its_code_and_what_had_been_read_when_it_left():
    session = Session()
    for reads in ((), (5,)):
        session.request(make_request(GetClusterInfo()), lambda _: None, 1000, *reads)
    assert [(pending.opaque, pending.code, pending.reads) for pending in session.expire(1000)] == [
        (0, 106, 0),
        (1, 106, 5),
    ]
