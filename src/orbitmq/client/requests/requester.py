"""Requests: messages whose senders wait for a reply.

Source: Java DefaultMQProducerImpl.request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from orbitmq.client.requests.pending import PendingRequest, PendingRequests
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.request import EncodedMessage, request_properties
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.session import ClientSession
from orbitmq.errors import OrbitError, RequestTimeout, SendFailed
from orbitmq.model.message import StoredMessage
from orbitmq.model.topic import reply_topic
from orbitmq.net.dispatch.peer import Peer

RETURN_PAUSE_MS = 200
"""Between two attempts to be known again to brokers that replies may come through."""


class Requester:
    """Sends requests and waits for their replies, many at a time.

    Args:
        session: its brokers push the replies.
        sender: sends the requests.
        pending: those that wait.
    """

    def __init__(self, session: ClientSession, sender: Sender, pending: PendingRequests) -> None:
        self._session = session
        self._sender = sender
        self._pending = pending
        self._returning: asyncio.Task[None] | None = None
        session.pool.on_connection_lost(self._connection_lost)

    async def request(
        self, encode: Callable[[Mapping[str, str]], EncodedMessage], target: Target, timeout_ms: int
    ) -> StoredMessage:
        """Send a request and return its reply.

        Args:
            encode: returns the message with the properties of a request.
            target: where it goes.
            timeout_ms: until the reply is here.

        Raises:
            RequestTimeout: no reply came in time.
            SendFailed, RemoteRefused, RouteNotFound, NoNameServer: the request was not sent.
        """
        async with self._pending.open(timeout_ms) as request:
            encoded = encode(request_properties(request.correlation_id, self._session.id, timeout_ms))
            try:
                sent = (await self._sender.send((encoded,), target, request.left_ms))[0]
            except SendFailed:
                if not request.reply.done():
                    raise
                return request.reply.result()  # the broker's answer was lost, and the reply was not
            self._meet_cluster(target.topic)
            return await _wait(request, sent, timeout_ms)

    def close(self) -> None:
        """End all waiting."""
        self._pending.close()

    def _meet_cluster(self, topic: str) -> None:
        """Let every broker of the topic's clusters know this client: a reply may come through any of them."""
        routes = self._session.routes
        route = routes.known.routes.get(topic)
        for cluster in {broker.cluster for broker in route.brokers} if route is not None else ():
            replies = reply_topic(cluster)
            if not routes.is_watched(replies):
                routes.watch(replies)
                self._session.tasks.spawn(self._learn(replies), f"route of {replies}")

    async def _learn(self, topic: str) -> None:
        try:
            await self._session.routes.refresh(topic)
        except OrbitError:
            return  # the next poll asks again; replies come through the requests' own brokers meanwhile

    def _connection_lost(self, _peer: Peer) -> None:
        """Be known again soon: the broker that comes back, or a new connection, knows nothing of this client."""
        is_returning = self._returning is not None and not self._returning.done()
        if self._pending.count and self._session.is_open and not is_returning:
            self._returning = self._session.tasks.spawn(self._return(), "heartbeats")

    async def _return(self) -> None:
        while self._pending.count and not await self._session.announce_again():
            await asyncio.sleep(RETURN_PAUSE_MS / 1000)


async def _wait(request: PendingRequest, sent: SendResult, timeout_ms: int) -> StoredMessage:
    try:
        async with asyncio.timeout_at(request.deadline):
            return await request.reply
    except TimeoutError:
        topic, broker_name, queue_id = sent.queue
        raise RequestTimeout(
            f"no reply to the request to topic {topic} within {timeout_ms} ms. It is stored (broker {broker_name}, queue "
            f"{queue_id}, offset {sent.queue_offset}): is there a consumer of the topic that replies?"
        ) from None
