"""Turns over the queues of a topic, past brokers that are to be avoided. Pure.

Source: Java TopicPublishInfo.selectOneMessageQueue.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from orbitmq.model.route import MessageQueue


class RoundRobin:
    """Chooses queues in turn.

    Args:
        start: where to begin; chosen at random, so that many producers do not all begin at the same queue.
    """

    def __init__(self, start: int) -> None:
        self._next = start

    def choose(self, queues: Sequence[MessageQueue], avoided: Collection[str] = ()) -> MessageQueue:
        """Return the next queue that is not on an avoided broker; the next one at all when every broker is."""
        count = len(queues)
        start = self._next
        self._next = start + 1
        if avoided:
            for step in range(count):
                queue = queues[(start + step) % count]
                if queue.broker_name not in avoided:
                    # On behind the queue that was found: else the first queue behind an avoided broker gets its turns.
                    self._next = start + step + 1
                    return queue
        return queues[start % count]
