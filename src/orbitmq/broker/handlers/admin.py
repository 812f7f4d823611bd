"""Requests of administrators: run-time values (28), all offsets (43, 45), health (30001)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import orjson

from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.monitoring.runtime_info import RuntimeInfo
from orbitmq.broker.parts.monitoring import Monitoring
from orbitmq.broker.persistence import format_offsets
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetBrokerRuntimeInfo,
    GetHealth,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminTables:
    """What administrators look at."""

    runtime_info: RuntimeInfo
    offsets: GroupOffsets
    delays: DelayService
    monitoring: Monitoring


handlers: Handlers[AdminTables] = Handlers()


@handlers.on(GetBrokerRuntimeInfo)
def get_broker_runtime_info(tables: AdminTables, call: Call[GetBrokerRuntimeInfo]) -> Reply:
    """Answer with what the broker has done and holds, under Java's names."""
    return Reply(body=encode_kv_table(tables.runtime_info.values(call.now_ms)))


@handlers.on(GetAllConsumerOffsets)
def get_all_consumer_offsets(tables: AdminTables, call: Call[GetAllConsumerOffsets]) -> Later:
    """Answer with every committed offset; a thread encodes them."""
    version, offsets = tables.offsets.version, tables.offsets.copy()
    encoding = asyncio.get_running_loop().run_in_executor(None, format_offsets, version, offsets)
    encoding.add_done_callback(lambda done: None if done.cancelled() else call.answer(Reply(body=done.result())))
    return LATER


@handlers.on(GetAllDelayOffsets)
def get_all_delay_offsets(tables: AdminTables, call: Call[GetAllDelayOffsets]) -> Reply:
    """Answer with up to where each delay level was delivered."""
    return Reply(body=tables.delays.offsets())


@handlers.on(GetHealth)
def get_health(tables: AdminTables, call: Call[GetHealth]) -> Reply:
    """Say how the broker is doing."""
    return Reply(body=orjson.dumps(tables.monitoring.health()))
