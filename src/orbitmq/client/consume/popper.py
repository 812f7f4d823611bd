"""The pops of a SimpleConsumer: one broker after the other is asked, and then all of them are waited for.

Source: Java MQClientAPIImpl.popMessageAsync.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

from orbitmq.client.consume.absent_brokers import AbsentBrokers
from orbitmq.client.consume.pop_targets import PopTarget
from orbitmq.client.consume.popped_messages import NOTHING, decode_popped
from orbitmq.client.session.session import REQUEST_TIMEOUT_MS, ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, ConnectionFailed, RemoteRefused, RequestTimeout
from orbitmq.model.group import ConsumeFrom, Subscription
from orbitmq.model.message import StoredMessage
from orbitmq.wire.command import Command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import PopMessage, PopNotification, PopNotificationResponse

_POLL_MS_MAX = 10_000
"""A broker holds one request no longer: a Java broker does not wake waiting requests for messages that come again."""
_INIT_MIN, _INIT_MAX = 0, 1

log = logging.getLogger(__name__)

Keep = Callable[[Subscription, list[StoredMessage]], Awaitable[list[StoredMessage]]]
"""Returns those of a pop's messages that the caller gets; it has settled the others."""


class Popper:
    """Pops messages for one group.

    Args:
        session: carries the requests.
        group: the consumer group.
        consume_from: where a new group begins: FIRST or LAST.
        is_ordered: each queue's messages come in order.
        keep: is given what was popped.
        check_open: raises when the consumer is closed.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        *,
        consume_from: ConsumeFrom,
        is_ordered: bool,
        keep: Keep,
        check_open: Callable[[], None],
    ) -> None:
        self._session = session
        self._group = group
        self._init_mode = _INIT_MIN if consume_from == ConsumeFrom.FIRST else _INIT_MAX
        self._is_ordered = is_ordered
        self._keep = keep
        self._check_open = check_open
        self._absent = AbsentBrokers(session)
        self._attempts: dict[PopTarget, str] = {}
        """In order: attempts whose answers never came. The same attempt gets the same messages from its broker."""

    async def pop(
        self, targets: Sequence[PopTarget], count_max: int, invisible_ms: int, deadline_s: float
    ) -> list[StoredMessage]:
        """Return messages of the first of these brokers that has any; none when a request to wait has found none.

        Args:
            targets: one at least, in the order in which they are asked.
            count_max: messages at most.
            invisible_ms: how long they are the caller's.
            deadline_s: a time of the running loop; nothing is waited for after it.

        Raises:
            ClientError: all of them refuse, or the consumer was closed.
        """
        if len(targets) == 1 and not self._absent.returns([targets[0].broker_name]):
            poll_ms = min(_left_ms(deadline_s), _POLL_MS_MAX)
            return await self._pop_if_there(targets[0], count_max, invisible_ms, poll_ms)
        asked = [target for target in targets if target.broker_name not in self._absent]
        errors: list[ClientError] = []
        for target in asked:
            try:
                found = await self._pop_if_there(target, count_max, invisible_ms, 0)
            except ClientError as error:
                errors.append(error)
                continue
            if found:
                return found
        if errors and len(errors) == len(asked):
            raise errors[0]
        left_ms = _left_ms(deadline_s)
        if left_ms > 0 and (ready := await self._first_with_messages(targets, min(left_ms, _POLL_MS_MAX))) is not None:
            return await self._pop_if_there(ready, count_max, invisible_ms, 0)
        return []

    def absence(self, targets: Sequence[PopTarget]) -> ClientError | None:
        """Return why there is no answer when none of these brokers answers, else None."""
        return self._absent.error(target.broker_name for target in targets)

    async def _first_with_messages(self, targets: Sequence[PopTarget], poll_ms: int) -> PopTarget | None:
        """Wait for the first broker that gets messages; None when there is none, or one comes back that was away."""
        back = self._absent.returns(target.broker_name for target in targets)
        asked = [target for target in targets if target.broker_name not in self._absent]
        waiting = {asyncio.ensure_future(self._has_messages(target, poll_ms)): target for target in asked}
        pending: set[asyncio.Task[Any]] = {*waiting, *back}
        end = asyncio.get_running_loop().time() + poll_ms / 1000
        try:
            while waiting.keys() & pending or (pending and _left_ms(end)):
                timeout_s = None if waiting.keys() & pending else _left_ms(end) / 1000
                done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if done & back:
                    return None
                for task in done:
                    if task.result():
                        return waiting[task]
            return None
        finally:
            for task in pending - back:
                task.cancel()

    async def _pop_if_there(
        self, target: PopTarget, count_max: int, invisible_ms: int, poll_ms: int
    ) -> list[StoredMessage]:
        """Pop of a broker; nothing when it does not answer, which is noted."""
        try:
            return await self._pop(target, count_max, invisible_ms, poll_ms)
        except (ConnectionFailed, RequestTimeout) as error:
            self._note_absence(target, error)
            return []

    def _note_absence(self, target: PopTarget, error: ClientError) -> None:
        self._check_open()  # its connections break where the consumer is closed meanwhile
        self._absent.note(target.broker_name, error, self._notification(target, 0))

    def _notification(self, target: PopTarget, poll_ms: int) -> PopNotification:
        return PopNotification(
            consumer_group=self._group, topic=target.subscription.topic, queue_id=-1, poll_ms=poll_ms,
            order=self._is_ordered, attempt_id=self._attempts.get(target), broker_name=target.broker_name,
        )  # fmt: skip

    async def _has_messages(self, target: PopTarget, poll_ms: int) -> bool:
        header = self._notification(target, poll_ms)
        try:
            answer = await self._session.call(target.broker_name, header, timeout_ms=poll_ms + REQUEST_TIMEOUT_MS)
        except (ConnectionFailed, RequestTimeout) as error:
            self._note_absence(target, error)
            return False
        except ClientError as error:
            self._session.note_failure(target.broker_name, error)
            return False
        if answer.code != ResponseCode.SUCCESS:
            return False
        return decode_header(PopNotificationResponse, answer.ext_fields).has_message

    async def _pop(self, target: PopTarget, count_max: int, invisible_ms: int, poll_ms: int) -> list[StoredMessage]:
        subscription, broker_name = target
        # Two receives at a time are two attempts: of the same name, the second would get the first one's messages.
        attempt_id = (self._attempts.pop(target, None) or uuid4().hex) if self._is_ordered else None
        header = PopMessage(
            consumer_group=self._group,
            topic=subscription.topic,
            queue_id=-1,
            count_max=count_max,
            invisible_ms=invisible_ms,
            poll_ms=poll_ms,
            init_mode=self._init_mode,
            expression_type=subscription.expression_type,
            expression=subscription.expression,
            order=self._is_ordered,
            attempt_id=attempt_id,
            broker_name=broker_name,
        )
        timeout_ms = poll_ms + REQUEST_TIMEOUT_MS
        try:
            answer = await self._session.call(broker_name, header, timeout_ms=timeout_ms, only_this=True)
        except BaseException:
            if attempt_id is not None:
                self._attempts[target] = attempt_id
            raise
        return await self._keep(subscription, self._messages(answer, target))

    def _messages(self, answer: Command, target: PopTarget) -> list[StoredMessage]:
        subscription, broker_name = target
        self._session.note_answer(broker_name)
        if answer.code in NOTHING:
            return []
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteRefused(answer.code, answer.remark, self._session.routes.address(broker_name))
        messages, errors = decode_popped(answer, subscription.topic, broker_name)
        for error in errors:
            log.error("group %s: a message from %s cannot be read: %s", self._group, broker_name, error)
        return messages


def _left_ms(deadline_s: float) -> int:
    """Return how many ms are left until a time of the running loop, 0 when it is over."""
    return max(0, int((deadline_s - asyncio.get_running_loop().time()) * 1000))
