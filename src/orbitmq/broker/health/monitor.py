"""The monitor of a broker: what is wrong with it, its alerts' lines in the log, and the health document."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from orbitmq.broker.health.bad_records import told_of
from orbitmq.broker.health.issues import BrokerState
from orbitmq.broker.registration.addresses import AnnouncedAddressCheck
from orbitmq.broker.registration.other_servers import NameServers
from orbitmq.broker.registration.registrar import Registrar
from orbitmq.broker.service import BrokerService
from orbitmq.clock import Clock
from orbitmq.monitoring.alerts import Alert, AlertLog
from orbitmq.net.limits import descriptor_limit
from orbitmq.net.server import Server
from orbitmq.process.stats import ProcessStats, memory_used
from orbitmq.store.disk_usage import DiskUsage, ask_aside, disk_usage
from orbitmq.store.recovery import RecoveryReport

log = logging.getLogger(__name__)

SAMPLE_MS = 5_000
"""How often it is looked whether an alert begins or ends."""
DISK_MS = 2_000
"""The disk must say how full it is after this long."""


class BrokerMonitor:
    """Observes one broker.

    Args:
        address_check: knows whether the announced address can be reached.
        name_servers: knows whether the list of NameServers can be read.
        tls: says in words whether TLS is spoken, and with which certificate.
        warnings: about its settings, for its operator.
    """

    def __init__(
        self,
        service: BrokerService,
        server: Server[BrokerService],
        registrar: Registrar,
        *,
        clock: Clock,
        address_check: AnnouncedAddressCheck | None = None,
        name_servers: NameServers | None = None,
        tls: Callable[[], str] = lambda: "disabled",
        warnings: Sequence[str] = (),
    ) -> None:
        self.process_stats = ProcessStats()
        self.disk: DiskUsage | None = None
        """How full the disk was when it was last looked; None: it does not say."""
        self._service = service
        self._server = server
        self._registrar = registrar
        self._clock = clock
        self._address_check = address_check
        self._name_servers = name_servers
        self._tls = tls
        self._warnings = tuple(warnings)
        self._alert_log = AlertLog(log)
        self._asked: asyncio.Future[DiskUsage] | None = None
        """What the disk has been asked and has not answered."""

    async def run(self) -> None:
        """Measure the process, and look at everything from time to time. Ends when it is cancelled."""
        self.process_stats.start(asyncio.get_running_loop())
        try:
            while True:
                await self.look()
                await asyncio.sleep(SAMPLE_MS / 1000)
        finally:
            self.process_stats.stop()

    async def look(self) -> None:
        """Look once, and log the alerts that begin or end."""
        self.disk = await self._ask_disk()
        self.find_alerts()

    async def _ask_disk(self) -> DiskUsage | None:
        # On a thread, and on one alone: a disk that hangs is to be told, not to be waited for.
        if self._asked is None:
            self._asked = ask_aside(partial(disk_usage, self._service.config.store_path_root_dir))
        await asyncio.wait((self._asked,), timeout=DISK_MS / 1000)
        if not self._asked.done():
            log.warning("the disk has not said how full it is for %d s", DISK_MS // 1000)
            return None
        asked, self._asked = self._asked, None
        try:
            return asked.result()
        except OSError as error:
            log.warning("the disk does not say how full it is: %s", error)
            return None

    def find_alerts(self) -> tuple[Alert, ...]:
        """Return the alert rules that hold now, and log those that begin or end."""
        self._alert_log.update(self.situation().alerts())
        return self._alert_log.alerts

    def situation(self) -> BrokerState:
        """Return what is known of the broker now."""
        return BrokerState(
            issues=self._service.store.issues,
            disk_used_ratio=None if self.disk is None else self.disk.used_ratio,
            disk_ratio_max=self._service.config.disk_space_clean_forcibly_ratio / 100,
            name_servers=self._registrar.name_servers,
            told=self._registrar.told,
            unreachable=self._registrar.unreachable,
            members=self._service.slave_listener.members,
            list_failure=None if self._name_servers is None else self._name_servers.problem,
            announced_failure=None if self._address_check is None else self._address_check.failure,
        )

    def health(self) -> dict[str, Any]:
        """Return how the broker is doing, as a JSON document; healthy means that no alert rule holds but warnings."""
        situation, service, config = self.situation(), self._service, self._service.config
        alerts = self.find_alerts()
        store, recovery_report = service.store, service.store.recovery_report
        unready = list(situation.unready())
        return {
            "healthy": all(alert.is_warning for alert in alerts),
            "ready": not unready,
            "notReady": unready,
            "alerts": [alert.document() for alert in alerts],
            "warnings": [
                *self._warnings,
                *situation.warnings(),
                *_told_of(recovery_report),
                *service.sends.timers.warnings,
                *told_of(service),
            ],
            "address": service.address.announced,
            "tls": self._tls(),
            "cluster": config.broker_cluster_name,
            "brokerName": config.broker_name,
            "brokerId": config.broker_id,
            "uptimeMs": self._clock() - service.monitoring.stats.started_at_ms,
            "nameServers": {address: address in situation.told for address in situation.name_servers},
            "topics": len(service.tables.topics.table.all),
            "consumerGroups": len(service.tables.groups.configs.all),
            "connections": len(self._server.connections),
            "parkedPulls": service.delivery.pulls.held_count,
            "logEndOffset": store.max_physical_offset,
            "logDurableOffset": store.durable_offset,
            "diskUsedRatio": None if self.disk is None else round(self.disk.used_ratio, 4),
            "quarantineBytes": store.quarantine_size,
            "recovery": {
                "cutBytes": recovery_report.cut_size,
                "lostBytes": recovery_report.lost_size,
                "unplacedRecords": recovery_report.unplaced_count,
                "rebuiltQueues": len(recovery_report.rebuilt),
            },
            "fileLimit": descriptor_limit(),
            "memory": memory_used(),
            "memoryLimit": self.process_stats.memory_limit,
            "loopLagMs": round(self.process_stats.last_lag_ms, 3),
        }


def _told_of(recovery_report: RecoveryReport) -> list[str]:
    """Return in words what the last start met that a good store does not have, besides what it has cut."""
    said = []
    if recovery_report.lost_size:
        said.append(
            f"the last start went on without {recovery_report.lost_size} bytes of the CommitLog, as it was told to"
        )
    if recovery_report.unplaced_count:
        said.append(f"the last start found {recovery_report.unplaced_count} records that belong to no consume queue")
    if recovery_report.rebuilt:
        topic, queue_id = recovery_report.rebuilt[0]
        said.append(
            f"the last start rebuilt {len(recovery_report.rebuilt)} consume queues, first {topic} queue {queue_id}"
        )
    return said
