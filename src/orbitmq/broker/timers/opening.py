"""Opening the timers of a broker: their files are compared with the log and repaired, and what waits is counted."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.delivery.delivered_copies import DeliveredCopies
from orbitmq.broker.timers.metrics import TimerMetrics
from orbitmq.broker.timers.service import TimerService
from orbitmq.broker.timers.timers import Timers
from orbitmq.broker.timers.times import TimerRules
from orbitmq.broker.topics.missing import MissingTopics
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.errors import StoreError
from orbitmq.files import read_generations
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Store
from orbitmq.store.disk import Disk
from orbitmq.store.local_disk import LocalDisk
from orbitmq.store.retention.rules import HOUR_MS
from orbitmq.store.timers.files import TimerFiles

log = logging.getLogger(__name__)


def open_timers(
    config: BrokerConfig,
    store: Store,
    topics: TopicRegistry,
    metrics_path: Path,
    *,
    clock: Clock,
    monotonic: Clock,
    random: Random,
    copies: DeliveredCopies | None = None,
    disk: Disk | None = None,
) -> TimerService:
    """Recover the timers' files.

    Args:
        copies: what a former master has delivered last.

    Raises:
        StoreError: the files cannot be moved aside.
        OSError: the disk gives or takes nothing.
    """
    files = TimerFiles(
        disk or LocalDisk(),
        config.store_path_root_dir,
        precision_ms=config.timer_precision_ms,
        log_file_size=config.mapped_file_size_timer_log,
    )
    if config.timer_wheel_enable:
        files.recover(
            store.max_physical_offset,
            store.max_offset(TIMER_TOPIC, 0),
            lambda offset, size: _queue_offset(store, offset, size),
        )
        _tell_of_short_retention(config)
    metrics = _load_metrics(metrics_path)
    if files.aside or files.log.is_empty:
        metrics.clear()
    timers = Timers(
        store,
        files,
        MissingTopics(topics),
        metrics,
        roll_window_ms=config.timer_roll_window_slot * config.timer_precision_ms,
        wall_ms=clock(),
        copies=copies,
    )
    rules = TimerRules(
        config.timer_wheel_enable,
        config.timer_max_delay_sec,
        config.timer_precision_ms,
        config.timer_congest_num_each_slot,
    )
    return TimerService(
        store,
        timers,
        files,
        rules,
        metrics_path,
        broker_name=config.broker_name,
        save_ms=config.timer_flush_interval_ms,
        clock=clock,
        monotonic=monotonic,
        random=random,
    )


def _queue_offset(store: Store, physical_offset: int, size: int) -> int | None:
    """Return which message of the timers' queue lies there, None where none does."""
    record = store.parsed_at(physical_offset, size)
    return record.queue_offset if record is not None and record.topic == TIMER_TOPIC else None


def _load_metrics(path: Path) -> TimerMetrics:
    try:
        return read_generations(path, TimerMetrics.parse) or TimerMetrics()
    except StoreError as error:  # they are only shown to operators
        log.error("timers are counted again: %s", error)
        return TimerMetrics()


def _tell_of_short_retention(config: BrokerConfig) -> None:
    """Warn where the log's files may be deleted before the messages in them are due."""
    turn_ms = min(config.timer_roll_window_slot * config.timer_precision_ms, config.timer_max_delay_sec * 1000)
    if config.file_reserved_time * HOUR_MS < turn_ms:
        log.warning(
            "fileReservedTime is %d hours, but timers wait up to %d hours in one place: those that are deleted before "
            "their time are not delivered; make it longer, or timerRollWindowSlot shorter",
            config.file_reserved_time,
            -(-turn_ms // HOUR_MS),
        )
