"""Replies, sent to the cluster's reply topic through the broker that the requesting client is connected to.

Source: Java DefaultMQProducerImpl.sendKernelImpl, MessageUtil; Java leaves the choice of the broker to chance.
"""

from __future__ import annotations

from random import Random

from orbitmq.client.send.encoder import MessageEncoder
from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import EncodedMessage
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import RETRIES, SEND_TIMEOUT_MS, Sender
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, ReplyTo
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT


class Replier:
    """Sends replies, each to the broker of its request first.

    Args:
        selector: knows the reply topics' queues.
        sender: sends them, and tries the cluster's other brokers.
    """

    def __init__(self, selector: QueueSelector, sender: Sender) -> None:
        self._selector = selector
        self._sender = sender

    async def send(self, encoded: EncodedMessage, in_reply_to: ReplyTo, timeout_ms: int | None = None) -> SendResult:
        """Send a reply and return when the client that asked has confirmed it.

        Raises:
            SendFailed: no broker could hand it over; the requester may have timed out.
            RemoteRefused, RouteNotFound, NoNameServer: as for any message.
        """
        queues = await self._selector.queues(encoded.topic)
        nearest = next((queue for queue in queues if queue.broker_name == in_reply_to.broker_name), None)
        return (await self._sender.send((encoded,), Target(encoded.topic), timeout_ms, first=nearest))[0]


class ConsumerReplies:
    """Sends one consumer's replies through its own session.

    Args:
        session: the consumer's.
        group: stands as the producer group in what is sent.
    """

    def __init__(self, session: ClientSession, group: str) -> None:
        selector = QueueSelector(session.routes, None, random=Random(), queue_count=DEFAULT_QUEUE_COUNT)
        sender = Sender(
            session,
            selector,
            group=group,
            timeout_ms=SEND_TIMEOUT_MS,
            attempt_timeout_ms=None,
            retries=RETRIES,
        )
        self._replier = Replier(selector, sender)
        self._encoder = MessageEncoder(session)

    async def send(self, reply: Message, timeout_ms: int) -> SendResult:
        """Send a reply; see `Replier.send`."""
        if reply.in_reply_to is None:
            raise InvalidArgument("reply", reply.topic, "a message that StoredMessage.reply returned")
        return await self._replier.send(self._encoder.encode(reply), reply.in_reply_to, timeout_ms)
