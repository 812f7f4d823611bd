"""Requests about logical queues: their leader answers them, with what the queues behind them say.

Queues of this broker are asked directly, those of others over the network. The leader of a logical queue is the only
broker that answers for it; every other one answers NOT_LEADER_FOR_QUEUE, and clients ask for the route again.

Source: Java TopicQueueMappingManager (buildTopicQueueMappingContext, rewriteRequestForStaticTopic).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from orbitmq.broker.topics.logical_offsets import ItemRequest, LogicalQueue, Steps
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.broker.versioned_table import save_or_revert
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, OrbitError, Rejected
from orbitmq.model.static_topic import QueueMapping
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header

FORWARDS_MAX = 10_000
"""Ours: requests that other brokers are being asked about; one more is answered SYSTEM_BUSY."""

Ask = Callable[[str, str, object, int], Awaitable[Command]]
"""Asks another broker about a topic: topic, name of the broker, header, request code."""


async def ask_no_broker(topic: str, broker_name: str, header: object, code: int) -> Command:
    """Refuse to ask another broker: there is no network."""
    raise Rejected(ResponseCode.SYSTEM_ERROR, f"broker {broker_name} of topic {topic} cannot be asked")


class StaticTopics:
    """The static topics of this broker.

    Args:
        save: writes the table's file and syncs it.
        broker_name: this broker's.
        ask: asks another broker.
    """

    def __init__(
        self,
        table: StaticTopicTable | None = None,
        save: Callable[[StaticTopicTable], None] = lambda _: None,
        *,
        broker_name: str = "",
        ask: Ask = ask_no_broker,
    ) -> None:
        self.table = table or StaticTopicTable()
        self.mappings = self.table.all
        """The mappings by topic as they are now: empty at most brokers, whose requests pay for one look at it."""
        self.broker_name = broker_name
        self._save = save
        self._ask = ask
        self._forwards: set[asyncio.Task[None]] = set()

    def update(self, mapping: QueueMapping, now_ms: int, *, is_forced: bool) -> None:
        """Take over a mapping and keep it in its file (see `StaticTopicTable.update`).

        Raises:
            Rejected: 1, the mapping is no good; 14, the disk refused.
        """
        self.table.update(mapping, now_ms, is_forced=is_forced)
        save_or_revert(self.table, self._save, "the mapping of static topics")

    def delete(self, topic: str, now_ms: int) -> None:
        """Forget the mapping of a topic, when it has one."""
        if self.table.delete(topic, now_ms):
            save_or_revert(self.table, self._save, "the mapping of static topics")

    def queue_of(self, call: Call[Any], *, picks_one: bool = False) -> LogicalQueue | None:
        """Return the logical queue that a request is about, None when it is about a queue of this broker itself.

        Args:
            picks_one: below 0, any of the queues that are led here will do.

        Raises:
            Rejected: 501, another broker leads it.
        """
        topic, queue_id = call.header.topic, call.header.queue_id
        mapping = self.mappings.get(topic)
        if mapping is None or call.rewrite is not None or (call.command.ext_fields or {}).get("lo", "true") != "true":
            return None
        if queue_id < 0 and picks_one:
            queue_id = next(iter(mapping.led), queue_id)
        items = mapping.queues.get(queue_id)
        if not items or items[-1].broker_name != self.broker_name:
            raise Rejected(
                ResponseCode.NOT_LEADER_FOR_QUEUE,
                f"{topic}-{queue_id} does not exit in request process of current broker {self.broker_name}",
            )
        return LogicalQueue(topic, queue_id, items)

    def serve(self, call: Call[Any], steps: Steps, local: Callable[[Any], Reply]) -> Reply | Later:
        """Answer a request, now where only queues of this broker are asked.

        Args:
            local: answers a question about a queue of this broker.
        """
        outcome = self._advance(steps, None, local)
        if isinstance(outcome, Reply):
            return outcome
        if len(self._forwards) >= FORWARDS_MAX:
            raise Rejected(ResponseCode.SYSTEM_BUSY, f"{FORWARDS_MAX} requests wait for other brokers")
        task = asyncio.get_running_loop().create_task(self._finish(call, steps, outcome, local))
        self._forwards.add(task)
        task.add_done_callback(self._forwards.discard)
        return LATER

    async def close(self) -> None:
        """Stop asking other brokers."""
        tasks = tuple(self._forwards)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _advance(self, steps: Steps, reply: Reply | None, local: Callable[[Any], Reply]) -> Reply | ItemRequest:
        """Answer the questions about queues of this broker; return the end, or the first question for another one."""
        try:
            step = next(steps) if reply is None else steps.send(reply)
            while step.item.broker_name == self.broker_name:
                step = steps.send(_answered(local, step.header))
        except StopIteration as end:
            found: Reply = end.value
            return found
        return step

    async def _finish(self, call: Call[Any], steps: Steps, step: ItemRequest, local: Callable[[Any], Reply]) -> None:
        outcome: Reply | ItemRequest = step
        try:
            while isinstance(outcome, ItemRequest):
                outcome = self._advance(steps, await self._forward(call.header.topic, outcome), local)
        except Rejected as refusal:
            outcome = Reply(refusal.code, refusal.remark)
        except OrbitError as error:  # the other broker cannot be reached, or does not know the topic
            outcome = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        call.answer(outcome)

    async def _forward(self, topic: str, step: ItemRequest) -> Reply:
        command = await self._ask(topic, step.item.broker_name, step.header, step.code)
        try:
            header = None if step.answer_type is None else decode_header(step.answer_type, command.ext_fields)
        except HeaderError:
            if command.code == ResponseCode.SUCCESS:
                raise
            header = None
        return Reply(command.code, command.remark, header, command.body)


def _answered(local: Callable[[Any], Reply], header: Any) -> Reply:
    try:
        return local(header)
    except Rejected as refusal:
        return Reply(refusal.code, refusal.remark)
