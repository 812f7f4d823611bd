"""The broker that a configuration asks for."""

from __future__ import annotations

from typing import Protocol

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.service import BrokerService


class BrokerProgram(Protocol):
    """A broker as a program."""

    @property
    def address(self) -> str:
        """Where clients reach it, as host:port."""
        ...

    @property
    def metrics_address(self) -> str | None:
        """Where its HTTP port is, as host:port; None without."""
        ...

    @property
    def service(self) -> BrokerService:
        """The running broker's state."""
        ...

    def set_name_servers(self, addresses: str) -> None:
        """Register with these NameServers from now on."""
        ...

    async def start(self) -> None:
        """Serve."""
        ...

    async def stop(self) -> None:
        """Serve no more."""
        ...


def make_broker(config: BrokerConfig) -> BrokerProgram:
    """Return a broker; of a controlled group with enableControllerMode, with a controller of its own with enableDLegerCommitLog."""
    # Imported where they are needed: a plain broker starts without a controller's modules.
    if config.enable_d_leger_commit_log:
        from orbitmq.broker.failover.own_controller import BrokerWithController

        return BrokerWithController(config)
    if config.enable_controller_mode:
        from orbitmq.broker.failover.controlled_broker import ControlledBroker

        return ControlledBroker(config)
    from orbitmq.broker.app import Broker

    return Broker(config)
