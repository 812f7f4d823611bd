"""Other brokers of the cluster: found by name in a topic's route, and asked over connections of their own.

Source: Java BrokerOuterAPI.getRpcClient, RpcClientImpl, ClientMetadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from orbitmq.errors import ConnectionFailed, RequestTimeout, RouteNotFound
from orbitmq.model.route import MASTER_ID, TopicRoute
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.command import Command


class OtherBrokers:
    """Asks brokers by name.

    Args:
        ask_route: asks a NameServer for the route of a topic; None: none of them knows it.
        timeout_ms: for an answer, connecting included.
    """

    def __init__(
        self, ask_route: Callable[[str], Awaitable[TopicRoute | None]], pool: ConnectionPool, *, timeout_ms: int
    ) -> None:
        self._ask_route = ask_route
        self._pool = pool
        self._timeout_ms = timeout_ms
        self._addresses: dict[str, str] = {}

    async def ask(self, topic: str, broker_name: str, header: object, code: int) -> Command:
        """Ask the master of a broker name that has the topic.

        Raises:
            RouteNotFound: no NameServer knows it.
            ConnectionFailed, RequestTimeout: it does not answer; it is looked for again the next time.
        """
        address = self._addresses.get(broker_name) or await self._find(topic, broker_name)
        try:
            return await self._pool.request(address, header, timeout_ms=self._timeout_ms, code=code)
        except (ConnectionFailed, RequestTimeout):
            self._addresses.pop(broker_name, None)
            raise

    async def _find(self, topic: str, broker_name: str) -> str:
        route = await self._ask_route(topic)
        for broker in () if route is None else route.brokers:
            if MASTER_ID in broker.addresses:
                self._addresses[broker.broker_name] = broker.addresses[MASTER_ID]
        if broker_name not in self._addresses:
            raise RouteNotFound(f"the master of broker {broker_name} is in no route of topic {topic}")
        return self._addresses[broker_name]
