"""Lookup of host names, and the errors that say which setting holds an unknown name."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from orbitmq.address import format_address, parse_address
from orbitmq.errors import ConfigError

log = logging.getLogger(__name__)


@contextmanager
def looked_up(key: str, host: str) -> Iterator[None]:
    """Turn a failed lookup within the block into an error that names the setting that holds the host.

    Raises:
        ConfigError: no name service knows `host`.
    """
    try:
        yield
    except socket.gaierror as error:
        raise ConfigError(key, host, f"an address, or a name that can be looked up ({error.strerror})") from None
    except UnicodeError:
        raise ConfigError(key, host, "an address, or a name that can be looked up") from None


async def resolve(address: str) -> list[str]:
    """Return the addresses that `host:port` means now, none when the name service does not say."""
    host, port = parse_address(address)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        log.debug("%s: %s", address, error)
        return []
    return list(dict.fromkeys(format_address(str(entry[4][0]), port) for entry in found))
