"""The clients that tools ask a cluster with: one administrator's for all calls, and others that are opened for one call."""

from __future__ import annotations

from typing import Any

from orbitmq.admin import AdminClient
from orbitmq.admin.dead_letter_client import DeadLetters
from orbitmq.client.producer import Producer
from orbitmq.client.pull_consumer import PullConsumer
from orbitmq.net.security.client_security import ClientSecurity

GROUP = "orbitmq-assistants"
"""Readers commit nothing under it."""
PULL_COUNT = 32
WINDOW_COUNT = 64
WINDOW_SIZE = 4 * 1024 * 1024
"""Messages, and bytes of them, that a reader keeps of each queue."""


class Clients:
    """Makes the clients of one cluster.

    Args:
        name_servers: `"host:port;host:port"`.
        timeout_ms: for each request.
        security: the access key and TLS.
    """

    def __init__(self, name_servers: str, *, timeout_ms: int = 3_000, security: ClientSecurity | None = None) -> None:
        self._name_servers = name_servers
        self._timeout_ms = timeout_ms
        self._security: dict[str, Any] = {} if security is None else security._asdict()
        self.admin = AdminClient(name_servers, timeout_ms=timeout_ms, **self._security)

    def reader(self) -> PullConsumer:
        """Return a consumer that reads a few messages, to be opened with `async with`."""
        return PullConsumer(
            GROUP,
            self._name_servers,
            pull_count_max=PULL_COUNT,
            window_count_max=WINDOW_COUNT,
            window_size_max=WINDOW_SIZE,
            **self._security,
        )

    def producer(self) -> Producer:
        """Return a producer, to be opened with `async with`."""
        return Producer(GROUP, self._name_servers, **self._security)

    def dead_letters(self) -> DeadLetters:
        """Return a client for dead letters, to be opened with `async with`."""
        return DeadLetters(self._name_servers, timeout_ms=self._timeout_ms, **self._security)

    async def close(self) -> None:
        """Close every connection."""
        await self.admin.close()
