"""The LMQs of a store that is written to: they number what is appended, and get an entry when it may be read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from orbitmq.errors import InvalidArgument, StoreError
from orbitmq.model.message import PROPERTIES_SIZE_MAX
from orbitmq.store.lmq import (
    LMQ_QUEUE_ID,
    allows_lmq,
    is_lmq,
    lmq_forms,
    named_queues,
    with_numbers,
)
from orbitmq.store.queues.consume_queue import ConsumeQueue
from orbitmq.store.queues.consume_queues import ConsumeQueues
from orbitmq.store.queues.deletions import Deletions
from orbitmq.store.values import Dispatched, Draft

log = logging.getLogger(__name__)

_LONGEST_NUMBER = 10**18
_ROOM_FOR_CRC = 32


class LmqQueues:
    """The numbering of messages, and their entries in LMQs.

    Args:
        tell: told topic, queue id, queue offset and tag code of what can now be read.
        count_max: LMQs that there may be (maxLmqConsumeQueueNum).
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        deletions: Deletions,
        tell: Callable[[str, int, int, int], None],
        count_max: int,
    ) -> None:
        self._queues = queues
        self._deletions = deletions
        self._tell = tell
        self._count_max = count_max

    def check(self, properties: bytes) -> None:
        """Refuse a message whose LMQs cannot be created; called before it waits anywhere.

        Raises:
            InvalidArgument: names that are none of LMQs, or too long together with their numbers.
            StoreError: more LMQs than there may be.
        """
        names = named_queues(properties)
        if not all(map(is_lmq, names)) or len(set(names)) < len(names):
            allowed = "different names of light message queues, %LMQ% before each and commas between them"
            raise InvalidArgument("INNER_MULTI_DISPATCH", ",".join(names), allowed)
        size = len(with_numbers(properties, [_LONGEST_NUMBER] * len(names))) + _ROOM_FOR_CRC
        if size > PROPERTIES_SIZE_MAX:
            allowed = f"properties of at most {PROPERTIES_SIZE_MAX} bytes with a number for each queue"
            raise InvalidArgument("INNER_MULTI_DISPATCH", f"{len(names)} queues", allowed)
        new = sum((name, LMQ_QUEUE_ID) not in self._queues.table for name in names)
        if new and self._queues.lmq_count + new > self._count_max:
            # Java's words, but for the number.
            raise StoreError(
                "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, lmq consumeQueue num "
                f"exceed maxLmqConsumeQueueNum config num, limit {self._count_max}."
            )

    def number(self, draft: Draft) -> tuple[Draft, Sequence[ConsumeQueue]]:
        """Return a message with its numbers, and the queues that count one more as soon as it is appended.

        It refuses nothing: what is appended now may have waited for its time or its transaction since it was checked.
        """
        if not allows_lmq(draft.topic):
            return draft, ()
        numbers: list[int | None] = []
        queues: dict[str, ConsumeQueue] = {}
        for name in named_queues(draft.properties):
            if not is_lmq(name):
                numbers.append(None)
                continue
            # A message that names a queue twice has one offset there.
            queue = queues.get(name)
            if queue is None:
                queue = queues[name] = self._queues.make(name, LMQ_QUEUE_ID)
            # The offset is counted when the message is appended: it may still be refused.
            numbers.append(queue.next_offset)
        properties = with_numbers(draft.properties, numbers)
        if len(properties) + _ROOM_FOR_CRC > PROPERTIES_SIZE_MAX:
            log.warning("a message of %s goes to no LMQ: its properties have no room for numbers", draft.topic)
            return draft, ()
        return draft._replace(properties=properties), list(queues.values())

    def deliver(self, message: Dispatched) -> None:
        """Put a readable message into its LMQs."""
        for form in lmq_forms(message):
            queue = self._queues.get(form.topic, form.queue_id)
            # The queue may have been deleted since, and made again.
            if queue is None or queue.max_offset != form.queue_offset or self._covers(form):
                continue
            queue.put(form.queue_offset, form.physical_offset, form.size, form.tag_code)
            self._tell(form.topic, form.queue_id, form.queue_offset, form.tag_code)

    def without_own(self, message: Dispatched) -> list[Dispatched]:
        """Return what is left to deliver of a message when its own topic is deleted before it may be read."""
        return [
            form._replace(properties=b"")
            for form in lmq_forms(message)
            if self._queues.get(form.topic, form.queue_id) is not None and not self._covers(form)
        ]

    def _covers(self, form: Dispatched) -> bool:
        return self._deletions.covers(form.topic, form.physical_offset)
