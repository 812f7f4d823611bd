"""Support for the tests of programs that speak RocketMQ: public API.

    from orbitmq.testing import LocalCluster

    async with LocalCluster(brokers=2) as cluster: ...      # in the running loop
    with LocalCluster.running() as cluster: ...             # in a thread, for synchronous tests

With pytest the fixtures `rocketmq` (a fresh cluster for the test) and `rocketmq_session` (one for the whole run) are
there as soon as orbitmq is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orbitmq.testing.blocking_cluster import BlockingCluster
    from orbitmq.testing.clock import FakeClock
    from orbitmq.testing.cluster import LocalCluster

__all__ = ["BlockingCluster", "FakeClock", "LocalCluster"]

_MODULES = {"BlockingCluster": "blocking_cluster", "FakeClock": "clock", "LocalCluster": "cluster"}


def __getattr__(name: str) -> Any:
    """Import a part when it is first used: pytest loads this package in every project that has orbitmq installed."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
