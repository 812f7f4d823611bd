"""Sends while a disk hangs: told at the time-out, refused when too much waits."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from orbitmq.broker.sending.answers import refusal_of
from orbitmq.errors import StoreBusy, StoreUnavailable
from orbitmq.store.local_disk import LocalFile
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from waiting import until

from ..parts import Serve

LATE, BUSY = 10, 2
SYNC: dict[str, Any] = {"flush_disk_type": "SYNC_FLUSH"}


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk whose syncs wait on the flusher's thread until the gate is open."""
    opened, real = threading.Event(), LocalFile.sync

    def sync(file: LocalFile) -> None:
        if threading.current_thread() is not threading.main_thread():
            opened.wait()
        real(file)

    opened.set()
    monkeypatch.setattr(LocalFile, "sync", sync)
    return opened


async def test_a_send_whose_sync_hangs_is_answered_at_the_time_out_and_says_where_it_lies(
    serve: Serve, gate: threading.Event
) -> None:

    async with serve(**SYNC, sync_flush_timeout=1_000) as harness:
        assert (await harness.send()).code == 0  # makes the topic: what follows is plain, or a batch of its own way
        gate.clear()
        try:
            plain, other = await asyncio.gather(
                harness.send(queue_id=1), harness.send(properties="DELAY\x010\x02", queue_id=2)
            )
            values = harness.broker.service.runtime_info.values
            await until(lambda: "the disk hangs" in values(0).get("warnings", ""))
        finally:
            gate.set()
        for queue_id, answer in ((1, plain), (2, other)):
            header = decode_header(SendResponse, answer.ext_fields or {})
            assert (answer.code, header.queue_id, header.queue_offset) == (LATE, queue_id, 0)
            assert "syncFlushTimeout" in (answer.remark or "")
        refusals = harness.broker.running.server.counters.refusals
        assert refusals[310, LATE] == 2, "those of the fast path count as well"
        await until(lambda: harness.broker.service.store.max_offset("t", 1) == 1)


async def test_more_than_may_wait_for_a_hung_disk_is_refused_as_busy(serve: Serve, gate: threading.Event) -> None:
    async with serve(**SYNC, sync_flush_waiting_max=65_536) as harness:
        assert (await harness.send()).code == 0
        gate.clear()
        try:
            sends = [asyncio.ensure_future(harness.send(body=bytes(40_000))) for _ in range(2)]
            await until(lambda: not harness.broker.service.store.is_writable)
            refused = await harness.send(body=bytes(40_000))
        finally:
            gate.set()
        assert (refused.code, refused.remark) == (
            BUSY, "the broker is busy: the disk does not keep up with what waits for it",
        )  # fmt: skip
        assert [answer.code for answer in await asyncio.gather(*sends)] == [0, 0]
        assert (await harness.send()).code == 0


def test_a_store_that_is_busy_is_told_apart_from_one_that_takes_nothing() -> None:
    assert (refusal_of(StoreBusy("b")).code, refusal_of(StoreUnavailable("u")).code) == (BUSY, 14)
