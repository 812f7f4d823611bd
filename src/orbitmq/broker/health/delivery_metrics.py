"""Metrics of deliveries that wait: delayed and timed messages, transactions, popped messages.

Source: Java DefaultStoreMetricsConstant, PopMetricsConstant, BrokerMetricsConstant; docs/reference/broker.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from prometheus_client.core import Metric

from orbitmq.broker.health.bad_records import bad_records
from orbitmq.broker.health.group_metrics import by_topic, first_of, look
from orbitmq.broker.service import BrokerService
from orbitmq.monitoring.families import Families, Series

STORAGE_LABELS = ("storage_type", "storage_medium")
STORAGE = ("local", "disk")
"""Java has them at everything that its store tells."""
TIMER_BOUNDS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)


class DeliveryMetrics:
    """The figures of everything that waits for something.

    Args:
        java: families with Java's prefix.
        own: families with ours.
        series_max: topics that are told apart.
    """

    def __init__(self, java: Families, own: Families, service: BrokerService, series_max: int) -> None:
        self._java = java
        self._own = own
        self._service = service
        self._series_max = series_max

    def collect(self) -> Iterator[Metric]:
        """Yield every family, large ones in parts."""
        yield from self._of_waiting()
        yield from self._of_timers()
        yield from self._of_timed_topics()
        yield from self._of_transactions()
        bad = [((kind,), count) for kind, count in bad_records(self._service).items()]
        text = "Records that were set aside, for they cannot be read, decoded or stored again"
        yield from self._own.counters("bad_records", text, ("kind",), bad)

    def _of_waiting(self) -> Iterator[Metric]:
        own, service = self._own, self._service
        yield own.gauge("parked_pulls", "Pulls that wait for messages", service.delivery.pulls.held_count)
        yield own.gauge("parked_pulls_bytes", "Memory that they take, estimated", service.delivery.pulls.held.size)
        waiting = [((str(level),), count) for level, count in service.sends.delays.backlog().items()]
        yield from self._of_pop()
        yield from own.gauges("delayed_messages", "Messages that wait for their time, by level", ("level",), waiting)

    def _of_timers(self) -> Iterator[Metric]:
        own, service = self._own, self._service.sends.timers
        timers, waited_ms = service.timers, look(lambda: service.enqueue_behind_ms)
        for name, text, value in (
            ("enqueue_lag", "Timed messages that are not in the wheel yet", timers.queue_behind),
            ("enqueue_latency_milliseconds", "How long the first of those has waited, in ms", waited_ms),
            ("dequeue_lag", "Timed messages in the wheel", timers.pending_count),
            ("dequeue_latency_milliseconds", "How late timed messages are delivered, in ms", service.behind_ms),
        ):
            yield from self._java.gauges(f"timer_{name}", text, STORAGE_LABELS, [(STORAGE, value)])
        text = "Timed messages in the wheel that are due before so many seconds, and not before the bound below"
        labels = (*STORAGE_LABELS, "timer_bound_s")
        yield from self._java.gauges("timer_message_snapshot", text, labels, self._due_counts())
        yield own.gauge("timer_behind_ms", "How late timed messages are delivered", service.behind_ms)
        text = "Timed messages that were delivered, or stored for another turn"
        yield own.counter("timer_delivered_messages", text, timers.delivered_count)
        text = "Timed messages that the log did not have any more at their time"
        yield own.counter("timer_lost_messages", text, timers.lost_count)

    def _due_counts(self) -> Series:
        for found in self._service.sends.timers.due_counts(TIMER_BOUNDS_S):
            if found is None:
                yield None
            else:
                bound, count = found
                yield (*STORAGE, str(bound)), count

    def _of_timed_topics(self) -> Iterator[Metric]:
        java, metrics = self._java, self._service.sends.timers.metrics
        labels = (*STORAGE_LABELS, "topic")
        text = "Messages that wait for a time of their own"
        yield from java.gauges("timing_messages", text, labels, self._stored(metrics.counts))
        text = "Such messages that came, also for another turn"
        yield from java.counters("timer_enqueue", text, labels, self._stored(metrics.enqueued))
        text = "Such messages whose time was over, also for another turn"
        yield from java.counters("timer_dequeue", text, labels, self._stored(metrics.dequeued))
        text = "For how long such messages asked to wait, in seconds"
        delays = (((*STORAGE, topic), found) for topic, found in islice(metrics.delays.items(), self._series_max))
        yield from java.histograms("delay_message_latency_seconds", text, labels, delays)

    def _stored(self, table: dict[str, int]) -> Series:
        for found in by_topic(table, self._series_max):
            yield None if found is None else ((*STORAGE, *found[0]), found[1])

    def _of_transactions(self) -> Iterator[Metric]:
        java, own, service = self._java, self._own, self._service
        counts, checks = service.sends.transactions.counts, service.sends.transaction_checks
        for name, text, table in (
            ("commit_messages", "Transactions that were committed", counts.commits),
            ("rollback_messages", "Transactions that were rolled back", counts.rollbacks),
        ):
            yield from java.counters(name, text, ("topic",), by_topic(table, self._series_max))
        text = "How long transactions were open that were committed, in seconds"
        latencies = (((topic,), found) for topic, found in islice(counts.latencies.items(), self._series_max))
        yield from java.histograms("finish_message_latency_milliseconds", text, ("topic",), latencies)
        text = "Transactions that are open"
        yield from java.gauges("half_messages", text, ("topic",), by_topic(counts.open, self._series_max))
        yield own.counter("transactions_given_up", "Transactions that were discarded undecided", counts.given_up_count)
        yield own.counter("transaction_checks", "Questions to producers how a transaction has ended", checks.sent_count)
        text = "Such questions that found no producer of the group that would read them"
        yield own.counter("transaction_checks_unsent", text, checks.unsent_count)

    def _of_pop(self) -> Iterator[Metric]:
        java, own, pop = self._java, self._own, self._service.delivery.pop
        log, checkpoints = pop.revive_log, pop.revive_log.checkpoints
        written = [(("CK",), log.checkpoint_count), (("ACK",), log.ack_count)]
        text = "Checkpoints and acks of popped messages"
        yield from java.counters("pop_revive_in_message", text, ("revive_message_type",), written)
        text = "PopResult messages that were not acknowledged and went to a retry topic"
        retries = (((group, topic), n) for (topic, group), n in first_of(pop.revival.retries, self._series_max))
        yield from java.counters("pop_revive_retry_messages", text, ("consumer_group", "topic"), retries)
        lags = [((str(queue_id),), count) for queue_id, count in log.backlog().items()]
        # The name is Java's, which counts records as well.
        text = "Records of the revive topic behind the first checkpoint that has messages left"
        yield from java.gauges("pop_revive_lag_milliseconds", text, ("queue_id",), lags)
        late = [((str(queue_id),), age_ms) for queue_id, age_ms in log.lateness_ms().items()]
        text = "How long ago the time of its first checkpoint was over, in ms"
        yield from java.gauges("pop_revive_latency_milliseconds", text, ("queue_id",), late)
        yield java.gauge("pop_checkpoint_buffer_size", "Checkpoints that have messages left", checkpoints.count)
        yield own.gauge("popped_messages", "PopResult messages not acknowledged yet", checkpoints.message_count)
        yield own.gauge("ordered_batches", "Batches in order that are not all acknowledged", pop.ordered.count)
        yield own.gauge("parked_pops", "Pops that wait for messages", pop.waiting.held.count)
