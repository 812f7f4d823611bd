"""The access of commands to servers: one after the other or all at once, signed and encrypted as --security says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from orbitmq.cli.terminal.output import say
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient
    from orbitmq.errors import ClientError
    from orbitmq.net.pool import ConnectionPool

T = TypeVar("T")


def admin_client(name_servers: str, timeout_ms: int, security: Path | None) -> AdminClient:
    """Return an administrator's client of these NameServers.

    Raises:
        ConfigError: the file cannot be used.
    """
    from orbitmq.admin import AdminClient
    from orbitmq.net.security.client_security import load_security

    return AdminClient(name_servers, timeout_ms=timeout_ms, **load_security(security)._asdict())


async def check_one_cluster(admin: AdminClient, cluster: str | None, broker: str | None) -> None:
    """Refuse a change that does not say where, while NameServers know several clusters.

    Raises:
        typer.BadParameter: it does not, and they do.
    """
    if cluster is None and broker is None:
        clusters = sorted((await admin.cluster_info()).clusters)
        if len(clusters) > 1:
            raise typer.BadParameter(f"of {', '.join(map(printable, clusters))}, say which", param_hint="--cluster")


def ask_each(
    name_servers: str, ask: Callable[[ConnectionPool, str], Awaitable[T]], security: Path | None
) -> tuple[dict[str, T], dict[str, ClientError]]:
    """Ask every NameServer; return by address the answers, and why others gave none, which is also said on stderr.

    Raises:
        ClientError: none of them gives an answer.
        ConfigError: the security file cannot be used.
    """
    import asyncio

    from orbitmq.address import parse_name_servers
    from orbitmq.errors import ClientError
    from orbitmq.net.loop import run
    from orbitmq.net.pool import ConnectionPool
    from orbitmq.net.security.client_security import load_security

    answers: dict[str, T] = {}
    silent: dict[str, ClientError] = {}

    async def ask_one(pool: ConnectionPool, address: str) -> None:
        try:
            answers[address] = await ask(pool, address)
        except ClientError as error:
            silent[address] = error

    async def work() -> None:
        pool = ConnectionPool(name="admin", **load_security(security)._asdict())
        try:
            await asyncio.gather(*(ask_one(pool, address) for address in addresses))
        finally:
            await pool.close()

    addresses = parse_name_servers(name_servers)
    run(work())
    if not answers:
        raise silent[addresses[0]]
    for address in silent:
        say(f"orbitmq: {silent[address]}")
    return {address: answers[address] for address in addresses if address in answers}, silent
