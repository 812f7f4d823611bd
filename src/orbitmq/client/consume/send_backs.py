"""Messages that a consumer gives back to their broker, which delivers them again later or keeps them as dead letters.

Source: Java DefaultMQPushConsumerImpl.sendMessageBack.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from orbitmq.client.consume.redelivery import RedeliveryPolicy, one_queue_each, plain_send
from orbitmq.client.routing.route_queues import is_logical, writable_queues
from orbitmq.client.send.result import is_stored
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, ConnectionBroken, OrbitError, RequestTimeout
from orbitmq.model.message import StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.net.pool import expect
from orbitmq.wire.headers import ConsumerSendBack
from orbitmq.wire.messages.message_id import offset_message_id

log = logging.getLogger(__name__)

SEND_BACK_TIMEOUT_MS = 5_000
TO_DEAD_LETTERS = -1
"""The delay level that means: never again."""


class SendBacks:
    """Gives messages of one group back to their brokers.

    Args:
        session: carries the requests.
        group: the consumer group.
        policy: says how often a message may be delivered; after that it becomes a dead letter.
        on_retry: is called when a message will come again, from the group's retry topic.
    """

    def __init__(
        self, session: ClientSession, group: str, policy: RedeliveryPolicy, on_retry: Callable[[], None]
    ) -> None:
        self._session = session
        self._group = group
        self._policy = policy
        self._on_retry = on_retry

    async def send(self, message: StoredMessage, queue: MessageQueue, delay_level: int) -> bool:
        """Give a message back; return True when a broker has stored it once more, False (and log why) when not.

        Args:
            queue: where it was read; a message from the retry topic does not say it any more.
            delay_level: one of the broker's; 0 for the broker's choice; TO_DEAD_LETTERS.
        """
        header = ConsumerSendBack(
            physical_offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=offset_message_id(message.store_host, message.physical_offset),
            origin_topic=message.topic,
            unit_mode=False,
            max_reconsume_times=self._policy.max_reconsume_times,
        )
        try:
            if is_logical(queue):  # no broker takes a message of one back, for it may be another's by now
                raise ClientError(f"{queue} is a logical queue")
            if message.decode_error is not None:  # stored once more, a wrong checksum would be a right one
                raise ClientError(f"it cannot be decoded ({message.decode_error})")
            answer = await self._session.call(
                queue.broker_name, header, timeout_ms=SEND_BACK_TIMEOUT_MS, only_this=True
            )
            expect(answer, self._session.routes.address(queue.broker_name))
        except OrbitError as error:
            if not await self._send_plain(message, queue, delay_level, error):
                return False
        if delay_level < 0 or self._policy.is_last(message):
            # A SimpleConsumer finds that the last delivery was the last one when the message comes once more.
            delivered = min(message.attempt, self._policy.max_reconsume_times + 1)
            log.error(
                "group %s: message %s of %s is given up after %d attempts: see `orbitmq dlq show %s`",
                self._group, message.message_id, queue, delivered, self._group,
            )  # fmt: skip
        else:
            self._on_retry()
        return True

    async def _send_plain(self, message: StoredMessage, queue: MessageQueue, delay_level: int, why: OrbitError) -> bool:
        """Send a message to the group's retry topic, on any broker that takes it; False (and log why) when none does.

        Not only where the refusal is for good: a broker that has gone away may have stored it, and then it comes twice.
        """
        topic = RETRY_PREFIX + self._group
        failure = why
        try:
            queues = writable_queues(topic, await self._session.routes.find(topic))
            for target in one_queue_each(queues, message):
                try:
                    await self._send_to(target, message, delay_level)
                except (ConnectionBroken, RequestTimeout) as error:
                    failure = error
                    break  # it may be stored there: with each further broker there could be one more of it
                except OrbitError as error:
                    failure = error
                else:
                    log.log(
                        logging.DEBUG if is_logical(queue) else logging.WARNING,
                        "group %s: message %s of %s is not taken back, it was sent to %s instead: %s",
                        self._group, message.message_id, queue, target, why,
                    )  # fmt: skip
                    return True
        except OrbitError as error:
            failure = error
        log.warning(
            "group %s: message %s of %s is not sent back, it comes again from here: %s%s",
            self._group, message.message_id, queue, why, "" if failure is why else f"; nor sent to {topic}: {failure}",
        )  # fmt: skip
        return False

    async def _send_to(self, target: MessageQueue, message: StoredMessage, delay_level: int) -> None:
        limit = self._policy.max_reconsume_times
        header = plain_send(
            message, self._group, target, delay_level=delay_level, max_reconsume_times=limit, now_ms=now_ms()
        )
        answer = await self._session.call(
            target.broker_name, header, message.body, timeout_ms=SEND_BACK_TIMEOUT_MS, only_this=True
        )
        # Sent to another broker as well, and kept here besides, it would grow in number with every attempt.
        if not is_stored(answer):
            expect(answer, self._session.routes.address(target.broker_name))


class Drops:
    """What broadcasting does with a message that is given up: it is dropped, and logged.

    Args:
        group: the consumer group.
    """

    def __init__(self, group: str) -> None:
        self._group = group

    async def send(self, message: StoredMessage, queue: MessageQueue, _delay_level: int) -> bool:
        """Log the message; return True."""
        log.error(
            "group %s: message %s of %s at offset %d is dropped after %d attempts: broadcasting has no dead letters",
            self._group, message.message_id, queue, message.queue_offset, message.attempt,
        )  # fmt: skip
        return True
