"""Majorities: the outcome of an election, and what most nodes have. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def majority(count: int) -> int:
    """Return how many of `count` voters are more than half."""
    return count // 2 + 1


def reached_by_majority(numbers: Iterable[int]) -> int:
    """Return the largest number that is reached by a majority; `numbers` has one for each voter."""
    ordered = sorted(numbers, reverse=True)
    return ordered[majority(len(ordered)) - 1]


class Votes:
    """The answers of one election; each voter's first one counts."""

    def __init__(self, voters: frozenset[int]) -> None:
        self._voters = voters
        self._answers: dict[int, bool] = {}

    @property
    def answers(self) -> Mapping[int, bool]:
        """Return the votes by node."""
        return self._answers

    def record(self, voter: int, is_granted: bool) -> None:
        """Take one voter's answer; others than voters are ignored."""
        if voter in self._voters:
            self._answers.setdefault(voter, is_granted)

    @property
    def are_won(self) -> bool:
        """Return True if a majority has granted its vote."""
        return sum(self._answers.values()) >= majority(len(self._voters))

    @property
    def are_lost(self) -> bool:
        """Return True if a majority cannot be reached any more."""
        refused = len(self._answers) - sum(self._answers.values())
        return len(self._voters) - refused < majority(len(self._voters))
