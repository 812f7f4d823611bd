"""Claims about the metrics of timers, transactions and popped messages, scraped off a running broker."""

from __future__ import annotations

from orbitmq.model.message import SysFlag
from orbitmq.wire.headers import EndTransaction
from waiting import until

from ..parts import Serve
from .test_metrics import scrape

STORAGE = ("disk", "local")


async def test_timed_messages_are_told_by_topic_and_by_the_time_that_is_left(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for delay in (10, 500, 500):
            assert (await harness.send("t", properties=f"TIMER_DELAY_SEC\x01{delay}\x02")).code == 0
        timers = harness.broker.service.sends.timers.timers
        await until(lambda: timers.pending_count == 3)
        found = await scrape(harness)
        assert found["rocketmq_timer_enqueue_total", *STORAGE, "t"] == 3
        assert found["rocketmq_timer_dequeue_lag", *STORAGE] == 3
        assert found["rocketmq_timer_enqueue_latency_milliseconds", *STORAGE] == 0
        assert found["rocketmq_delay_message_latency_seconds_count", *STORAGE, "t"] == 3
        snapshot = {key[3]: value for key, value in found.items() if key[0] == "rocketmq_timer_message_snapshot"}
        assert (sum(snapshot.values()), snapshot["900"], len(snapshot)) == (3, 2, 8)


async def test_a_transaction_that_was_committed_has_a_latency(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for flag in (SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK):
            half = await harness.send(
                "t", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01K\x02", sys_flag=4
            )
            offset = int(half.ext_fields["msgId"][16:], 16)
            end = EndTransaction(
                producer_group="p",
                tran_state_table_offset=int(half.ext_fields["queueOffset"]),
                commit_log_offset=offset,
                commit_or_rollback=flag,
                message_id="K",
                transaction_id="K",
            )
            await harness.ask(end)
        found = await scrape(harness)
        assert found["rocketmq_commit_messages_total", "t"] == found["rocketmq_rollback_messages_total", "t"] == 1
        assert found["rocketmq_finish_message_latency_milliseconds_count", "t"] == 1
