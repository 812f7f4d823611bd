"""The NameServers of a broker: names of the settings, looked up again from time to time.

NameServers move (apache/rocketmq#2042), and one name may stand for several of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from orbitmq.broker.registration.registrar import Registrar
from orbitmq.net.name_lookup import resolve

LOOK_UP_MS = 30_000
"""How often the names are looked up again."""


class NameServers:
    """Keeps a registrar's list of addresses in step with names."""

    def __init__(self, registrar: Registrar, names: Iterable[str]) -> None:
        self._registrar = registrar
        self._names = tuple(names)
        self._resolved: dict[str, list[str]] = {}

    def replace(self, names: Iterable[str]) -> None:
        """Register with the NameServers of these names from now on."""
        self._names = tuple(names)
        self._registrar.set_name_servers(self._names)

    async def look_up(self) -> None:
        """Look every name up, and register with what they stand for now."""
        found: dict[str, None] = {}
        for name in self._names:
            # A name service that is down must not take the NameServers with it.
            addresses = await resolve(name) or self._resolved.get(name, [name])
            self._resolved[name] = addresses
            found.update(dict.fromkeys(addresses))
        self._registrar.set_name_servers(found)

    async def run(self) -> None:
        """Look the names up again from time to time. Ends when it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_UP_MS / 1000)
            await self.look_up()
