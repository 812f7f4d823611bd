"""Scenarios told to both brokers, step by step; what differs is noted, and shrunk to the few steps that it takes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from compat.broker.answers import REMARK, Normal, normalise, normalise_push
from compat.broker.reasons import UNANSWERED, Reason, ends_silently, reason_of, silent_reason_of
from compat.broker.sides import Memory, Outcome, Side, Silence
from compat.broker.steps import Step, Way
from compat.broker.tally import Tally
from compat.differential import where_they_differ

ROUNDS_MAX = 200


class Told(Protocol):
    """A scenario: the steps of a seed."""

    @property
    def seed(self) -> int: ...

    @property
    def steps(self) -> Sequence[Step]: ...


def say_remarks_of_ours_alone(java: Normal, ours: Normal) -> None:
    """Of remarks compare only that there is one; ours may say more."""
    if java.get("has a remark") is False and java["code"] == ours.get("code"):
        ours["has a remark"] = False
    java.pop(REMARK, None)
    ours.pop(REMARK, None)


class Rules(NamedTuple):
    """What two answers must have in common.

    Args:
        normalise: returns what of an answer is compared.
        take_away: takes what need not be equal out of Java's answer and ours.
        ends_silently: says of a step, and those before it, that the brokers keep different things by intention from then on.
        pushes: the codes of the requests that brokers send by themselves, and that are compared.
    """

    normalise: Callable[[Step, Outcome, Memory], Normal] = normalise
    take_away: Callable[[Normal, Normal], None] = say_remarks_of_ours_alone
    reason_of: Callable[[Step, Normal, Normal], Reason | None] = reason_of
    ends_silently: Callable[[Step, Sequence[Step]], bool] = ends_silently
    pushes: frozenset[int] = frozenset((326,))


@dataclass(frozen=True)
class Difference:
    """A step whose answers are not the same, and why where that is known."""

    step: Step
    lines: tuple[str, ...]
    reason: Reason | None = None


@dataclass(frozen=True)
class Found:
    """A difference without a reason, and the few steps that lead to it."""

    seed: int
    steps: tuple[Step, ...]
    difference: Difference

    @property
    def kind(self) -> str:
        """Where the difference is: many scenarios may come upon the same."""
        return f"{self.difference.step.code}: {' '.join(_kind(self.difference))}"

    def __str__(self) -> str:
        return "\n".join((f"scenario {self.seed}", *(f"  {step}" for step in self.steps), *self.difference.lines))


class Comparison:
    """Both brokers, told the same scenarios."""

    def __init__(self, java: Side, ours: Side, tally: Tally | None = None, rules: Rules | None = None) -> None:
        self.java, self.ours = java, ours
        self.tally = Tally() if tally is None else tally
        self.rules = rules or Rules()
        self._is_settled = True

    def compare(self, scenario: Told) -> Found | None:
        """Tell a scenario; note a difference without a reason, shrunk, unless one of its kind is noted already."""
        differences = self.tell(scenario.steps)
        if not differences:
            return None
        found = Found(scenario.seed, tuple(scenario.steps), differences[0])
        tally = self.tally
        if found.kind in tally.differences:
            return None
        counts, listed = tally.counts.copy(), tally.listed.copy()
        few, last = self.shrink(scenario.steps, found.difference)
        tally.counts, tally.listed = counts, listed
        shrunk = Found(scenario.seed, tuple(few), last)
        tally.differences[shrunk.kind] = str(shrunk)
        return shrunk

    def tell(self, steps: Sequence[Step]) -> list[Difference]:
        """Tell a scenario; returns what differed without a reason. Ends at the first of them."""
        prefix = f"q{next(_NAMES):07d}-"
        for side in self._sides:
            side.begin(prefix)
        try:
            for place, step in enumerate(steps):
                difference = self._take(step, {other.number: other for other in steps})
                if difference is None and self.rules.ends_silently(step, steps[:place]):
                    return []
                if difference is None:
                    continue
                if difference.reason is None:
                    return [difference]
                self.tally.listed[difference.reason.name] += 1
                if difference.reason.ends_scenario:
                    return []
            return self._pushes()
        finally:
            for side in self._sides:
                side.end()

    def shrink(self, steps: Sequence[Step], difference: Difference) -> tuple[list[Step], Difference]:
        """Return fewer steps that make the same step differ."""
        kept = [step for step in steps if step.number <= difference.step.number]
        size = max(1, len(kept) // 2)
        for _ in range(ROUNDS_MAX):
            shorter = self._shorter(kept, difference, size)
            if shorter is not None:
                kept, difference = shorter
                size = min(size, max(1, len(kept) // 2))
            elif size == 1:
                break
            else:
                size = max(1, size // 2)
        return kept, difference

    def _shorter(self, steps: list[Step], difference: Difference, size: int) -> tuple[list[Step], Difference] | None:
        last = difference.step.number
        for start in range(0, len(steps) - 1, size):
            rest = steps[:start] + steps[start + size :]
            if not rest or rest[-1].number != last:
                rest.append(steps[-1])
            if len(rest) == len(steps):
                continue
            found = self.tell(rest)
            if found and found[0].step.number == last and _kind(found[0]) == _kind(difference):
                return rest, found[0]
        return None

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.java, self.ours

    def _take(self, step: Step, steps: Mapping[int, Step]) -> Difference | None:
        if step.way is Way.MARK:
            self._remember_the_time(step)
            return None
        if step.way is Way.REOPEN:
            for side in self._sides:
                side.reopen(step.link)
            return None
        if step.way is Way.FETCH:
            if step.code not in steps:
                return None
            return self._compare(replace(step, code=steps[step.code].code), step.code)
        if step.code in _SENDS:
            self._is_settled = False
        elif not self._is_settled:
            self.java.settle()
            self._is_settled = True
        self.tally.counts[step.code] += 1
        for side in self._sides:
            side.send(step)
        if step.is_oneway or step.way is Way.HOLD:
            self._wait_for_turn(step)
            return None
        return self._compare(step, step.number)

    def _wait_for_turn(self, step: Step) -> None:
        """Wait until a request that is not answered now has been looked at: one more goes through the same pool."""
        for side in self._sides:
            side.ask(step.code, link=step.link)

    def _compare(self, step: Step, number: int) -> Difference | None:
        outcomes: list[Outcome] = []
        for side in self._sides:
            try:
                outcomes.append(side.receive(number))
            except Silence as silence:
                reason = self.rules.reason_of(step, UNANSWERED, {}) if side is self.java else None
                for other in self._sides:  # Java closes the link some day, with what is asked then
                    other.reopen(step.link)
                return Difference(step, (str(silence),), reason)
        java, ours = (
            self.rules.normalise(step, outcome, side.memory)
            for outcome, side in zip(outcomes, self._sides, strict=True)
        )
        remarks = java.get(REMARK), ours.get(REMARK)
        self.rules.take_away(java, ours)
        if java == ours:
            silent = silent_reason_of(step, java, ours)
            return None if silent is None else Difference(step, (), silent)
        java[REMARK], ours[REMARK] = remarks
        reason = self.rules.reason_of(step, java, ours)
        return Difference(step, tuple(where_they_differ(java, ours, "answer")), reason)

    def _pushes(self) -> list[Difference]:
        """Compare what the brokers sent by themselves: replies, one by one."""
        pushed: list[list[Any]] = [
            [normalise_push(command, side.memory) for command in side.pushed if command.code in self.rules.pushes]
            for side in self._sides
        ]
        if pushed[0] == pushed[1]:
            return []
        return [
            Difference(
                Step(pushed[0][0]["code"] if pushed[0] else pushed[1][0]["code"]),
                tuple(where_they_differ(pushed[0], pushed[1], "pushed")),
            )
        ]

    def _remember_the_time(self, step: Step) -> None:
        """Remember a moment at which nothing is stored on either side."""
        last = _now_ms()
        while (now := _now_ms()) <= last:
            time.sleep(0.0005)
        for side in self._sides:
            side.memory.times[step.number] = now
        while _now_ms() <= now:
            time.sleep(0.0005)


_NAMES = itertools.count(1)
"""For the names of scenarios: two comparisons may tell theirs to the same brokers."""
_SENDS = {10, 310, 320, 36, 324, 325, 37}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _kind(difference: Difference) -> list[str]:
    """What makes two differences the same: where they are."""
    return [line.split(":")[0].strip() for line in difference.lines]
