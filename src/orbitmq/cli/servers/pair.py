"""A NameServer and a broker that start and stop together (Service)."""

from __future__ import annotations

from dataclasses import replace

from orbitmq.address import format_address, is_wildcard, parse_address
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig


class Pair:
    """A NameServer, and a broker that registers with it.

    Args:
        name_server_config: may name port 0: the broker is told the port that was chosen.
        broker_config: its NameServer is replaced by the one of the pair.
    """

    def __init__(self, name_server_config: NameServerConfig, broker_config: BrokerConfig) -> None:
        self._name_server = NameServer(name_server_config)
        self._broker_config = broker_config
        self._broker: Broker | None = None

    @property
    def name_server_address(self) -> str:
        """Where clients reach the NameServer, as host:port: clients cannot connect to a wildcard such as 0.0.0.0."""
        host, port = parse_address(self._name_server.address)
        return format_address("127.0.0.1" if is_wildcard(host) else host, port)

    @property
    def broker_address(self) -> str:
        """Where the broker listens, as host:port."""
        assert self._broker is not None, "not started"
        return self._broker.address

    @property
    def ready_fields(self) -> dict[str, str]:
        """Where the broker is, and the HTTP ports that the settings ask for, as host:port: `nameserver_metrics`, `broker_metrics`."""
        assert self._broker is not None, "not started"
        found = {
            "broker": self.broker_address,
            "nameserver_metrics": self._name_server.metrics_address,
            "broker_metrics": self._broker.metrics_address,
        }
        return {name: address for name, address in found.items() if address is not None}

    async def start(self) -> None:
        """Start the NameServer, then the broker that needs to know its port."""
        await self._name_server.start()
        broker = Broker(replace(self._broker_config, namesrv_addr=self.name_server_address))
        await broker.start()
        self._broker = broker

    async def stop(self) -> None:
        """Stop the broker, then the NameServer it says good-bye to."""
        if self._broker is not None:
            await self._broker.stop()
        await self._name_server.stop()
