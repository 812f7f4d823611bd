"""The allocation of a topic's queues to the members of a group.

Pure: sorted queues and members in, one member's queues out. Every member computes the same answer from the same lists.

Source: Java AllocateMessageQueueAveragely.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from orbitmq.model.route import MessageQueue

Strategy = Callable[[Sequence[MessageQueue], Sequence[str], str], list[MessageQueue]]
"""(queues, member ids, own id) -> own queues; both lists come sorted."""


class AssignmentChange(NamedTuple):
    """The queues that a new assignment takes away, and those that it brings."""

    removed: list[MessageQueue]
    added: list[MessageQueue]


def allocate_average(queues: Sequence[MessageQueue], members: Sequence[str], member: str) -> list[MessageQueue]:
    """Return `member`'s queues: a run of neighbours. Members differ by one queue at most, the first ones get more.

    Args:
        queues: all queues of a topic, sorted.
        members: all client ids of the group, sorted; `member` is among them.
    """
    index = members.index(member)
    count, remainder = divmod(len(queues), len(members))
    start = index * count + min(index, remainder)
    return list(queues[start : start + count + (index < remainder)])


def allocate(
    queues: Collection[MessageQueue], members: Collection[str], member: str, strategy: Strategy = allocate_average
) -> list[MessageQueue] | None:
    """Return `member`'s queues, or None when the group does not know it yet (its heartbeat is still on the way)."""
    if member not in members:
        return None
    return strategy(sorted(queues), sorted(set(members)), member)


def assignment_change(current: Collection[MessageQueue], wanted: Collection[MessageQueue]) -> AssignmentChange:
    """Return the way from the current assignment to the wanted one, in the queues' order."""
    return AssignmentChange(sorted(set(current) - set(wanted)), sorted(set(wanted) - set(current)))
