"""The limits of what peers may cost a broker: as its port is given them, and how often each of them refused.

Each limit counts for itself, where it refuses; here they stand together, by the name of their setting, for metrics.
"""

from __future__ import annotations

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.service import BrokerService
from orbitmq.codes import RequestCode, ResponseCode
from orbitmq.net.counters import Counters
from orbitmq.net.limits import Limits, affordable_connections, descriptor_limit, tell_of_few_descriptors

_DISK_LIMITS = {"SYNC_FLUSH": "syncFlushWaitingMax", "ASYNC_FLUSH": "asyncFlushWaitingMax"}
_SENDS = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)


def descriptor_warnings(config: BrokerConfig) -> list[str]:
    """Return in words that the process may open fewer files and connections than its settings ask for, if so."""
    limits = port_limits(config)
    return list(tell_of_few_descriptors(config.connections_max, limits.connections_max, descriptor_limit()))


def port_limits(config: BrokerConfig, descriptors: int | None = None) -> Limits:
    """Return the limits of the port.

    Args:
        descriptors: how many files and connections the process may have open; 0: any number; None: so many as it
            is allowed. Clients get half, the store's files a quarter.
    """
    if descriptors is None:
        descriptors = descriptor_limit()
    return Limits(
        idle_ms=config.server_channel_max_idle_time_seconds * 1000,
        frame_ms=config.frame_deadline_seconds * 1000,
        write_buffer_max=config.write_buffer_max,
        connections_max=affordable_connections(config.connections_max, descriptors, descriptors // 2),
        connections_per_address_max=config.connections_per_address_max,
        partial_frames_max=config.partial_frames_max,
        waiting_answers_max=config.waiting_answers_max,
        requests_per_second_max=config.requests_per_second_max,
        backlog=config.server_socket_backlog,
    )


def limit_refusals(service: BrokerService, counters: Counters) -> dict[str, int]:
    """Return, by the setting that forbade it, how much was refused since the start.

    Args:
        counters: of the broker's port.
    """
    ended = counters.closed_by_us
    by_address, batches = counters.connections_refused_by_address, service.sends.sending.large_batches.over_count
    return {
        "connectionsMax": counters.connections_refused - by_address,
        "connectionsPerAddressMax": by_address,
        "requestsPerSecondMax": counters.throttled,
        "frameDeadlineSeconds": ended.get("frame deadline", 0),
        "partialFramesMax": ended.get("partial frames", 0),
        "writeBufferMax": ended.get("write buffer", 0),
        "waitingAnswersMax": ended.get("waiting answers", 0),
        "maxPopPollingSize": service.delivery.pop.waiting.held.over_count
        + service.delivery.pop.notices.held.over_count,
        "popCheckpointsMax": service.delivery.pop.pops.over_checkpoints,
        "popInflightMessageThreshold": service.delivery.pop.pops.over_in_flight,
        "parkedPullsMax": service.delivery.pulls.held.over_count,
        "parkedPullsSizeMax": service.delivery.pulls.held.over_size,
        "waitTimeMillsInSendQueue": service.monitoring.stats.fast_failure_count,
        "largeBatchesMax": batches,
        _DISK_LIMITS[service.config.flush_disk_type]: _busy_count(counters)
        - service.monitoring.stats.fast_failure_count
        - batches,
        "replyPushesMax": service.sends.reply_pushes.over_count,
        "replyPushesSizeMax": service.sends.reply_pushes.over_size,
        "topicsMax": service.tables.topics.table.refused_count,
        "groupsMax": service.tables.groups.configs.refused_count,
    }


def _busy_count(counters: Counters) -> int:
    """Return how many sends were answered that the broker is busy."""
    return sum(counters.refusals.get((code, ResponseCode.SYSTEM_BUSY), 0) for code in _SENDS)
