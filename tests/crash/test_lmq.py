"""kill -9 of a broker whose messages name LMQs: each LMQ has them all, in order, under its own numbers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crash.broker_process import BrokerProcess, Wire, wire_to
from orbitmq.errors import ClientError
from seeds import SEED

SETTINGS = {
    "enableLmq": "true",
    "enableMultiDispatch": "true",
    "mappedFileSizeCommitLog": 128 * 1024,
    "mappedFileSizeConsumeQueue": 50 * 20,
}
LIGHT = [f"%LMQ%{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("flush", "kills"),
    [("SYNC_FLUSH", 2), *(pytest.param(flush, 4, marks=pytest.mark.proof) for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"))],
)
async def test_every_acknowledged_message_is_in_its_lmqs(tmp_path: Path, flush: str, kills: int) -> None:
    print(f"ORBITMQ_SEED={SEED}")
    random, numbers = Random(SEED), count()
    acknowledged: dict[str, list[int]] = {name: [] for name in LIGHT}
    enough = asyncio.Event()

    async def load(wire: Wire) -> None:
        goal = random.randrange(100, 400)
        for sent in count():
            number = next(numbers)
            names = random.sample(LIGHT, random.randrange(4))
            named: dict[str, Any] = {"INNER_MULTI_DISPATCH": ",".join(names)} if names else {}
            assert await wire.send("mail", b"%d" % number, **named) == 0
            for name in names:
                acknowledged[name].append(number)
            if sent == goal:
                enough.set()

    with BrokerProcess(tmp_path, {"flushDiskType": flush, **SETTINGS}) as broker:
        for _ in range(kills):
            enough.clear()
            async with wire_to(broker) as wire:
                sending = asyncio.create_task(load(wire))
                waiting = asyncio.create_task(enough.wait())
                await asyncio.wait([sending, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                broker.kill()
                with suppress(ClientError):
                    await sending
            broker.start()
            async with wire_to(broker) as wire:
                for name in LIGHT:
                    found = [int(body) for body in await wire.read(name)]
                    assert found == sorted(set(found)), name
                    assert set(found) >= set(acknowledged[name]), name
                    # One that was on its way may be there without having been acknowledged.
                    assert len(found) - len(acknowledged[name]) <= kills, name
        assert broker.stop() == 0
    assert all(len(numbers) > 25 * kills for numbers in acknowledged.values())
