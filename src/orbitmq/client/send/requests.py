"""Request-reply: requests whose senders wait, by correlation id, and replies as brokers push them (326).

Source: Java DefaultMQProducerImpl.request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from uuid import uuid4

from orbitmq.address import parse_address
from orbitmq.client.send.queue_selector import Target
from orbitmq.client.send.request import EncodedMessage, request_properties
from orbitmq.client.send.result import SendResult
from orbitmq.client.send.sender import Sender
from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, InvalidArgument, OrbitError, Rejected, RequestTimeout, SendFailed
from orbitmq.model.message import Host, PropertyName, StoredMessage
from orbitmq.model.topic import reply_topic
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.headers.send import PushReply
from orbitmq.wire.messages.compression import decompress
from orbitmq.wire.messages.properties import parse_properties

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


class PendingRequest:
    """One request that waits.

    Args:
        deadline: when its time is over, by the loop's clock.
    """

    def __init__(self, deadline: float) -> None:
        self.correlation_id = str(uuid4())
        self.deadline = deadline
        self.reply: asyncio.Future[StoredMessage] = asyncio.get_running_loop().create_future()

    @property
    def left_ms(self) -> int:
        """What is left of its time."""
        return max(0, int((self.deadline - asyncio.get_running_loop().time()) * 1000))


class PendingRequests:
    """A table of requests that wait, with room for so many.

    Args:
        count_max: requests that wait at the same time; further callers wait for a permit.
    """

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._requests: dict[str, PendingRequest] = {}
        self._places = asyncio.Semaphore(count_max)
        self._is_closed = False

    @property
    def count(self) -> int:
        """Requests that wait."""
        return len(self._requests)

    @asynccontextmanager
    async def open(self, timeout_ms: int) -> AsyncIterator[PendingRequest]:
        """Take a place for a request. It is free again when the block ends, however it ends.

        Raises:
            RequestTimeout: there was no place in time.
            ClientError: closed meanwhile.
        """
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline):
                await self._places.acquire()
        except TimeoutError:
            raise RequestTimeout(
                f"a request was not sent within {timeout_ms} ms: {self.count_max} others (requests_max) wait for replies"
            ) from None
        try:
            if self._is_closed:
                raise _closed()
            request = PendingRequest(deadline)
            self._requests[request.correlation_id] = request
            try:
                yield request
            finally:
                self._requests.pop(request.correlation_id, None)
                if not request.reply.cancel() and not request.reply.cancelled():
                    request.reply.exception()  # seen, although it may have no waiter any more
        finally:
            self._places.release()

    def resolve(self, correlation_id: str, reply: StoredMessage | OrbitError) -> bool:
        """Complete a waiting request with its reply, or with what is wrong with it; False when there is none (any more)."""
        request = self._requests.pop(correlation_id, None)
        if request is None or request.reply.done():
            return False
        if isinstance(reply, OrbitError):
            request.reply.set_exception(reply)
        else:
            request.reply.set_result(reply)
        return True

    def close(self) -> None:
        """End all waiting."""
        self._is_closed = True
        for correlation_id in tuple(self._requests):
            self.resolve(correlation_id, _closed())


def _closed() -> ClientError:
    return ClientError("the producer was closed before the reply came")


log = logging.getLogger(__name__)

handlers: Handlers[PendingRequests] = Handlers()

FAIL_REMARK = "process reply message fail"


@handlers.on(PushReply)
def take_reply(pending: PendingRequests, call: Call[PushReply]) -> Reply:
    """Hand a reply to the request that it names. One that comes too late is confirmed, too, as by Java's client."""
    properties = parse_properties(call.header.properties or "")
    correlation_id = properties.get(PropertyName.CORRELATION_ID)
    if correlation_id is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{FAIL_REMARK}: it names no request")
    properties[PropertyName.ARRIVE_TIME] = str(call.now_ms)
    try:
        reply = _message(call, properties)
    except InvalidArgument as error:
        pending.resolve(correlation_id, ClientError(f"the reply to the request cannot be read: {error}"))
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{FAIL_REMARK}: {error}") from None
    if not pending.resolve(correlation_id, reply):
        log.debug("a reply from %s came to no request that waits, %s", call.header.born_host, correlation_id)
    return Reply()


def _message(call: Call[PushReply], properties: dict[str, str]) -> StoredMessage:
    """Return the reply as a consumer would get it; it has no place in a log."""
    header = call.header
    return StoredMessage(
        topic=header.topic,
        body=decompress(call.command.body, header.sys_flag),
        properties=properties,
        queue_id=header.queue_id,
        queue_offset=0,
        physical_offset=0,
        store_size=0,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_at_ms=header.born_at_ms,
        born_host=_host(header.born_host),
        stored_at_ms=header.stored_at_ms,
        store_host=_host(header.store_host),
        reconsume_times=header.reconsume_times or 0,
    )


def _host(text: str) -> Host:
    return Host(*parse_address(text))
