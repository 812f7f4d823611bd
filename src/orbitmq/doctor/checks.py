"""All checks, by name, and what they find in a snapshot. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from orbitmq.doctor import group_checks, server_checks, topic_checks
from orbitmq.doctor.issues import Issue, worst_first
from orbitmq.doctor.snapshot import Snapshot

Check = Callable[[Snapshot], Iterator[Issue]]

CHECKS: Mapping[str, Check] = {
    check.__name__.replace("_", "-"): check
    for module in (server_checks, topic_checks, group_checks)
    for check in module.CHECKS
}
"""Each check by the name that its issues carry."""


def examine(snapshot: Snapshot) -> list[Issue]:
    """Return all issues of a snapshot, worst first."""
    return worst_first(issue for check in CHECKS.values() for issue in check(snapshot))
