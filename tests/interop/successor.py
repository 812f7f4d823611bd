"""Our broker in the place of a Java broker, on its directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.client.loop_thread import LoopThread


@contextmanager
def our_broker_on(store: Path, name_servers: str, **settings: Any) -> Iterator[Broker]:
    """Run a broker of ours on a directory, on a loop of its own; no disk is too full for it.

    Args:
        settings: of BrokerConfig, the broker's name among them.
    """
    config = BrokerConfig(
        bind_address="127.0.0.1", listen_port=0, store_path_root_dir=store, namesrv_addr=name_servers,
        disk_space_warning_level_ratio=100, disk_space_clean_forcibly_ratio=100, **settings,
    )  # fmt: skip
    background = LoopThread("our broker")
    broker = background.apply(lambda: Broker(config))
    background.call(broker.start())
    try:
        yield broker
    finally:
        background.call(broker.stop())
        background.stop()
