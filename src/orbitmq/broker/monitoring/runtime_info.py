"""The run-time values that GET_BROKER_RUNTIME_INFO answers: real ones, under Java's names.

Java counts queues of its thread pools here. There are none: what would wait in them waits in no queue, so those
values are 0 and say the truth. What nothing measures here is 0, too, since Java's tools expect every key; `notMeasured`
names those.

Source: Java AdminBrokerProcessor.prepareRuntimeInfo; mqadmin clusterList and brokerStatus read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.codes import Version
from orbitmq.errors import StoreError
from orbitmq.net.security.server_security import ServerSecurity
from orbitmq.store import Store
from orbitmq.store.disk_usage import disk_usage

VERSION_NAME = "V5_3_3"
"""The upstream release whose behaviour this broker offers; Java's tools print it as the broker's version."""
WARNINGS = "warnings"
"""Ours: what the broker's operator should know; only there when there is something."""
FUTURE_MESSAGES = "futureMessages"
"""Ours: where in the log messages of the future end, and how far in the future the last one is (ms); only there with some."""
CONTROLLERS = "controllers"
"""Ours: the controllers of a controlled group, joined with `;`."""
NOT_MEASURED = "notMeasured"
"""Ours: the keys whose values say nothing."""
_TIMES = (
    "<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s", "1~2s", "2~3s", "3~4s", "4~5s",
    "5~10s", "10s~",
)  # fmt: skip
_UNMEASURED = {
    "getMessageEntireTimeMax": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "".join(f"[{time}]:0 " for time in _TIMES),
    "putMessageEntireTimeMax": "0",
    "putMessageFailedTimes": "0",
}
_POOLS = ("send", "pull", "query", "heartbeat", "litePull", "ack", "endTransaction", "adminBroker", "clientManager")


class RuntimeInfo:
    """Reads the run-time values off the parts of a running broker.

    Args:
        held_count: tells how many pulls wait.
        timers: tells how far timers are, under Java's names.
        delays: tells, of each delay level that was used, up to where it was delivered, and where its queue ends.
        replication: tells what this broker is in its controlled group, nothing without one.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        stats: BrokerStats,
        security: ServerSecurity,
        *,
        held_count: Callable[[], int],
        timers: Callable[[], Mapping[str, int]],
        delays: Callable[[], Mapping[int, tuple[int, int]]] = dict,
        replication: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._replication = replication
        self._config = config
        self._store = store
        self._stats = stats
        self._held_count = held_count
        self._timers = timers
        self._delays = delays
        self._security = security

    def values(self, now_ms: int) -> dict[str, str]:
        """Return the run-time values as text."""
        found = {
            **self._of_process(now_ms),
            **self._of_messages(now_ms),
            **self._of_store(now_ms),
            **self._of_pools(),
            **self._replication(),
            **_UNMEASURED,
            NOT_MEASURED: ",".join(_UNMEASURED),
        }
        if self._config.controllers:
            found[CONTROLLERS] = ";".join(self._config.controllers)
        warnings = [*self._security.warnings, *self._store.warnings]
        future = self._store.future_messages
        if future is not None:
            found[FUTURE_MESSAGES] = " ".join(map(str, future))
        return found | ({WARNINGS: "; ".join(warnings)} if warnings else {})

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
        root = self._config.store_path_root_dir
        disk = disk_usage(root)
        delays = {f"scheduleMessageOffset_{level}": f"{at},{end}" for level, (at, end) in self._delays().items()}
        return {
            **delays,
            f"commitLogDiskRatio_{root / 'commitlog'}": f"{disk.used_ratio:.4f}",
            "dispatchMaxBuffer": "0",
            "remainTransientStoreBufferNumbs": str(2**31 - 1),  # as Java without a pool of such buffers
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "commitLogDiskRatio": f"{disk.used_ratio:.4f}",
            "consumeQueueDiskRatio": f"{disk.used_ratio:.4f}",
            "commitLogDirCapacity": f"Total : {disk.total / 2**30:.1f} GiB, Free : {disk.free / 2**30:.1f} GiB.",
            "earliestMessageTimeStamp": str(self._earliest_ms() or now_ms),
            "dispatchBehindBytes": str(store.dispatch_behind_size),
            "remainHowManyDataToFlush": f"{unsynced} B",
            "pageCacheLockTimeMills": "0",
        }

    def _earliest_ms(self) -> int:
        try:
            return earliest_message_ms(self._store)
        except (
            OSError,
            StoreError,
        ):  # of a log that cannot be read the warnings tell, and the reply has to carry them
            return 0

    def _of_pools(self) -> dict[str, str]:
        found = {"parkedPullCount": str(self._held_count())}
        for pool in _POOLS:
            found[f"{pool}ThreadPoolQueueSize"] = "0"
            found[f"{pool}ThreadPoolQueueCapacity"] = "0"
            found[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        found |= {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "0"}
        found |= {name: str(value) for name, value in self._timers().items()}
        return found | dict.fromkeys(("timerEnqueueTps", "timerDequeueTps"), "0")  # rates are among the metrics


def earliest_message_ms(store: Store) -> int:
    """Return when the first message in the log was stored, 0 without one."""
    record = store.parsed_at(store.min_physical_offset)
    return record.stored_at_ms if record is not None else 0
