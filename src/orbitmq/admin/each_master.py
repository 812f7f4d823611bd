"""Asks several masters at the same time, so that one that does not answer hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from orbitmq.errors import OrbitError

T = TypeVar("T")


async def ask_each(
    masters: Mapping[str, str], ask: Callable[[str, str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers by broker name, and what is wrong with each of the other brokers.

    Args:
        masters: broker name to address.
        ask: asks the broker of a name at its address.
    """
    answers: dict[str, T] = {}
    problems: dict[str, str] = {}

    async def one(broker: str, address: str) -> None:
        try:
            answers[broker] = await ask(broker, address)
        except OrbitError as error:
            problems[broker] = str(error)

    await asyncio.gather(*(one(broker, address) for broker, address in masters.items()))
    return answers, dict(sorted(problems.items()))
