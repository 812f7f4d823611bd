"""The facts about the controllers of a cluster, as each has told them, and the issues that follow. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerFacts:
    """One controller.

    Args:
        problem: why it could not be asked; None: it was.
        leader: where the one is that leads, as this one knows; empty for none.
        health: its health document; Java's gives none.
    """

    address: str
    problem: str | None = None
    leader: str = ""
    health: Mapping[str, Any] = field(default_factory=dict)


class ControllerIssue(NamedTuple):
    """Something that is wrong with controllers: an error means that no master can be elected, or that there is none."""

    is_error: bool
    address: str
    text: str


def is_warning(alert: Mapping[str, Any]) -> bool:
    """Return True for the alert of a health document with which its server, ours, is healthy all the same."""
    return alert.get("severity") == "warning"


def danger_of(there: int, count: int, needed: int) -> str:
    """Return what it means that so many of `count` controllers are there, where `needed` must agree."""
    spare = there - needed
    follows = f"{spare} more may be lost" if spare > 0 else "one more and no master can be elected"
    if spare < 0:
        follows = "no master can be elected before more are there"
    return f"{there} of {count} are there, {follows}"


def controller_issues(controllers: Sequence[ControllerFacts]) -> list[ControllerIssue]:
    """Return what is wrong with the controllers of a cluster."""
    there = [facts for facts in controllers if facts.problem is None]
    count = len(controllers)
    told = [needed for facts in there if isinstance(needed := facts.health.get("needed"), int)]
    needed = told[0] if told else count // 2 + 1
    found = [
        ControllerIssue(
            len(there) < needed,
            facts.address,
            f"does not answer ({facts.problem}): {danger_of(len(there), count, needed)}; start it again",
        )
        for facts in controllers
        if facts.problem is not None
    ]
    said = set()
    for facts in there:
        for alert in facts.health.get("alerts", ()):
            # Several say the same, such as that none leads.
            if (alert["rule"], alert["reason"]) not in said:
                said.add((alert["rule"], alert["reason"]))
                text = f"{alert['rule']}: {alert['reason']}"
                found.append(ControllerIssue(not is_warning(alert), facts.address, text))
    return found
