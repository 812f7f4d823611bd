"""The identity of a client: the address it speaks from, its client id, and the seed of its message ids."""

from __future__ import annotations

import os
import socket
import time
from itertools import count

from orbitmq.address import parse_address
from orbitmq.errors import InvalidArgument

DEFAULT_INSTANCE = "DEFAULT"

_serial = count()


def local_ip(*peers: str) -> str:
    """Return the address from which this machine reaches the first of `peers` (host:port) that it can reach.

    Nothing is sent: connecting a datagram socket only asks the routing table.
    """
    for peer in peers:
        try:
            host, port = parse_address(peer)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((host, port or 1))
                return str(probe.getsockname()[0]).partition("%")[0]
        except (OSError, InvalidArgument):
            continue
    return "127.0.0.1"


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
