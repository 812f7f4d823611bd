"""Addresses that servers announce and that are reached elsewhere: those of containers, of another network, behind a tunnel.

A broker tells NameServers one address, and clients get that one. `ORBITMQ_MAP_ADDRESS` says where a client finds it instead:

    ORBITMQ_MAP_ADDRESS="172.17.0.2:10911=127.0.0.1:10911;broker-b:10911=127.0.0.1:10921"

Errors, metrics and pages go on naming the announced address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache

from orbitmq.address import parse_address
from orbitmq.errors import ConfigError, InvalidArgument

VARIABLE = "ORBITMQ_MAP_ADDRESS"


def reachable(address: str) -> tuple[str, int]:
    """Return host and port at which an announced address is reached.

    Raises:
        InvalidArgument: it is not a host:port.
        ConfigError: the variable is not `ANNOUNCED=REACHED`, several with `;` between.
    """
    text = os.environ.get(VARIABLE)
    return parse_address(address if not text else parse_map(text).get(address, address))


@lru_cache(maxsize=1)
def parse_map(text: str) -> Mapping[str, str]:
    """Parse the variable.

    Raises:
        ConfigError: it is not of its form.
    """
    found: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(";"))):
        announced, separator, reached = (part.strip() for part in pair.partition("="))
        try:
            if not separator:
                raise InvalidArgument("address", pair, "a pair")
            parse_address(announced)
            parse_address(reached)
        except InvalidArgument:
            raise ConfigError(VARIABLE, pair, "ANNOUNCED=REACHED, each host:port, several with ';' between") from None
        found[announced] = reached
    return found
