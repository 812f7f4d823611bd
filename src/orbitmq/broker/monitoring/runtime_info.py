"""The run-time values that GET_BROKER_RUNTIME_INFO answers: real ones, under Java's names.

Java counts queues of its thread pools here. There are none: what would wait in them waits in no queue, so those
values are 0 and say the truth. Names that stand for parts this version does not have are left out.

Source: Java AdminBrokerProcessor.prepareRuntimeInfo; mqadmin clusterList and brokerStatus read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.codes import Version
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.store import Store
from orbitmq.store.disk_usage import disk_usage
from orbitmq.wire.messages.record import Record, parse_record

VERSION_NAME = "V5_3_3"
"""The upstream release whose behaviour this broker offers; Java's tools print it as the broker's version."""
WARNINGS = "warnings"
"""Ours: what the broker's operator should know; only there when there is something."""
_POOLS = ("send", "pull", "query", "heartbeat", "litePull", "ack", "endTransaction", "adminBroker", "clientManager")


class RuntimeInfo:
    """Reads the run-time values off the parts of a running broker.

    Args:
        parked_count: tells how many pulls wait.
        timers: tells how far timers are, under Java's names.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        stats: BrokerStats,
        security: ServerSecurity,
        *,
        parked_count: Callable[[], int],
        timers: Callable[[], Mapping[str, int]],
    ) -> None:
        self._config = config
        self._store = store
        self._stats = stats
        self._parked_count = parked_count
        self._timers = timers
        self._security = security

    def values(self, now_ms: int) -> dict[str, str]:
        """Return the run-time values as text."""
        warnings = [*self._security.warnings, *self._store.warnings]
        return {
            **self._of_process(now_ms),
            **self._of_messages(now_ms),
            **self._of_store(now_ms),
            **self._of_pools(),
            **({WARNINGS: "; ".join(warnings)} if warnings else {}),
        }

    def _of_process(self, now_ms: int) -> dict[str, str]:
        started_at_ms = self._stats.started_at_ms
        seconds = (now_ms - started_at_ms) // 1000
        days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
        return {
            "brokerActive": "true",
            "brokerVersion": str(int(Version.V5_3_3)),
            "brokerVersionDesc": VERSION_NAME,
            "bootTimestamp": str(started_at_ms),
            "startAcceptSendRequestTimeStamp": "0",
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]",
        }

    def _of_messages(self, now_ms: int) -> dict[str, str]:
        stats = self._stats
        totals, morning, yesterday = stats.totals, stats.this_morning, stats.yesterday_morning

        def rates(field: str) -> str:
            return " ".join(f"{rate:.3f}" for rate in stats.rates(field, now_ms))

        return {
            "putTps": rates("put_count"),
            "getTransferredTps": rates("get_count"),
            "getTransferedTps": rates("get_count"),  # the name that tools before 5.0 ask for
            "getFoundTps": rates("found_count"),
            "getMissTps": rates("miss_count"),
            "getTotalTps": " ".join(
                f"{found + missed:.3f}"
                for found, missed in zip(
                    stats.rates("found_count", now_ms), stats.rates("miss_count", now_ms), strict=True
                )
            ),
            "putMessageTimesTotal": str(totals.put_count),
            "putMessageSizeTotal": str(totals.put_size),
            "putMessageAverageSize": str(totals.put_size / totals.put_count if totals.put_count else 0.0),
            "msgPutTotalYesterdayMorning": str(yesterday.put_count),
            "msgPutTotalTodayMorning": str(morning.put_count),
            "msgPutTotalTodayNow": str(totals.put_count),
            "msgGetTotalYesterdayMorning": str(yesterday.get_count),
            "msgGetTotalTodayMorning": str(morning.get_count),
            "msgGetTotalTodayNow": str(totals.get_count),
        }

    def _of_store(self, now_ms: int) -> dict[str, str]:
        store = self._store
        unsynced = store.max_physical_offset - store.durable_offset
        disk = disk_usage(self._config.store_path_root_dir)
        return {
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "commitLogDiskRatio": f"{disk.used_ratio:.4f}",
            "consumeQueueDiskRatio": f"{disk.used_ratio:.4f}",
            "commitLogDirCapacity": f"Total : {disk.total / 2**30:.1f} GiB, Free : {disk.free / 2**30:.1f} GiB.",
            "earliestMessageTimeStamp": str(earliest_message_ms(store) or now_ms),
            "dispatchBehindBytes": str(store.dispatch_behind_size),
            "remainHowManyDataToFlush": f"{unsynced} B",
            "pageCacheLockTimeMills": "0",
        }

    def _of_pools(self) -> dict[str, str]:
        found = {"parkedPullCount": str(self._parked_count())}
        for pool in _POOLS:
            found[f"{pool}ThreadPoolQueueSize"] = "0"
            found[f"{pool}ThreadPoolQueueCapacity"] = "0"
            found[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        found |= {name: str(value) for name, value in self._timers().items()}
        return found | dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0")  # rates are for who reads metrics


def earliest_message_ms(store: Store) -> int:
    """Return when the first message in the log was stored, 0 without one."""
    encoded = store.record_at(store.min_physical_offset)
    record = parse_record(encoded, check_crc=False) if encoded is not None else None
    return record.stored_at_ms if isinstance(record, Record) else 0
