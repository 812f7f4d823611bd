"""Addresses as text: `host:port`, with IPv6 hosts in brackets."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

from orbitmq.errors import InvalidArgument

log = logging.getLogger(__name__)

PORT_MAX = 65535


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[ipv6]:port`.

    Raises:
        InvalidArgument: no host, no port, or a port outside 0 to 65535.
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise InvalidArgument("address", text, "host:port with a port from 0 to 65535")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return `host:port`; IPv6 hosts are bracketed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def format_peer(name: Any) -> str:
    """Return a socket's `getpeername()` or `getsockname()` as text; `unknown:0` when the peer is gone already."""
    if isinstance(name, tuple) and len(name) >= 2:
        return format_address(str(name[0]), int(name[1]))
    return "unknown:0"


async def resolve(address: str) -> list[str]:
    """Return the addresses that `host:port` means now, none when the name service does not say."""
    host, port = parse_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        log.debug("%s: %s", address, error)
        return []
    return list(dict.fromkeys(format_address(str(entry[4][0]), port) for entry in found))
