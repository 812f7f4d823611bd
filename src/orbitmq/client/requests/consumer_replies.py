"""A consumer's replies: what it takes to send them without a Producer."""

from __future__ import annotations

from os import getpid
from random import Random

from orbitmq.client.requests.replier import Replier
from orbitmq.client.send.queue_selector import QueueSelector
from orbitmq.client.send.request import COMPRESS_OVER, DEFAULT_QUEUE_COUNT, encode_message
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import RETRIES, SEND_TIMEOUT_MS, Sender
from orbitmq.client.session.client_id import unique_key_seed
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message
from orbitmq.wire.messages.message_id import UniqueKeys


class ConsumerReplies:
    """Sends one consumer's replies through its own session.

    Args:
        session: the consumer's.
        group: stands as the producer group in what is sent.
    """

    def __init__(self, session: ClientSession, group: str) -> None:
        self._session = session
        selector = QueueSelector(session.routes, None, random=Random(), queue_count=DEFAULT_QUEUE_COUNT)
        sender = Sender(
            session,
            selector,
            None,
            group=group,
            timeout_ms=SEND_TIMEOUT_MS,
            attempt_timeout_ms=None,
            retries=RETRIES,
            queue_count=DEFAULT_QUEUE_COUNT,
        )
        self._replier = Replier(selector, sender)
        self._message_ids: UniqueKeys | None = None

    async def send(self, reply: Message, timeout_ms: int) -> SendResult:
        """Send a reply; see `Replier.send`."""
        if reply.in_reply_to is None:
            raise InvalidArgument("reply", reply.topic, "a message that StoredMessage.reply returned")
        ids = self._message_ids
        if ids is None:  # the address is known once the session is open
            ids = self._message_ids = UniqueKeys(self._session.ip, getpid(), unique_key_seed())
        encoded = encode_message(reply, ids.next(now_ms()), COMPRESS_OVER)
        return await self._replier.send(encoded, reply.in_reply_to, timeout_ms)
