"""A broker with a controller in its process: three of them are a group that needs nothing else (enableDLegerCommitLog).

The keys are those of Java's DLedger brokers. Neither its files nor its messages are Java's: what they ask for, a group of at least
three brokers that elects its master, is met by controllers.
"""

from __future__ import annotations

from dataclasses import fields, replace

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.failover.controlled_broker import ControlledBroker
from orbitmq.broker.service import BrokerService
from orbitmq.controller.app import Controller
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.consensus.node import RaftNode
from orbitmq.net.loop import stopped_on_failure
from orbitmq.net.security.server_settings import ServerSettings


def controller_config(config: BrokerConfig) -> ControllerConfig:
    """Return the settings of the controller within a broker: its files are below storePathRootDir, its port has the broker's limits and security.

    Raises:
        ConfigError: dLegerPeers or dLegerSelfId is not allowed.
    """
    root = config.store_path_root_dir / "controller"
    shared = {one.name: getattr(config, one.name) for one in fields(ServerSettings)} | {"metrics_port": -1}
    return ControllerConfig(
        **shared,
        controller_d_leger_group=config.d_leger_group or config.broker_name,
        controller_d_leger_peers=config.d_leger_peers,
        controller_d_leger_self_id=config.d_leger_self_id,
        controller_store_path=root,
        config_store_path=root / "controller.properties",
    )


class BrokerWithController:
    """One member of a controlled group, and one of its controllers: `await start()`, then both serve until `await stop()`."""

    def __init__(self, config: BrokerConfig) -> None:
        own = controller_config(config)
        self.config = replace(config, enable_controller_mode=True, controller_addr=";".join(own.peers.values()))
        self.controller = Controller(own, RaftNode)
        self.broker = ControlledBroker(self.config)

    @property
    def address(self) -> str:
        """Where clients reach the broker, as host:port."""
        return self.broker.address

    @property
    def metrics_address(self) -> str | None:
        """Where the broker's /metrics, /healthz and /readyz are, as host:port; None without, and while its role changes."""
        return self.broker.metrics_address

    @property
    def service(self) -> BrokerService:
        """The broker's state; another one after each change of its role."""
        return self.broker.service

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers from now on (see `Broker.set_name_servers`)."""
        self.broker.set_name_servers(addresses)

    async def start(self) -> None:
        """Start the controller, then the broker, which waits until a majority of the controllers is there.

        Raises:
            StoreError: the store, or the controller's log cannot be opened.
            OSError: a port cannot be bound.
        """
        await self.controller.start()
        async with stopped_on_failure(self.controller.stop):
            await self.broker.start()

    async def stop(self) -> None:
        """Stop the broker, then the controller. Raises as `Broker.stop`."""
        try:
            await self.broker.stop()
        finally:
            await self.controller.stop()
