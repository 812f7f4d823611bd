"""Looks at a cluster: every NameServer, and every broker that they know, is asked how it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from orbitmq.address import parse_name_servers
from orbitmq.admin.monitoring import ask_broker_health, ask_brokers, ask_health
from orbitmq.errors import ClientError, InvalidArgument
from orbitmq.monitoring.alerts import Alert
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import load_security
from orbitmq.spark.jobs.incidents import ClusterSample
from orbitmq.spark.jobs.runtime.cluster import Cluster

TIMEOUT_MS = 5_000
_Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


def look_at(cluster: Cluster) -> ClusterSample:
    """Ask all servers at the same time; one that does not answer in time is left out.

    Raises:
        ConfigError: the security file cannot be used.
    """

    async def work() -> ClusterSample:
        pool = ConnectionPool(name="admin", **load_security(cluster.security)._asdict())
        try:
            return await _look(pool, parse_name_servers(cluster.name_servers))
        finally:
            await pool.close()

    return run(work())


def alert_in(document: Mapping[str, Any]) -> Alert:
    """Return the alert of a health document."""
    return Alert(document["rule"], document["reason"], tuple(document.get("subjects", ())))


async def _look(pool: ConnectionPool, name_servers: tuple[str, ...]) -> ClusterSample:
    answers: dict[str, list[Alert]] = {}
    brokers: set[str] = set()

    async def ask(address: str, question: _Ask) -> None:
        try:
            health = await question(pool, address, timeout_ms=TIMEOUT_MS)
            answers[address] = [alert_in(alert) for alert in health["alerts"]]
            if question is ask_health:
                brokers.update(await ask_brokers(pool, address, timeout_ms=TIMEOUT_MS))
        except (ClientError, InvalidArgument):  # any client may register a broker, also at an address that is none
            pass

    await asyncio.gather(*(ask(address, ask_health) for address in name_servers))
    await asyncio.gather(*(ask(address, ask_broker_health) for address in brokers))
    return ClusterSample(answers, frozenset(name_servers))
