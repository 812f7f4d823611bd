"""Gets messages into a queue: chooses it, tries, avoids who failed, tries elsewhere, and says what happened.

Source: Java DefaultMQProducerImpl.sendDefaultImpl, MQFaultStrategy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from orbitmq.client.routing.queue_selection import RoundRobin, choose_by_key, writable_queues
from orbitmq.client.send.fault_tolerance import Latencies
from orbitmq.client.send.request import (
    RETRY_CODES,
    Outgoing,
    SendResult,
    batch_body,
    batch_header,
    results,
    send_header,
)
from orbitmq.client.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, ConnectionFailed, OrbitError, RemoteRefused, RouteNotFound, SendFailed
from orbitmq.model.route import MessageQueue, TopicRoute
from orbitmq.model.topic import AUTO_CREATE_TOPIC

SAME_BROKER_PAUSE_MS = 200
"""Before the next attempt on a broker that has just failed; four times as long with each one. A broker that is only
restarted is back by then."""
SETTLE_TRIES = 6
SETTLE_PAUSE_MS = 50


class Target(NamedTuple):
    """Where messages are to go: a queue, the queue of a key, or any queue of the topic."""

    topic: str
    queue: MessageQueue | None = None
    key: str | None = None


class _Outlet(NamedTuple):
    """A topic as senders see it."""

    queues: tuple[MessageQueue, ...]
    broker_names: frozenset[str]
    turns: RoundRobin
    is_template: bool
    """The topic does not exist yet; the queues are those it will get."""


class Delivery:
    """Sends runs of messages.

    Args:
        session: carries the requests.
        group: the producer group.
        random: where round robin begins.
        timeout_ms: over all attempts.
        attempt_timeout_ms: for one attempt, None for all the time that is left.
        retries: attempts after the first one.
        avoid_slow_brokers: remember who failed or was slow beyond one send.
        queue_count: queues per broker of a topic that is yet to be created.
    """

    def __init__(
        self,
        session: ClientSession,
        group: str,
        *,
        random: Random,
        timeout_ms: int,
        attempt_timeout_ms: int | None,
        retries: int,
        avoid_slow_brokers: bool,
        queue_count: int,
    ) -> None:
        self.session = session
        self._group = group
        self._random = random
        self._timeout_ms = timeout_ms
        self._attempt_timeout_ms = attempt_timeout_ms
        self._retries = retries
        self._latencies = Latencies() if avoid_slow_brokers else None
        self._queue_count = queue_count
        self._outlets: dict[str, _Outlet] = {}
        session.routes.on_change.append(self._route_changed)

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that the topic's messages may go to."""
        return (self._outlets.get(topic) or await self._find(topic)).queues

    async def choose(self, target: Target, failed: frozenset[str] = frozenset()) -> MessageQueue:
        """Return the queue for the next messages to `target`.

        Args:
            failed: brokers that the messages were refused by already.

        Raises:
            RouteNotFound: the topic has no queue that can be written.
        """
        if target.queue is not None:
            if self.session.routes.broker(target.queue.broker_name) is None:
                await self._find(target.topic)
            return target.queue
        return self.choose_now(target, failed) or self._choose(await self._find(target.topic), target, failed)

    def choose_now(self, target: Target, failed: frozenset[str] = frozenset()) -> MessageQueue | None:
        """Return the queue for the next messages to `target`, None while the topic's route is not known."""
        outlet = self._outlets.get(target.topic)
        return None if outlet is None else self._choose(outlet, target, failed)

    async def deliver(
        self,
        batch: Sequence[Outgoing],
        target: Target,
        timeout_ms: int | None = None,
        *,
        first: MessageQueue | None = None,
    ) -> list[SendResult]:
        """Send messages together, to one queue.

        Args:
            batch: one message, or several that may travel in one request.
            target: where to.
            timeout_ms: over all attempts.
            first: the queue of the first attempt, when it is chosen already.

        Returns:
            list of results, one per message.

        Raises:
            SendFailed: every attempt failed.
            RemoteRefused: a refusal that other brokers share.
            RouteNotFound, NoNameServer: there is no queue to send to.
        """
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_ms / 1000
        failed: frozenset[str] = frozenset()
        causes: list[OrbitError] = []
        for _attempt in range(self._retries + 1):
            queue = first if first is not None and not causes else await self._choose_within(deadline, target, failed)
            if queue.broker_name in failed:
                pause = SAME_BROKER_PAUSE_MS / 1000 * 4 ** (len(causes) - 1)
                await asyncio.sleep(min(pause, max(0.0, deadline - loop.time())))
            left_ms = int((deadline - loop.time()) * 1000)
            if left_ms <= 0:
                break
            try:
                return await self._attempt(batch, queue, left_ms)
            except RemoteRefused as error:
                if error.code not in RETRY_CODES:
                    raise
                causes.append(error)
            except ClientError as error:
                causes.append(error)
            failed |= {queue.broker_name}
            self._failed(queue)
        raise self._give_up(batch, target, causes, limit_ms)

    async def throw(self, outgoing: Outgoing, target: Target) -> None:
        """Send one message and wait for nothing.

        Raises:
            ConnectionFailed: there is no connection to the broker.
            RouteNotFound, NoNameServer: there is no queue to send to.
        """
        queue = await self.choose(target)
        header = send_header(outgoing, self._group, queue, now_ms(), self._queue_count)
        address = self.session.routes.address(queue.broker_name, only_this=True)
        try:
            await self.session.pool.oneway(address, header, outgoing.body)
        except ConnectionFailed as error:
            self._failed(queue)
            raise self.session.explain(error, queue.broker_name, address) from error

    # Below: how.

    async def _attempt(self, batch: Sequence[Outgoing], queue: MessageQueue, left_ms: int) -> list[SendResult]:
        if len(batch) == 1:
            header: object = send_header(batch[0], self._group, queue, now_ms(), self._queue_count)
            body = batch[0].body
        else:
            header = batch_header(batch[0].topic, self._group, queue, now_ms(), self._queue_count)
            body = batch_body(batch)
        timeout_ms = left_ms if self._attempt_timeout_ms is None else min(left_ms, self._attempt_timeout_ms)
        loop = asyncio.get_running_loop()
        began = loop.time()
        answer = await self.session.call(queue.broker_name, header, body, timeout_ms=timeout_ms, only_this=True)
        found = results(batch, queue, answer)
        if found is None:
            address = self.session.routes.address(queue.broker_name)
            raise RemoteRefused(answer.code, answer.remark, f"broker {queue.broker_name} at {address}")
        ended = loop.time()
        if self._latencies is not None:
            self._latencies.answered(queue.broker_name, int((ended - began) * 1000), int(ended * 1000))
        self.session.announced(queue.broker_name)
        outlet = self._outlets.get(queue.topic)
        if outlet is not None and outlet.is_template:
            self._settle(queue.topic, outlet)
        return found

    def _choose(self, outlet: _Outlet, target: Target, failed: frozenset[str]) -> MessageQueue:
        if target.key is not None:
            return choose_by_key(outlet.queues, target.key)
        if self._latencies is None:
            return outlet.turns.choose(outlet.queues, failed)
        avoided = self._latencies.avoided(int(asyncio.get_running_loop().time() * 1000))
        if failed:
            avoided |= failed
        if avoided and avoided >= outlet.broker_names:
            avoided -= {self._latencies.soonest(sorted(outlet.broker_names - failed or outlet.broker_names))}
        return outlet.turns.choose(outlet.queues, avoided)

    async def _choose_within(self, deadline: float, target: Target, failed: frozenset[str]) -> MessageQueue:
        if target.queue is None:
            queue = self.choose_now(target, failed)
            if queue is not None:
                return queue
        try:
            async with asyncio.timeout_at(deadline):
                return await self.choose(target, failed)
        except TimeoutError:
            raise SendFailed(
                f"a message to topic {target.topic} was not sent: the time was over before a NameServer told the route "
                f"({', '.join(self.session.routes.name_servers)})"
            ) from None

    async def _find(self, topic: str) -> _Outlet:
        """Ask for the topic's route, or for the template from which a broker will create the topic."""
        routes = self.session.routes
        routes.watch(topic)
        try:
            route, is_template = await routes.find(topic), False
        except RouteNotFound:
            try:
                route, is_template = await routes.find(AUTO_CREATE_TOPIC), True
            except RouteNotFound:
                route, is_template = TopicRoute(), True
            if not writable_queues(topic, route):
                raise
        return self._enter(topic, route, is_template)

    def _enter(self, topic: str, route: TopicRoute, is_template: bool) -> _Outlet:
        queues = writable_queues(topic, route, queue_count_max=self._queue_count if is_template else None)
        if not queues:
            perms = ", ".join(f"{data.broker_name} perm {data.perm}" for data in route.queues) or "no queues at all"
            raise RouteNotFound(
                f"topic {topic} has a route but no queue that can be written ({perms}): its masters are down, or write "
                "permission was taken away (mqadmin updateTopicPerm and wipeWritePerm do that, and undo it)"
            )
        known = self._outlets.get(topic)
        turns = known.turns if known is not None else RoundRobin(self._random.randrange(len(queues)))
        outlet = _Outlet(queues, frozenset(queue.broker_name for queue in queues), turns, is_template)
        self._outlets[topic] = outlet
        return outlet

    def _route_changed(self, topic: str, route: TopicRoute) -> None:
        if topic not in self._outlets:
            return
        try:
            self._enter(topic, route, is_template=False)
        except RouteNotFound:
            del self._outlets[topic]  # the next send says why

    def _failed(self, queue: MessageQueue) -> None:
        """Avoid the broker for a while, and see whether the route has changed."""
        if self._latencies is not None:
            self._latencies.failed(queue.broker_name, int(asyncio.get_running_loop().time() * 1000))
        self.session.spawn(self._refresh(queue.topic), f"route of {queue.topic}")

    async def _refresh(self, topic: str) -> bool:
        """Ask for the route anew; errors do not matter, the one we have stays in use."""
        try:
            return await self.session.routes.refresh(topic)
        except OrbitError:
            return False

    def _settle(self, topic: str, outlet: _Outlet) -> None:
        """The first message has created the topic: its true route is a matter of moments now."""
        self._outlets[topic] = outlet._replace(is_template=False)
        self.session.spawn(self._await_route(topic), f"route of {topic}")

    async def _await_route(self, topic: str) -> None:
        for attempt in range(SETTLE_TRIES):
            await asyncio.sleep(SETTLE_PAUSE_MS * 2**attempt / 1000)
            if await self._refresh(topic):
                return

    def _give_up(
        self, batch: Sequence[Outgoing], target: Target, causes: list[OrbitError], limit_ms: int
    ) -> SendFailed:
        what = "a message" if len(batch) == 1 else f"a batch of {len(batch)} messages"
        # Attempts on one broker mostly end alike: each sentence is told once, with the numbers of its attempts.
        told: dict[str, list[str]] = {}
        for number, cause in enumerate(causes, 1):
            told.setdefault(str(cause), []).append(str(number))
        tries = "; ".join(f"{', '.join(numbers)}: {text}" for text, numbers in told.items())
        return SendFailed(
            f"{what} to topic {target.topic} got no positive answer, {len(causes)} attempts within {limit_ms} ms: "
            f"{tries or 'the time was over before the first one'}. Where an answer is missing, the message may be "
            "stored all the same: sending it again may double it",
            causes,
        )
