"""Stacks as text."""

from __future__ import annotations

import asyncio

from orbitmq.client.consume.inspection import stacks


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
