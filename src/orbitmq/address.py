"""Addresses as text: `host:port`, with IPv6 hosts in brackets. Pure: looking names up is `net.name_lookup`'s."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Any

from orbitmq.errors import InvalidArgument

PORT_MAX = 65535
NAME_SERVER_PORT = 9876
_MAPPED_IPV4 = "::ffff:"
_SEPARATORS = re.compile(r"[;,\s]+")


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of `host:port` or `[ipv6]:port`.

    Raises:
        InvalidArgument: no host, no port, or a port outside 0 to 65535.
    """
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= PORT_MAX
    if not colon or not is_port or not _is_host(host):
        raise InvalidArgument("address", text, "host:port with a port from 0 to 65535")
    return host, int(port)


def format_address(host: str, port: int) -> str:
    """Return `host:port`; IPv6 hosts are bracketed."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def format_peer(name: Any) -> str:
    """Return a socket's `getpeername()` or `getsockname()` as text; `unknown:0` when the peer is gone already.

    An IPv4 peer of a socket that listens on `::` has its IPv4 address, which records and access rules hold.
    """
    if isinstance(name, tuple) and len(name) >= 2:
        return format_address(str(name[0]).removeprefix(_MAPPED_IPV4), int(name[1]))
    return "unknown:0"


def parse_name_servers(text: str | Iterable[str]) -> tuple[str, ...]:
    """Return `host:port` strings from `"h:p;h:p"` or a list of them; the port is 9876 when it is left out.

    Raises:
        InvalidArgument: no address, or one that is not a `host:port`.
    """
    try:
        parts = _SEPARATORS.split(text) if isinstance(text, str) else [p for t in text for p in _SEPARATORS.split(t)]
    except TypeError:
        allowed = "host:port, several of them with ';' between, or a list of them"
        raise InvalidArgument("name_servers", text, allowed) from None
    addresses = tuple(dict.fromkeys(_with_port(part) for part in parts if part))
    if not addresses:
        raise InvalidArgument("name_servers", text, "at least one host:port, like 127.0.0.1:9876")
    return addresses


def is_ip(host: str) -> bool:
    """Whether a host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_wildcard(host: str) -> bool:
    """Return True if a server listens on all addresses there: clients cannot connect to it."""
    return is_ip(host) and ip_address(host).is_unspecified


def _is_host(text: str) -> bool:
    """Whether the name service can be asked for it: labels of 1 to 63 letters, in other alphabets than ours encoded."""
    if text.isascii():
        return all(0 < len(label) < 64 for label in text.removesuffix(".").split("."))
    try:
        return bool(text.encode("idna"))
    except UnicodeError:
        return False


def _with_port(text: str) -> str:
    is_bare = ":" not in text or text.endswith("]") or is_ip(text)
    try:
        host, port = parse_address(format_address(text.strip("[]"), NAME_SERVER_PORT) if is_bare else text)
    except InvalidArgument:
        host, port = "", 0
    if not host or port == 0 or "/" in host:
        raise InvalidArgument("name_servers", text, "host:port with a port from 1 to 65535, like 127.0.0.1:9876")
    return format_address(host, port)
