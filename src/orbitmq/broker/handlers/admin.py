"""What administrators ask a broker: settings (26), run-time values (28), all committed offsets (43)."""

from __future__ import annotations

from orbitmq.broker.monitoring.runtime_info import runtime_info
from orbitmq.broker.persistence import format_offsets
from orbitmq.broker.service import BrokerService
from orbitmq.model.topic import DataVersion
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.kv import encode_kv_table
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetBrokerConfig,
    GetBrokerConfigResponse,
    GetBrokerRuntimeInfo,
)

handlers: Handlers[BrokerService] = Handlers()


@handlers.on(GetBrokerConfig)
def get_broker_config(service: BrokerService, call: Call[GetBrokerConfig]) -> Reply:
    """Answer with the settings in use, as Java properties text."""
    lines = [f"{key}={value}\n" for key, value in sorted(service.config.to_properties().items())]
    version = GetBrokerConfigResponse(version=encode_data_version(DataVersion()).decode())
    return Reply(header=version, body="".join(lines).encode())


@handlers.on(GetBrokerRuntimeInfo)
def get_broker_runtime_info(service: BrokerService, call: Call[GetBrokerRuntimeInfo]) -> Reply:
    """Answer with what the broker has done and holds, under Java's names."""
    return Reply(body=encode_kv_table(runtime_info(service, call.now_ms)))


@handlers.on(GetAllConsumerOffsets)
def get_all_consumer_offsets(service: BrokerService, call: Call[GetAllConsumerOffsets]) -> Reply:
    """Answer with every committed offset."""
    return Reply(body=format_offsets(service.offsets))
