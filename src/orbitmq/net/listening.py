"""Sockets to listen with. `::` is every address of the host, those of IPv4 as well, whatever the system's default is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from orbitmq.address import is_wildcard
from orbitmq.net.name_lookup import looked_up


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound and does not listen yet.

    Raises:
        socket.gaierror: no name service knows `host`.
        OSError: the address cannot be bound.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_wildcard(host))
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


async def listen(
    make_protocol: Callable[[], asyncio.Protocol], key: str, host: str, port: int, *, backlog: int = 100
) -> asyncio.Server:
    """Listen on an address; port 0 lets the system choose one.

    Args:
        key: the setting that holds `host`.

    Raises:
        ConfigError: no name service knows `host`.
        OSError: the address cannot be bound.
    """
    loop = asyncio.get_running_loop()
    with looked_up(key, host):
        if ":" not in host or not is_wildcard(host):
            return await loop.create_server(make_protocol, host, port, backlog=backlog)
        # asyncio's own socket for `::` has IPV6_V6ONLY.
        bound = bound_socket(host, port)
        try:
            return await loop.create_server(make_protocol, sock=bound, backlog=backlog)
        except BaseException:
            bound.close()
            raise
