"""The list of NameServers of one client: the order in which they are asked, and the addresses of their host names.

Pure: the list, resolved addresses and outcomes come in, an order of addresses goes out. Chance comes in as `Random`.
A host name may stand for several addresses and change them while the client runs; each is asked on its own.

Source: Java NettyRemotingClient.updateNameServerAddressList and getAndCreateNameserverChannel.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from orbitmq.address import is_ip, parse_address


class NameServerList:
    """The addresses of NameServers in the order in which they are to be asked.

    A client begins at a random one, stays with the one that answers and goes on to the next when it fails.

    Args:
        configured: host:port each.
        random: mixes the order; None keeps the order of the list.
    """

    def __init__(self, configured: Sequence[str], random: Random | None = None) -> None:
        self._random = random
        self._configured = tuple(configured)
        self._resolved: dict[str, tuple[str, ...]] = {}
        self._order: list[str] = []
        self._arrange()

    @property
    def configured(self) -> tuple[str, ...]:
        """The list as it was given."""
        return self._configured

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the list that hold a host name rather than an address: to be resolved again and again."""
        return tuple(address for address in self._configured if not _is_literal(address))

    @property
    def addresses(self) -> list[str]:
        """Every address once, the one to ask first in front."""
        return list(self._order)

    def mark_failed(self, address: str) -> None:
        """Move an address that did not answer behind all others."""
        # Only the first one: an address further back was moved there by another failed request.
        if self._order and self._order[0] == address:
            self._order.append(self._order.pop(0))

    def mark_answered(self, address: str) -> None:
        """Ask this address first from now on, and those behind it next."""
        if address in self._order:
            index = self._order.index(address)
            self._order = self._order[index:] + self._order[:index]

    def configure(self, configured: Sequence[str]) -> list[str]:
        """Replace the list; return the addresses that left it, whose connections are to be closed."""
        self._configured = tuple(configured)
        self._resolved = {name: found for name, found in self._resolved.items() if name in self._configured}
        return self._arrange()

    def set_resolved(self, name: str, addresses: Sequence[str]) -> list[str]:
        """Replace the addresses of a host name of the list; return those that left.

        An empty answer changes nothing: a name service that is down must not take the NameServers with it.
        """
        if not addresses or name not in self._configured:
            return []
        self._resolved[name] = tuple(addresses)
        return self._arrange()

    def describe(self, address: str) -> str:
        """Return an address with the host name that it was resolved from, for error messages."""
        for name, addresses in self._resolved.items():
            if address in addresses and name != address:
                return f"{address} (from {name})"
        return address

    def _arrange(self) -> list[str]:
        """Recompute the order: addresses that stay keep theirs, new ones come in random order behind them."""
        wanted = dict.fromkeys(
            address for configured in self._configured for address in self._resolved.get(configured, (configured,))
        )
        kept = [address for address in self._order if address in wanted]
        left = [address for address in self._order if address not in wanted]
        fresh = [address for address in wanted if address not in kept]
        if self._random is not None:
            self._random.shuffle(fresh)
        self._order = kept + fresh
        return left


def _is_literal(address: str) -> bool:
    return is_ip(parse_address(address)[0])
