"""Requests of administrators: settings (26), run-time values (28), all committed offsets (43), health (30001)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.runtime_info import RuntimeInfo
from orbitmq.broker.persistence import format_offsets
from orbitmq.model.topic import DataVersion
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.kv import encode_kv_table
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetBrokerConfig,
    GetBrokerConfigResponse,
    GetBrokerRuntimeInfo,
    GetHealth,
)


@dataclass(frozen=True, slots=True)
class AdminTables:
    """What administrators look at."""

    config: BrokerConfig
    runtime_info: RuntimeInfo
    offsets: GroupOffsets
    health: Callable[[], dict[str, Any]]


handlers: Handlers[AdminTables] = Handlers()


@handlers.on(GetBrokerConfig)
def get_broker_config(tables: AdminTables, call: Call[GetBrokerConfig]) -> Reply:
    """Answer with the settings in use, as Java properties text."""
    lines = [f"{key}={value}\n" for key, value in sorted(tables.config.to_properties().items())]
    version = GetBrokerConfigResponse(version=encode_data_version(DataVersion()).decode())
    return Reply(header=version, body="".join(lines).encode())


@handlers.on(GetBrokerRuntimeInfo)
def get_broker_runtime_info(tables: AdminTables, call: Call[GetBrokerRuntimeInfo]) -> Reply:
    """Answer with what the broker has done and holds, under Java's names."""
    return Reply(body=encode_kv_table(tables.runtime_info.values(call.now_ms)))


@handlers.on(GetAllConsumerOffsets)
def get_all_consumer_offsets(tables: AdminTables, call: Call[GetAllConsumerOffsets]) -> Reply:
    """Answer with every committed offset."""
    return Reply(body=format_offsets(tables.offsets))


@handlers.on(GetHealth)
def get_health(tables: AdminTables, call: Call[GetHealth]) -> Reply:
    """Say how the broker is doing."""
    return Reply(body=orjson.dumps(tables.health()))
