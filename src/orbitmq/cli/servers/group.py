"""A group of brokers in processes of their own, each with a controller, and their NameServer: a `Service` of `up`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

from orbitmq.address import format_address, is_wildcard, parse_address
from orbitmq.admin.client import AdminClient
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.registration.addresses import kept_port
from orbitmq.cli.servers.restarts import keep_running
from orbitmq.errors import InvalidArgument, RouteNotFound
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.loop import start_together
from orbitmq.testing.processes import ServerProcess

_RESTART_S = 5.0
"""From a broker's end to its restart: long enough to see the others go on."""
_MASTER_TIMEOUT_S = 15.0
_POLL_EVERY_S = 0.02
_PORTS_PER_MEMBER = 10
_FIRST_CONTROLLER_PORT = 9878


class Group:
    """Brokers that elect their master by themselves, and the NameServer that they register with.

    Args:
        name_server_config: its port may be 0, for any free one.
        broker_config: of every member, but for the port, ten higher for each next one, and the directory, below the configured one.
        count: number of members.
    """

    def __init__(self, name_server_config: NameServerConfig, broker_config: BrokerConfig, count: int) -> None:
        self._name_server = NameServer(name_server_config)
        self._config = broker_config
        self._numbers = range(1, count + 1)
        self._members: dict[str, ServerProcess] = {}
        self._ports = ExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._master = ""

    @property
    def name_server_address(self) -> str:
        """Where clients reach the NameServer, as host:port."""
        host, port = parse_address(self._name_server.address)
        return format_address("127.0.0.1" if is_wildcard(host) else host, port)

    @property
    def ready_fields(self) -> Mapping[str, str]:
        """The address of each broker, as host:port, by its member's name, and the `leader`'s name."""
        addresses = {name: process.address for name, process in self._members.items()}
        leader = next((name for name, address in addresses.items() if address == self._master), None)
        return addresses if leader is None else {**addresses, "leader": leader}

    async def start(self) -> None:
        """Start the NameServer, then all brokers at the same time: a majority elects the leader."""
        await self._name_server.start()
        host = "127.0.0.1" if is_wildcard(self._config.bind_address) else self._config.bind_address
        ports = {number: self._reserve_controller_port(host, number) for number in self._numbers}
        peers = ";".join(f"n{number}-{format_address(host, port)}" for number, port in ports.items())
        for number in self._numbers:
            name = f"{self._config.broker_name}-{number}"
            listen_port = self._config.listen_port
            config = replace(
                self._config,
                namesrv_addr=self.name_server_address,
                listen_port=listen_port and listen_port + _PORTS_PER_MEMBER * (number - 1),
                store_path_root_dir=self._config.store_path_root_dir / name,
                enable_d_leger_commit_log=True,
                d_leger_peers=peers,
                d_leger_self_id=f"n{number}",
            )
            self._members[name] = ServerProcess("broker", config.to_properties(), config.store_path_root_dir)
        await start_together(*(process.start for process in self._members.values()))
        await self._wait_for_master()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(keep_running(name, process, _RESTART_S)) for name, process in self._members.items()
        ]

    async def _wait_for_master(self) -> None:
        """Wait until a member leads, so that the first send finds it; after a timeout print a warning."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + _MASTER_TIMEOUT_S
        async with AdminClient(self.name_server_address) as admin:
            while loop.time() < end_s:
                with suppress(RouteNotFound, InvalidArgument):  # no broker of the name, or none with id 0
                    (self._master,) = (await admin.masters(broker=self._config.broker_name)).values()
                    return
                await asyncio.sleep(_POLL_EVERY_S)
        print(
            f"no broker leads after {_MASTER_TIMEOUT_S:.0f} s: see the logs below {self._config.store_path_root_dir}",
            file=sys.stderr,
        )

    async def stop(self) -> None:
        """Stop the brokers, then the NameServer, with which they unregister."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await asyncio.gather(*(process.stop() for process in self._members.values()))
        finally:
            self._ports.close()
            await self._name_server.stop()

    def _reserve_controller_port(self, host: str, number: int) -> int:
        """Return a member's controller port; a free one is reserved until `stop` when brokers listen on any port."""
        if self._config.listen_port:
            return _FIRST_CONTROLLER_PORT + _PORTS_PER_MEMBER * (number - 1)
        return int(self._ports.enter_context(kept_port(host, 0)).getsockname()[1])
