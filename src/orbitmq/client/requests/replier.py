"""Replies: sent to the cluster's reply topic, through the broker that the client which asked is connected to.

Source: Java DefaultMQProducerImpl.sendKernelImpl, MessageUtil; Java leaves the choice of the broker to chance.
"""

from __future__ import annotations

from orbitmq.client.send.queue_selector import QueueSelector, Target
from orbitmq.client.send.request import EncodedMessage
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import Sender
from orbitmq.model.message import ReplyTo


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
            SendFailed: no broker could hand it over; the client may have given up.
            RemoteRefused, RouteNotFound, NoNameServer: as for any message.
        """
        queues = await self._selector.queues(encoded.topic)
        nearest = next((queue for queue in queues if queue.broker_name == in_reply_to.broker_name), None)
        return (await self._sender.send((encoded,), Target(encoded.topic), timeout_ms, first=nearest))[0]
