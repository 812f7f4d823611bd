"""Which consensus a controller works with, by its setting controllerType."""

from __future__ import annotations

from collections.abc import Callable

from orbitmq.controller.app import RunningConsensus
from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.replicas import Replicas


def make_consensus(
    config: ControllerConfig, replicas: Replicas, on_leadership: Callable[[bool], None]
) -> RunningConsensus:
    """Return etcd or our own Raft; the other one is not loaded.

    Raises:
        ConfigError: etcd is asked for, and what it needs is missing.
    """
    if config.uses_etcd:
        from orbitmq.controller.etcd.consensus import EtcdConsensus

        return EtcdConsensus(config, replicas, on_leadership)
    from orbitmq.controller.consensus.node import RaftNode

    return RaftNode(config, replicas, on_leadership)
