"""One message consumed on request, and stacks as text."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from orbitmq.client.consume.inspection import stacks
from orbitmq.client.consume.inspection.direct import DirectConsumption
from orbitmq.wire.bodies.consumer_info import Outcome
from unit.client.messages import stored

MESSAGE = stored(7)


def direct(handler=None, message_handler=None, *, is_ordered=False):
    return DirectConsumption(handler, message_handler, timeout_ms=60_000, is_ordered=is_ordered)


@pytest.mark.parametrize(
    ("act", "outcome"),
    [
        (lambda batch: None, Outcome.SUCCESS),
        (lambda batch: batch.commit(), Outcome.SUCCESS),
        (lambda batch: batch.retry(), Outcome.LATER),
        (lambda batch: batch.suspend(), Outcome.LATER),
        (lambda batch: batch.reject(batch[0]), Outcome.LATER),
    ],
)
async def test_a_batch_handler_says_what_became_of_it(act, outcome):
    result = await direct(act).consume(MESSAGE)
    assert (result.outcome, result.remark, result.is_ordered) == (outcome, None, False)


async def test_a_message_handler_gets_the_message_itself():
    got = []

    async def handle(message):
        got.append(message)

    result = await direct(message_handler=handle, is_ordered=True).consume(MESSAGE)
    assert (result.outcome, result.is_ordered, got) == (Outcome.SUCCESS, True, [MESSAGE])


async def test_what_a_handler_raises_is_told():
    def handle(message):
        raise ValueError("no such order")

    result = await direct(message_handler=handle).consume(replace(MESSAGE))
    assert (result.outcome, result.remark) == (Outcome.THROW_EXCEPTION, "ValueError: no such order")


def test_a_consumer_without_a_handler_has_none():
    assert not direct().has_handler
    assert direct(print).has_handler


async def test_tasks_and_threads_are_named_with_where_they_are(monkeypatch):
    async def waits_for_ever():
        await asyncio.Event().wait()

    task = asyncio.create_task(waits_for_ever(), name="the waiting one")
    await asyncio.sleep(0)
    text = stacks.describe_stacks()
    assert "task the waiting one" in text
    assert "in waits_for_ever" in text
    assert "thread MainThread" in text
    monkeypatch.setattr(stacks, "SIZE_MAX", 100)
    assert len(stacks.describe_stacks()) == 100
    task.cancel()
