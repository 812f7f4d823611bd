"""The queue of logins: turns by address, and a login that finds it full."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.dashboard.login_queue import WAITING_MAX, LoginQueue, TooManyLogins
from waiting import until


class Logins:
    """Logins in a queue, whose checks end when the test says so."""

    def __init__(self) -> None:
        self.queue = LoginQueue(1)
        self.begun: list[str] = []
        self.goes_on = asyncio.Semaphore(0)

    async def log_in(self, address: str, is_known: bool) -> None:
        async with self.queue.turn(address, is_known=is_known):
            self.begun.append(address)
            await self.goes_on.acquire()

    async def enter(self, *addresses: str, is_known: bool = False) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.log_in(address, is_known)) for address in addresses]
        await asyncio.wait(tasks, timeout=0)
        return tasks

    async def end(self, *tasks: asyncio.Task[None]) -> list[BaseException | None]:
        for _ in tasks:
            self.goes_on.release()
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_login_is_not_behind_those_of_other_addresses() -> None:
    logins = Logins()
    tasks = await logins.enter("a", "a", "a", "a") + await logins.enter("b") + await logins.enter("c", is_known=True)
    assert await logins.end(*tasks) == [None] * 6
    assert logins.begun == ["a", "c", "a", "b", "a", "a"]


async def test_a_full_queue_refuses_the_newest_of_the_address_that_has_most() -> None:
    logins = Logins()
    many = await logins.enter(*"a" * (WAITING_MAX + 1))
    (over,) = await logins.enter("a")
    (other,) = await logins.enter("b")
    *ended, newest, last = await logins.end(*many, over)
    await logins.end(other)
    assert ended == [None] * WAITING_MAX
    assert [type(newest), type(last)] == [TooManyLogins, TooManyLogins]
    assert "b" in logins.begun


@pytest.mark.parametrize("has_turn", [False, True])
async def test_a_login_that_is_abandoned_gives_its_turn_back(has_turn: bool) -> None:
    logins = Logins()
    first, second = await logins.enter("a", "a")
    abandoned = first if has_turn else second
    abandoned.cancel()
    await asyncio.wait([abandoned])
    (third,) = await logins.enter("b")
    await logins.end(second if has_turn else first, third)
    await until(lambda: logins.queue._free == 1)
    assert not logins.queue._waiting
