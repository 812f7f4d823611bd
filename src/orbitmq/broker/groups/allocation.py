"""Allocation of a topic's queues to the consumers that pull or pop them. Pure.

Source: Java QueryAssignmentProcessor, AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.client.consume.allocation import Strategy, allocate_average
from orbitmq.model.route import MessageQueue

ANY_QUEUE = -1


def allocate_by_circle(queues: Sequence[MessageQueue], members: Sequence[str], member: str) -> list[MessageQueue]:
    """Return `member`'s queues: every so-manieth of them."""
    return list(queues[members.index(member) :: len(members)])


STRATEGIES: Mapping[str, Strategy] = {"AVG": allocate_average, "AVG_BY_CIRCLE": allocate_by_circle}
"""By the names that consumers give them."""


def allocate_to_pop(
    queues: Sequence[MessageQueue], members: Sequence[str], member: str, share_queue_count: int, strategy: Strategy
) -> list[MessageQueue]:
    """Return what a member pops from: any queue of every broker, or its own share and those of some that follow.

    Args:
        queues: sorted, as `members`.
        share_queue_count: how many others' shares; 0 or less, or all others: any queue.
    """
    if share_queue_count <= 0 or share_queue_count >= len(members) - 1:
        return list(dict.fromkeys(queue._replace(queue_id=ANY_QUEUE) for queue in queues))
    if member not in members:
        return []
    index = members.index(member)
    if len(members) > len(queues):
        return [queues[index % len(queues)]]
    shares = [members[(index + number) % len(members)] for number in range(share_queue_count + 1)]
    return list(dict.fromkeys(queue for one in shares for queue in strategy(queues, members, one)))
