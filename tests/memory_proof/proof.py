"""The proof that no answer from memory differs from one that is computed again, and the search for the least stream that does."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compat.differential import sort_sets
from memory_proof.servers import FakeClock, Side, two_sides
from memory_proof.stream import CHAPTER, Ask, AskTogether, HangUp, Step, Stream, Wait
from orbitmq.net.loop import loop_factory
from orbitmq.wire import fastjson
from orbitmq.wire.command import Command

_FIELDS = frozenset(("perm", "readQueueNums", "writeQueueNums", "topicSysFlag", "zoneName", "enableActingMaster"))


@dataclass(frozen=True)
class Difference:
    """Where the two servers part."""

    steps: tuple[Step, ...]
    """All steps up to the one that was answered differently."""
    ask: Ask
    remembered: Command
    computed: Command

    @property
    def where(self) -> tuple[str, ...]:
        """Name what differs, the same for all differences of a kind: the request's code and the places in its answer."""
        one, other = _meaning(self.remembered), _meaning(self.computed)
        return tuple(sorted({f"{self.ask.code}{place}" for place in _places(one, other)}))

    def __str__(self) -> str:
        lines = [f"{', '.join(self.where)}, after {len(self.steps)} steps:", *map(describe, self.steps)]
        one, other = _meaning(self.remembered), _meaning(self.computed)
        lines += [f"  remembered {_at(one, place)!r}, anew {_at(other, place)!r}" for place in _paths(one, other)]
        return "\n".join(lines)


class Proof:
    """Runs streams against pairs of fresh servers. Use it with `with`.

    `counts` are the requests so far, by code.
    """

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self._runner = asyncio.Runner(loop_factory=loop_factory())

    def __enter__(self) -> Proof:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def run(self, seed: int, count: int, only: frozenset[str] = frozenset()) -> Iterator[Difference]:
        """Carry out a seed's stream, and yield the first difference of each chapter."""
        for chapter, start in enumerate(range(0, count, CHAPTER)):
            steps = Stream(seed, chapter, only).steps(min(CHAPTER, count - start))
            found = self.carry_out(tuple(steps))
            if found is not None:
                yield found

    def carry_out(self, steps: Sequence[Step]) -> Difference | None:
        """Carry out steps with fresh servers; return the first difference."""
        return self._runner.run(self._carry_out(steps))

    def shrink(self, found: Difference) -> Difference:
        """Leave out steps, many first, while what is left shows a difference of the same kind."""
        size = len(found.steps) // 2
        while size:
            end = len(found.steps) - 1  # the last one is the question
            while end > 0:
                start = max(0, end - size)
                smaller = self.carry_out(found.steps[:start] + found.steps[end:])
                if smaller is not None and smaller.where == found.where:
                    found = smaller
                end = min(start, len(found.steps) - 1)
            size //= 2
        return found

    async def _carry_out(self, steps: Sequence[Step]) -> Difference | None:
        clock = FakeClock()
        async with two_sides(clock) as sides:
            for number, step in enumerate(steps, 1):
                found = await self._take(step, sides, clock)
                if found is not None:
                    return replace(found, steps=tuple(steps[:number]))
        return None

    async def _take(self, step: Step, sides: tuple[Side, Side], clock: FakeClock) -> Difference | None:
        remembering, bare = sides
        if isinstance(step, Wait):
            clock.ms += step.by_ms
            await asyncio.gather(remembering.scan(), bare.scan())
        elif isinstance(step, HangUp):
            await asyncio.gather(remembering.hang_up(step.client), bare.hang_up(step.client))
        else:
            asks = step.asks if isinstance(step, AskTogether) else (step,)
            remembered, computed = await remembering.ask(asks), await bare.ask(asks)
            self.counts.update(ask.code for ask in asks)
            for ask, one, other in zip(asks, remembered, computed, strict=True):
                if one != other and _meaning(one) != _meaning(other):
                    return Difference((), ask, one, other)
        return None


def describe(step: Step) -> str:
    """Return a step as a line."""
    match step:
        case Wait(by_ms):
            return f"  wait {by_ms} ms and look at the leases"
        case HangUp(client):
            return f"  connection {client} ends"
        case AskTogether(asks):
            return "  in one write:\n" + "\n".join(f"  {describe(ask)}" for ask in asks)
        case Ask(client, code, fields, body, version, is_binary):
            named = " ".join(f"{name}={value}" for name, value in fields.items() if name != "bodyCrc32")
            form = " binary" if is_binary else ""
            said = f"{len(body)} bytes" if fields.get("compressed") == "true" else body.decode().rstrip()
            return f"  {client}: {code}{form} version={version} {named} {said}".rstrip()


def _meaning(answer: Command) -> dict[str, Any]:
    """Return what of an answer has to be equal: not the order of sets."""
    body: Any = answer.body
    if body[:1] in (b"{", b"["):
        body = sort_sets(fastjson.loads(body))
    return {"code": answer.code, "remark": answer.remark, "fields": dict(answer.ext_fields or {}), "body": body}


def _paths(one: Any, other: Any, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    if isinstance(one, dict) and isinstance(other, dict):
        names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
        return [found for name in names for found in _paths(one.get(name), other.get(name), (*path, name))]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        numbers = [number for number, pair in enumerate(zip(one, other, strict=True)) if pair[0] != pair[1]]
        return [found for number in numbers for found in _paths(one[number], other[number], (*path, number))]
    return [path]


def _places(one: Any, other: Any) -> list[str]:
    """Name places without what is particular to one of them: numbers in lists, topics, addresses."""
    paths = ([name for name in path if isinstance(name, str)] for path in _paths(one, other))
    return [" " + ".".join(path[:3] if path[-1] in _FIELDS else path[:2]) for path in paths]


def _at(value: Any, path: tuple[object, ...]) -> Any:
    for name in path:
        value = None if value is None else value.get(name) if isinstance(value, dict) else value[name]
    return value
