"""Asks several servers at the same time, so that one that does not answer hides no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from orbitmq.errors import ConnectionBroken, OrbitError, PartlyDone, RequestTimeout
from orbitmq.wire.command import Command

K = TypeVar("K")
T = TypeVar("T")

SendRequest = Callable[[str, object], Awaitable[Command]]
"""Sends a header to an address; returns the answer, or raises RemoteRefused."""

_AT_A_TIME = 32


async def ask_each(
    masters: Mapping[str, str], ask: Callable[[str, str], Awaitable[T]], *, needs_one: bool = False
) -> tuple[dict[str, T], dict[str, str]]:
    """Return the answers by broker name, and what is wrong with each of the other brokers.

    Args:
        masters: broker name to address.
        ask: asks the broker of a name at its address.
        needs_one: without any answer the first broker's error is raised.
    """
    answers, errors = await _ask(masters, ask)
    problems = dict(sorted(errors.items()))
    if needs_one and problems and not answers:
        raise next(iter(problems.values()))
    return answers, {broker: str(error) for broker, error in problems.items()}


async def ask_all(masters: Mapping[str, str], ask: Callable[[str, str], Awaitable[T]]) -> dict[str, T]:
    """Return the answers of all by broker name, in the masters' order.

    Args:
        masters: broker name to address.
        ask: asks the broker of a name at its address.

    Raises:
        OrbitError: of the first broker without an answer, in the masters' order, when all have ended.
    """
    answers, errors = await _ask(masters, ask)
    for broker in masters:
        if broker in errors:
            raise errors[broker]
    return answers


async def ask_about(items: Iterable[K], ask: Callable[[K], Awaitable[T]]) -> list[T]:
    """Return what is answered about each item, in their order; of at most 32 the answers are awaited at the same time."""
    permits = asyncio.Semaphore(_AT_A_TIME)

    async def one(item: K) -> T:
        async with permits:
            return await ask(item)

    return await asyncio.gather(*map(one, items))


async def change_each(
    servers: Mapping[str, str], change: Callable[[str, str], Awaitable[T]], *, done: Sequence[str] = ()
) -> dict[str, T]:
    """Make a change at all servers together; return their answers by name, in the servers' order.

    Args:
        servers: name to address.
        change: makes it at the server of a name and address.
        done: names of servers that have made their part of it before.

    Raises:
        PartlyDone: some have made it, some have not, or may have, since they did not answer; it names all.
        OrbitError: none has surely made it; the first one's error, whose notes name the others.
    """
    answers, errors = await _ask(servers, change)
    problems = {name: errors[name] for name in servers if name in errors}
    if not problems:
        return answers
    first = next(iter(problems.values()))
    outcomes = [f"{_outcome(error)} on {name}: {error}" for name, error in problems.items()]
    done = [*done, *answers]
    if done:
        raise PartlyDone("; ".join([f"done on {', '.join(done)}", *outcomes]), done) from first
    for outcome in outcomes[1:]:
        first.add_note(outcome)
    raise first


def _outcome(error: OrbitError) -> str:
    """Return what is known of a change that ended with an error: a server that is silent may make it later."""
    return "perhaps done" if isinstance(error, (RequestTimeout, ConnectionBroken)) else "not done"


async def _ask(
    masters: Mapping[str, str], ask: Callable[[str, str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, OrbitError]]:
    answers: dict[str, T] = {}
    errors: dict[str, OrbitError] = {}

    async def one(broker: str, address: str) -> None:
        try:
            answers[broker] = await ask(broker, address)
        except OrbitError as error:
            errors[broker] = error

    await asyncio.gather(*(one(broker, address) for broker, address in masters.items()))
    return {broker: answers[broker] for broker in masters if broker in answers}, errors


def notices_of(problems: Mapping[str, str]) -> list[str]:
    """Return a line for each broker whose part of an answer is missing: its name, and what is wrong there."""
    return [f"without {broker}: {problem}" for broker, problem in problems.items()]
