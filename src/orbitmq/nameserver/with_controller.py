"""A NameServer with a controller in its process (enableControllerInNamesrv), as Java has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orbitmq.controller.app import Controller
from orbitmq.controller.config import KEYS, ControllerConfig
from orbitmq.controller.making import make_consensus
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.net.loop import stopped_on_failure


def controller_config(config: NameServerConfig, properties: Mapping[str, str]) -> ControllerConfig:
    """Return the settings of the controller within a NameServer: those of its keys that the same file has.

    Both listen on the same address. What is changed remotely is kept below controllerStorePath, and metrics are the
    NameServer's alone.

    Raises:
        ConfigError: a key holds a value that is not allowed.
    """
    known = {key: properties[key] for key in properties.keys() & KEYS}
    store_path = ControllerConfig.from_mapping(known).controller_store_path
    overrides: dict[str, Any] = {
        "bind_address": config.bind_address,
        "config_store_path": store_path / "controller.properties",
        "metrics_port": -1,
    }
    return ControllerConfig.from_mapping(known, **overrides)


class NameServerWithController:
    """Both of them: `await start()`, then they serve until `await stop()`."""

    def __init__(self, config: NameServerConfig, controller: ControllerConfig) -> None:
        self.controller = Controller(controller, make_consensus)
        self.name_server = NameServer(config)

    @property
    def address(self) -> str:
        """Where clients reach the NameServer, as host:port."""
        return self.name_server.address

    @property
    def metrics_address(self) -> str | None:
        """Where the NameServer's /metrics, /healthz and /readyz are, as host:port; None without."""
        return self.name_server.metrics_address

    async def start(self) -> None:
        """Start both.

        Raises:
            StoreError, RaftError: the controller's log cannot be opened.
            OSError: a port cannot be bound.
        """
        await self.controller.start()
        async with stopped_on_failure(self.controller.stop):
            await self.name_server.start()

    async def stop(self) -> None:
        """Stop both."""
        try:
            await self.name_server.stop()
        finally:
            await self.controller.stop()
