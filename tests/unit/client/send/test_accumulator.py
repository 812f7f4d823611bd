from typing import Any, cast

import pytest

from orbitmq.client.send.accumulator import Accumulator, InFlight
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.request import encode_message
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.errors import RequestTimeout
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue

FIRST, SECOND = MessageQueue("t", "a", 0), MessageQueue("t", "b", 0)


class FakeSelector:
    """Chooses FIRST where nothing else is asked for; knows the route once it was asked for it."""

    def __init__(self, *, is_known=True):
        self.is_known = is_known

    def choose_now(self, target):
        return FIRST if self.is_known else None

    async def choose(self, target):
        self.is_known = True
        return target.queue or FIRST


class FakeSender:
    """Fails, and keeps where it was to send."""

    def __init__(self):
        self.sent = []

    async def send(self, batch, target, *, first):
        self.sent.append((first, target))
        raise RequestTimeout("no answer")


def accumulator(selector: Any = None, sender: Any = None):
    in_flight = InFlight(count_max=10, size_max=10_000)
    fakes = cast(Any, sender or FakeSender()), cast(Any, selector or FakeSelector())
    return Accumulator(*fakes, in_flight, BackgroundTasks(), batch_size_max=10_000)


async def test_a_queue_has_one_buffer():
    found = accumulator()
    assert found.buffer_now(Target("t")) is found.buffer_now(Target("t"))
    assert found.buffer_now(Target("t", SECOND)) is found.buffer_now(Target("t", SECOND))
    assert found.buffer_now(Target("t", SECOND)) is not found.buffer_now(Target("t", FIRST))


async def test_what_must_stay_in_its_queue_has_another_buffer_than_what_may_go_elsewhere():
    found = accumulator()
    free = found.buffer_now(Target("t"))
    assert found.buffer_now(Target("t", FIRST)) is not free
    assert found.buffer_now(Target("t", key="k")) is found.buffer_now(Target("t", FIRST))


@pytest.mark.parametrize(
    ("target", "aim"),
    [
        (Target("t"), Target("t")),
        (Target("t", key="k"), Target("t", FIRST)),
        (Target("t", SECOND), Target("t", SECOND)),
    ],
)
async def test_what_has_a_queue_or_key_is_sent_there_and_nowhere_else(target, aim):
    sender = FakeSender()
    found = accumulator(sender=sender)
    future = found.buffer_now(target).append(encode_message(Message("t", b"x"), "ID", compress_over=10), True)
    with pytest.raises(RequestTimeout):
        await future
    assert sender.sent == [(target.queue or FIRST, aim)]


async def test_while_the_route_is_not_known_there_is_no_buffer_unless_it_is_asked_for():
    found = accumulator(FakeSelector(is_known=False))
    assert found.buffer_now(Target("t")) is None
    buffer = await found.buffer(Target("t"))
    assert found.buffer_now(Target("t")) is buffer
