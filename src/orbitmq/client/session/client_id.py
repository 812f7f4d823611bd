"""The identity of a client: the address it speaks from, its client id, and the seed of its message ids."""

from __future__ import annotations

import os
import socket
import time
from itertools import count

from orbitmq.address import is_ip, parse_address
from orbitmq.errors import InvalidArgument

DEFAULT_INSTANCE = "DEFAULT"

_LOOPBACK = "127.0.0.1"
_OUTSIDE = "192.0.2.1"
"""An address that no machine has (RFC 5737): the way to it is the way to all that is not near."""
_serial = count()


def local_ip(*peers: str) -> str:
    """Return the address from which this machine reaches the first of `peers` (host:port) that it can reach.

    Nothing is sent: connecting a datagram socket only asks the routing table. A peer that is known by a name stands for any address
    outside, because its lookup may take seconds.
    """
    for peer in peers:
        try:
            host, port = parse_address(peer)
            if not is_ip(host):
                host = _LOOPBACK if host == "localhost" else _OUTSIDE
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((host, port or 1))
                return str(probe.getsockname()[0]).partition("%")[0]
        except (OSError, InvalidArgument):
            continue
    return _LOOPBACK


def unique_instance() -> str:
    """Return an instance name that no other client object has: two consumers of a process are two members.

    Source: Java ClientConfig.changeInstanceNameToPID, and a serial number for clients made in one tick.
    """
    return f"{os.getpid()}#{time.monotonic_ns()}{next(_serial)}"


def client_id(ip: str, instance: str) -> str:
    """Return `ip@instance` (Java: ClientConfig.buildMQClientId)."""
    return f"{ip}@{instance}"


def unique_key_seed() -> int:
    """Return 32 bits that differ between client objects of one process (Java has a class loader's hash there)."""
    return (time.monotonic_ns() + next(_serial) * 0x9E3779B1) & 0xFFFFFFFF
