"""The clients that a program asks one cluster with, all with one access key: the dashboard, and tools for assistants."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from orbitmq.admin.cluster_admin import ClusterAdmin
from orbitmq.model.group import TOOLS_GROUP
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import UNSECURED, ClientSecurity

if TYPE_CHECKING:
    from orbitmq.admin.access import AccessClient
    from orbitmq.admin.client import AdminClient
    from orbitmq.admin.dead_letter_client import DeadLetters
    from orbitmq.client.producer import Producer
    from orbitmq.client.pull_consumer import PullConsumer
    from orbitmq.wire.command import Command

PULL_COUNT = 32
WINDOW_COUNT = 64
WINDOW_SIZE = 4 * 1024 * 1024
"""Messages, and bytes of them, that a careful reader keeps of each queue."""
_CAREFUL = {"pull_count_max": PULL_COUNT, "window_count_max": WINDOW_COUNT, "window_size_max": WINDOW_SIZE}


class ClusterClients:
    """Clients of one cluster: those that all calls share, and makers of those that one call needs.

    Args:
        name_servers: `"host:port;host:port"`.
        group: of producers, and the name of connections.
        timeout_ms: for each request.
        security: what requests are signed and encrypted with.
    """

    def __init__(
        self,
        name_servers: str,
        group: str = "orbitmq-dashboard",
        *,
        timeout_ms: int = 3_000,
        security: ClientSecurity = UNSECURED,
    ) -> None:
        self.name_servers = name_servers
        self.group = group
        self.timeout_ms = timeout_ms
        self.security = security
        self.pool = ConnectionPool(name=group, **security._asdict())
        """For requests to one server by itself."""

    @cached_property
    def brokers(self) -> ClusterAdmin:
        """Questions about the cluster's brokers alone, which load little: a command of the shell may need no more."""
        return ClusterAdmin(self.name_servers, timeout_ms=self.timeout_ms, **self.security._asdict())

    @cached_property
    def admin(self) -> AdminClient:
        """Every administrative call."""
        from orbitmq.admin.client import AdminClient  # commands that need it pay for it

        return AdminClient(self.name_servers, timeout_ms=self.timeout_ms, **self.security._asdict())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def request(self, address: str, header: object, body: bytes = b"") -> Command:
        """Send a request to one server, and return the answer whatever its code.

        Raises:
            ClientError: there is no answer.
        """
        return await self.pool.request(address, header, body, timeout_ms=self.timeout_ms)

    async def close(self) -> None:
        """Close every connection of the shared clients."""
        for name in ("brokers", "admin"):
            if (client := vars(self).get(name)) is not None:
                await client.close()
        await self.pool.close()

    def with_security(self, security: ClientSecurity) -> ClusterClients:
        """Return clients of the same cluster with another access key."""
        return ClusterClients(self.name_servers, self.group, timeout_ms=self.timeout_ms, security=security)

    def reader(self, **options: Any) -> PullConsumer:
        """Return a consumer that commits nothing, to be opened; `tag` and `sql` choose messages."""
        from orbitmq.client.pull_consumer import PullConsumer  # commands that need it pay for it

        return PullConsumer(TOOLS_GROUP, name_servers=self.name_servers, **self.security._asdict(), **options)

    def careful_reader(self) -> PullConsumer:
        """Return one that reads ahead little: for a few messages of many queues."""
        return self.reader(**_CAREFUL)

    def short_reader(self, body_size_max: int, *, is_careful: bool = False, **options: Any) -> PullConsumer:
        """Return one that keeps so many bytes of each body, for tables; it may read ahead little, too."""
        from orbitmq.admin.message_ranges import ShortReader  # commands that need it pay for it

        options |= _CAREFUL if is_careful else {}
        security = self.security._asdict()
        return ShortReader(TOOLS_GROUP, self.name_servers, body_size_max=body_size_max, **security, **options)

    def producer(self) -> Producer:
        """Return a producer, to be opened."""
        from orbitmq.client.producer import Producer  # commands that need it pay for it

        return Producer(self.group, self.name_servers, send_timeout_ms=self.timeout_ms, **self.security._asdict())

    def dead_letters(self) -> DeadLetters:
        """Return a client for dead letters, to be opened."""
        from orbitmq.admin.dead_letter_client import DeadLetters  # commands that need it pay for it

        return DeadLetters(self.name_servers, timeout_ms=self.timeout_ms, **self.security._asdict())

    def access(self) -> AccessClient:
        """Return a client for users and rules, to be opened."""
        from orbitmq.admin.access import AccessClient  # commands that need it pay for it

        return AccessClient(self.name_servers, timeout_ms=self.timeout_ms, **self.security._asdict())
