"""Requests of administrators: run-time values (28), all offsets (43, 45), health (30001)."""

from __future__ import annotations

import asyncio

import orjson

from orbitmq.broker.persistence import format_offsets
from orbitmq.broker.service import BrokerService
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.wire.bodies.document import encode_kv_table
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetBrokerRuntimeInfo,
    GetHealth,
)

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(GetBrokerRuntimeInfo)
def get_broker_runtime_info(broker: BrokerService, call: Call[GetBrokerRuntimeInfo]) -> Reply:
    """Answer with what the broker has done and holds, under Java's names."""
    return Reply(body=encode_kv_table(broker.runtime_info.values(call.now_ms)))


@handlers.on(GetAllConsumerOffsets)
def get_all_consumer_offsets(broker: BrokerService, call: Call[GetAllConsumerOffsets]) -> Later:
    """Answer with every committed offset; a thread encodes them."""
    version, offsets = broker.tables.offsets.version, broker.tables.offsets.copy()
    encoding = asyncio.get_running_loop().run_in_executor(None, format_offsets, version, offsets)
    encoding.add_done_callback(lambda done: None if done.cancelled() else call.answer(Reply(body=done.result())))
    return LATER


@handlers.on(GetAllDelayOffsets)
def get_all_delay_offsets(broker: BrokerService, call: Call[GetAllDelayOffsets]) -> Reply:
    """Answer with up to where each delay level was delivered."""
    return Reply(body=broker.sends.delays.offsets())


@handlers.on(GetHealth)
def get_health(broker: BrokerService, call: Call[GetHealth]) -> Reply:
    """Say how the broker is doing."""
    return Reply(body=orjson.dumps(broker.monitoring.health()))
