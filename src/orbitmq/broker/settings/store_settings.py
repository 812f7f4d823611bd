"""The settings of a broker's store, taken from the broker's."""

from __future__ import annotations

from orbitmq.broker.config import CONSUME_QUEUE_UNIT_SIZE, BrokerConfig
from orbitmq.store import FlushMode, StoreConfig
from orbitmq.store.retention.rules import HOUR_MS, RetentionRules, parse_hours


def store_config(config: BrokerConfig, cut_at: int | None = None) -> StoreConfig:
    """Return the store's part of the settings.

    Args:
        cut_at: see `StoreConfig`.
    """
    return StoreConfig(
        path=config.store_path_root_dir,
        segment_size=config.mapped_file_size_commit_log,
        consume_queue_units=config.mapped_file_size_consume_queue // CONSUME_QUEUE_UNIT_SIZE,
        flush=FlushMode(config.flush_disk_type),
        flush_interval_ms=config.flush_interval_commit_log,
        sync_timeout_ms=config.sync_flush_timeout,
        waiting_size_max=(
            config.sync_flush_waiting_max if config.flush_disk_type == "SYNC_FLUSH" else config.async_flush_waiting_max
        ),
        open_files_max=config.open_files_max,
        entries_size_max=config.queue_entries_max,
        record_crc=config.enabled_append_prop_crc,
        is_copy=config.is_slave,
        waits_for_slaves=config.broker_role == "SYNC_MASTER",
        has_index=config.message_index_enable,
        index_slots=config.max_hash_slot_num,
        index_entries=config.max_index_num,
        delay_levels=config.delay_levels,
        lmq_max=config.max_lmq_consume_queue_num if config.enable_lmq and config.enable_multi_dispatch else 0,
        cut_at=cut_at,
        accept_log_end=None if config.accept_log_end < 0 else config.accept_log_end,
    )


def retention_rules(config: BrokerConfig) -> RetentionRules:
    """Return when old files are deleted."""
    return RetentionRules(
        reserved_ms=config.file_reserved_time * HOUR_MS,
        delete_hours=parse_hours(config.delete_when),
        high_ratio=config.disk_max_used_space_ratio / 100,
        forcing_ratio=config.disk_space_clean_forcibly_ratio / 100,
        full_ratio=config.disk_space_warning_level_ratio / 100,
        may_force=config.clean_file_forcibly_enable,
        batch_max=config.delete_file_batch_max,
        segment_pause_ms=config.delete_commit_log_files_interval,
        queue_pause_ms=config.delete_consume_queue_files_interval,
        round_ms=config.clean_resource_interval,
    )
