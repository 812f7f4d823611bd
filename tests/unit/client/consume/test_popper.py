import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from orbitmq.client.consume.pop_targets import PopTarget
from orbitmq.client.consume.popper import Popper
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.model.group import ConsumeFrom
from orbitmq.wire.command import Command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import PopMessage, PopNotification, PopNotificationResponse, PopResponse
from orbitmq.wire.messages.record import format_record

A, B = (PopTarget(parse_subscription("t", "*", 1), name) for name in ("a", "b"))
NOTHING = Command(ResponseCode.POLLING_TIMEOUT)
REFUSED = Command(ResponseCode.NO_PERMISSION, remark="not yours")


def messages(*bodies):
    header = PopResponse(
        pop_time_ms=5, invisible_ms=9, revive_queue_id=3, rest_count=0,
        start_offset_info="0 0 0", message_offset_info="0 0 " + ",".join(map(str, range(len(bodies)))),
    )  # fmt: skip
    records = [
        format_record(topic="t", body=body, queue_id=0, queue_offset=offset) for offset, body in enumerate(bodies)
    ]
    return Command(0, ext_fields=encode_header(header), body=b"".join(records))


def has_messages(found):
    return Command(0, ext_fields=encode_header(PopNotificationResponse(has_message=found, polling_full=False)))


class Session:
    """Brokers that answer what they are told to, one outcome after the other, and then that there is nothing."""

    def __init__(self, **outcomes):
        self.tasks = BackgroundTasks()
        self.routes = SimpleNamespace(address=lambda name: f"{name}:1")
        self.outcomes = outcomes
        self.sent = []
        self.failures = []

    async def call(self, broker_name, header, **_settings):
        self.sent.append((broker_name, header))
        outcomes = self.outcomes.get(broker_name, [])
        outcome = outcomes.pop(0) if outcomes else NOTHING
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
            outcome = has_messages(True)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def note_answer(self, broker_name):
        pass

    def note_failure(self, broker_name, error):
        self.failures.append(broker_name)

    def pops(self, broker_name):
        return [header for name, header in self.sent if name == broker_name and isinstance(header, PopMessage)]


async def keep_all(_subscription, found):
    return found


def popper_of(session, *, consume_from=ConsumeFrom.FIRST, is_ordered=False, check_open=lambda: None):
    return Popper(session, "g", consume_from=consume_from, is_ordered=is_ordered, keep=keep_all, check_open=check_open)


async def pop(popper, *targets, timeout_s=60.0):
    found = await popper.pop(targets, 32, 9, asyncio.get_running_loop().time() + timeout_s)
    return [message.body for message in found]


async def test_a_single_broker_holds_the_request_until_it_has_messages():
    session: Any = Session(a=[messages(b"1", b"2")])
    assert await pop(popper_of(session), A) == [b"1", b"2"]
    (header,) = session.pops("a")
    assert (header.poll_ms, header.count_max, header.invisible_ms, header.init_mode) == (10_000, 32, 9, 0)
    assert await pop(popper_of(session, consume_from=ConsumeFrom.LAST), A, timeout_s=0) == []
    assert (session.pops("a")[1].poll_ms, session.pops("a")[1].init_mode) == (0, 1)


async def test_several_brokers_are_asked_one_after_the_other():
    session: Any = Session(b=[messages(b"1")])
    assert await pop(popper_of(session), A, B) == [b"1"]
    assert [(name, header.poll_ms) for name, header in session.sent] == [("a", 0), ("b", 0)]


async def test_of_several_brokers_without_messages_the_first_that_gets_some_is_asked_again():
    session: Any = Session(a=[NOTHING, has_messages(False)], b=[NOTHING, has_messages(True), messages(b"1")])
    assert await pop(popper_of(session), A, B) == [b"1"]
    assert [header.poll_ms for _, header in session.sent if isinstance(header, PopNotification)] == [10_000] * 2


async def test_after_its_time_no_broker_is_waited_for():
    session: Any = Session()
    assert await pop(popper_of(session), A, B, timeout_s=0) == []
    assert len(session.sent) == 2


async def test_one_refusal_keeps_no_message_of_another_broker_and_refusals_of_all_are_told():
    session: Any = Session(a=[REFUSED, REFUSED], b=[messages(b"1"), REFUSED])
    popper = popper_of(session)
    assert await pop(popper, A, B) == [b"1"]
    with pytest.raises(RemoteRefused, match="not yours"):
        await pop(popper, A, B)


async def test_a_broker_that_cannot_be_waited_for_has_no_messages():
    session: Any = Session(a=[NOTHING, RouteNotFound("gone")], b=[NOTHING, REFUSED])
    assert await pop(popper_of(session), A, B) == []
    assert session.failures == ["a"]


async def test_an_absent_broker_is_not_asked_until_it_is_back(monkeypatch):
    monkeypatch.setattr("orbitmq.client.consume.absent_brokers.FIRST_PAUSE_S", 0)
    session: Any = Session(a=[RequestTimeout("no answer"), NOTHING])
    popper = popper_of(session)
    assert await pop(popper, A) == []
    assert str(popper.absence([A])) == "no answer"
    assert popper.absence([A, B]) is None
    assert await pop(popper, A) == []  # waits for the broker alone
    assert len(session.pops("a")) == 1
    assert popper.absence([A]) is None
    await session.tasks.close()


async def test_a_broker_that_leaves_while_it_is_waited_for_is_absent():
    session: Any = Session(a=[NOTHING, RequestTimeout("no answer"), *[RequestTimeout("still none")] * 9])
    session.outcomes["b"] = [NOTHING, has_messages(False)]
    popper = popper_of(session)
    assert await pop(popper, A, B, timeout_s=0.01) == []
    assert str(popper.absence([A])) == "no answer"
    await session.tasks.close()


async def test_a_closed_consumers_broken_connection_is_no_absence():
    def refuse():
        raise ClientError("closed")

    session: Any = Session(a=[RequestTimeout("no answer")])
    popper = popper_of(session, check_open=refuse)
    with pytest.raises(ClientError, match="closed"):
        await pop(popper, A)
    assert popper.absence([A]) is None


async def test_in_order_an_attempt_without_an_answer_is_made_again_under_its_name():
    session: Any = Session(a=[asyncio.CancelledError(), NOTHING])
    popper = popper_of(session, is_ordered=True)
    with pytest.raises(asyncio.CancelledError):
        await popper.pop([A], 32, 9, 0)
    for _ in range(2):
        assert await pop(popper, A) == []
    first, second, third = [header.attempt_id for header in session.pops("a")]
    assert first == second != third


async def test_a_message_that_cannot_be_read_is_told_of(caplog):
    good = messages(b"1")
    damaged = format_record(topic="t", body=b"2", queue_id=7, queue_offset=0)
    session: Any = Session(a=[good._replace(body=good.body + damaged)])
    assert await pop(popper_of(session), A) == [b"1"]
    assert "group g: a message from a cannot be read" in caplog.text
