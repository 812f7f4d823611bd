"""Bad records in the figures and in the words of a broker."""

from __future__ import annotations

from orbitmq.broker.health.bad_records import KINDS, bad_records

from ..parts import Serve
from .test_metrics import scrape


async def test_what_is_set_aside_is_counted_by_kind_and_named_by_health(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        service = harness.broker.service
        assert bad_records(service) == dict.fromkeys(KINDS, 0)
        assert not any("damaged" in warning for warning in service.monitoring.health()["warnings"])
        service.sends.delays._queues.undeliverable_count = 1
        service.sends.timers.timers.lost_count = 2
        service.sends.transactions.unreadable_count = 3
        service.delivery.pop.revive_log.unreadable_count = 4
        service.delivery.pop.revival.unreadable_count = 5
        found, warnings = await scrape(harness), service.monitoring.health()["warnings"]
    for count, (kind, words) in enumerate(KINDS.items(), 1):
        assert found["rocketmq_broker_bad_records_total", kind] == count
        assert f"{count} {words}: they are damaged or gone, the log file has their places" in warnings
