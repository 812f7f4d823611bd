"""Claims about the places of sends: bounded, those that have begun first, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from orbitmq.client.send.places import Places


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Visitors:
    """Takes places by name, and notes who has one."""

    def __init__(self, places: Places) -> None:
        self.inside: list[str] = []
        self._places = places

    def come(self, name: str, *, has_begun: bool = False) -> asyncio.Task[None]:
        async def take() -> None:
            await self._places.take(has_begun=has_begun)
            self.inside.append(name)

        return asyncio.create_task(take())


async def test_no_more_are_inside_than_there_are_places() -> None:
    places = Places(2)
    visitors = Visitors(places)
    tasks = [visitors.come(name) for name in "abcd"]
    await turns()
    assert visitors.inside == ["a", "b"]
    places.leave()
    places.leave()
    await asyncio.gather(*tasks)
    assert visitors.inside == ["a", "b", "c", "d"]


async def test_who_has_begun_comes_before_who_has_not() -> None:
    places = Places(1)
    visitors = Visitors(places)
    tasks = [visitors.come("a")]
    await turns()
    tasks += [
        visitors.come("b"),
        visitors.come("c"),
        visitors.come("d", has_begun=True),
        visitors.come("e", has_begun=True),
    ]
    await turns()
    for _ in range(4):
        places.leave()
        await turns()
    await asyncio.gather(*tasks)
    assert visitors.inside == ["a", "d", "e", "b", "c"]


@pytest.mark.parametrize("is_its_turn", [False, True])
async def test_who_gives_up_keeps_no_place(is_its_turn: bool) -> None:
    places = Places(1)
    visitors = Visitors(places)
    first = visitors.come("a")
    given_up, last = visitors.come("b"), visitors.come("c")
    await turns()
    if is_its_turn:
        places.leave()  # it is b's turn, and b has not noticed it
        given_up.cancel()
    else:
        given_up.cancel()
        await turns()
        places.leave()
    await asyncio.gather(first, last)
    assert visitors.inside == ["a", "c"]
    places.leave()
    await places.take(has_begun=False)  # it is free again
    assert given_up.cancelled()
