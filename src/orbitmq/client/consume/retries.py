"""The messages of one queue that failed: on their way back to the broker, or waiting to come again in place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.send_backs import TO_DEAD_LETTERS
from orbitmq.client.consume.window import ProcessQueue
from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue


class TakesBack(Protocol):
    """Takes messages that this consumer has failed to process."""

    async def send(self, message: StoredMessage, queue: MessageQueue, delay_level: int) -> bool:
        """Take a message; False when that did not succeed and it is still the consumer's."""
        ...


class Retries:
    """What becomes of one queue's failed messages.

    A message stays open in the window, so that the group's offset does not pass it, until it is stored elsewhere.

    Args:
        queue: where the messages come from.
        window: has handed them out.
        policy: the consumer's.
        send_backs: takes messages that are not to come again from here.
        tasks: where background requests run.
        on_change: is called when the queue may go on: messages have come back, or have left the window.
    """

    def __init__(
        self,
        queue: MessageQueue,
        window: ProcessQueue,
        policy: RedeliveryPolicy,
        send_backs: TakesBack,
        tasks: BackgroundTasks,
        on_change: Callable[[], None],
    ) -> None:
        self._queue = queue
        self._window = window
        self._policy = policy
        self._send_backs = send_backs
        self._tasks = tasks
        self._on_change = on_change
        self._suspensions = 0
        self._is_closed = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._sending: set[asyncio.Task[None]] = set()

    @property
    def is_suspended(self) -> bool:
        """True while nothing of the queue may be handed out: what failed comes first."""
        return self._suspensions > 0

    def retry(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        """Deliver messages again by the consumer's policy; False when some are not this consumer's any more."""
        if self._policy.is_in_place:
            return self.suspend(messages, None)
        return self._send_back(messages, delay_level)

    def reject(self, messages: Sequence[StoredMessage]) -> bool:
        """Give messages up."""
        if not self._policy.is_in_place:
            return self._send_back(messages, TO_DEAD_LETTERS)
        self._suspensions += 1
        self._spawn(self._give_up(messages, (), None))
        return all(map(self._window.is_open, messages))

    def suspend(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> bool:
        """Deliver messages again in place after a pause, and nothing else of the queue before.

        Those whose last attempt this was are given up.
        """
        is_ours = all(map(self._window.is_open, messages))
        self._suspensions += 1
        last = [message for message in messages if self._policy.is_last(message)]
        if last:
            others = [message for message in messages if not self._policy.is_last(message)]
            self._spawn(self._give_up(last, others, delay_ms))
        else:
            self._come_again(messages, delay_ms)
        return is_ours

    async def sent(self, timeout_ms: int) -> None:
        """Wait until no message is on its way to the broker, `timeout_ms` at most."""
        if self._sending:
            await asyncio.wait(self._sending, timeout=timeout_ms / 1000)

    def close(self) -> None:
        """Deliver nothing again."""
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _send_back(self, messages: Sequence[StoredMessage], delay_level: int) -> bool:
        ours = [message for message in messages if self._window.is_open(message)]
        for message in ours:
            self._spawn(self._send_one(message, delay_level))
        return len(ours) == len(messages)

    async def _send_one(self, message: StoredMessage, delay_level: int) -> None:
        if await self._send_backs.send(message, self._queue, delay_level):
            self._window.settle((message,))
            self._on_change()
        else:
            self._after(self._policy.delay_ms(message), lambda: self._window.give_back((message,)))

    async def _give_up(
        self, last: Sequence[StoredMessage], others: Sequence[StoredMessage], delay_ms: int | None
    ) -> None:
        """Put `last` with the dead letters; what cannot be put there comes again with the others."""
        sends = [self._send_backs.send(message, self._queue, TO_DEAD_LETTERS) for message in last]
        stored = await asyncio.gather(*sends)
        self._window.settle([message for message, is_stored in zip(last, stored, strict=True) if is_stored])
        failed = [message for message, is_stored in zip(last, stored, strict=True) if not is_stored]
        self._come_again((*failed, *others), delay_ms)

    def _come_again(self, messages: Sequence[StoredMessage], delay_ms: int | None) -> None:
        if not messages:
            self._end_suspension()
            return
        self._window.give_back(messages)
        self._after(max(map(self._policy.delay_ms, messages)) if delay_ms is None else delay_ms, self._end_suspension)

    def _end_suspension(self) -> None:
        self._suspensions -= 1
        self._on_change()

    def _after(self, delay_ms: int, act: Callable[[], object]) -> None:
        if self._is_closed:
            return

        def run() -> None:
            self._timers.discard(timer)
            act()
            self._on_change()

        timer = asyncio.get_running_loop().call_later(delay_ms / 1000, run)
        self._timers.add(timer)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.spawn(work, f"messages back to {self._queue}")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
