"""A broker's limits come from its settings, and each says how often it refused, under the name of its setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.limits import limit_refusals, port_limits
from orbitmq.net.limits import Limits

from .parts import Serve
from .test_app import config_of


@each_case((50_000, 0, 50_000), (0, 0, 0), (50_000, 20_001, 10_001), (100, 20_000, 100), (0, 256, 128))
def test_clients_leave_the_store_half_of_the_descriptors(
    wanted: int, descriptors: int, taken: int, tmp_path: Path
) -> None:
    config = config_of(tmp_path, connections_max=wanted)
    assert port_limits(config, descriptors).connections_max == taken


def test_the_ports_limits_are_the_settings(tmp_path: Path) -> None:
    config = config_of(
        tmp_path, server_channel_max_idle_time_seconds=7, frame_deadline_seconds=3, write_buffer_max=11,
        connections_max=12, connections_per_address_max=13, partial_frames_max=14, requests_per_second_max=15,
        server_socket_backlog=16, waiting_answers_max=17,
    )  # fmt: skip
    assert port_limits(config, 0) == Limits(
        idle_ms=7_000, frame_ms=3_000, write_buffer_max=11, connections_max=12, connections_per_address_max=13,
        partial_frames_max=14, requests_per_second_max=15, backlog=16, waiting_answers_max=17,
    )  # fmt: skip


@pytest.mark.real
async def test_every_limit_has_a_setting_and_a_count_of_its_own(serve: Serve) -> None:
    async with serve() as harness:
        service, counters = harness.broker.service, harness.broker.running.server.counters
        assert set(limit_refusals(service, counters).values()) == {0}
        assert set(limit_refusals(service, counters)) <= set(BrokerConfig(broker_name="a").to_properties())
        counters.connections_refused, counters.connections_refused_by_address, counters.throttled = 5, 2, 4
        counters.closed_by_us.update(
            {"frame deadline": 6, "partial frames": 7, "write buffer": 8, "waiting answers": 11, "idle": 99}
        )
        service.tables.topics.table.refused_count, service.tables.groups.configs.refused_count = 9, 10
        service.monitoring.stats.fast_failure_count = 14
        service.sends.sending.large_batches.over_count = 3
        counters.refusals.update({(310, 2): 20, (36, 2): 9, (310, 1): 99, (324, 2): 99})
        service.delivery.pulls.held.over_count, service.delivery.pulls.held.over_size = 12, 13
        service.delivery.pop.waiting.held.over_count, service.delivery.pop.notices.held.over_count = 18, 2
        service.delivery.pop.pops.over_checkpoints, service.delivery.pop.pops.over_in_flight = 21, 22
        service.sends.reply_pushes.over_count, service.sends.reply_pushes.over_size = 16, 17
        assert limit_refusals(service, counters) == {
            "connectionsMax": 3, "connectionsPerAddressMax": 2, "requestsPerSecondMax": 4, "frameDeadlineSeconds": 6,
            "partialFramesMax": 7, "writeBufferMax": 8, "waitingAnswersMax": 11, "topicsMax": 9, "parkedPullsMax": 12, "parkedPullsSizeMax": 13, "waitTimeMillsInSendQueue": 14,
            "asyncFlushWaitingMax": 12, "largeBatchesMax": 3, "groupsMax": 10, "replyPushesMax": 16, "replyPushesSizeMax": 17,
            "maxPopPollingSize": 20, "popCheckpointsMax": 21, "popInflightMessageThreshold": 22,
        }  # fmt: skip
