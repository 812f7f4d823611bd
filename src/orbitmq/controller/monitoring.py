"""The figures that Prometheus is shown of a controller, its alerts, and its health document."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import Metric

from orbitmq.codes import ResponseCode
from orbitmq.controller.service import ControllerService
from orbitmq.controller.values import CommandResult, ReplicaGroup
from orbitmq.monitoring.alerts import Alert, AlertLog
from orbitmq.monitoring.families import Families
from orbitmq.monitoring.server_metrics import ServerMetrics
from orbitmq.net.server import Server
from orbitmq.process.stats import ProcessStats
from orbitmq.raft.quorum import majority

log = logging.getLogger(__name__)

_RESULTS = {
    ResponseCode.SUCCESS: "new_master_elected",
    ResponseCode.CONTROLLER_MASTER_STILL_EXIST: "keep_current_master",
}


NAMES_MAX = 1_000
"""Groups that the health document names."""


class ControllerMonitor:
    """Observes one controller. `elections` counts them by their ends, as Java's metrics name these."""

    def __init__(self) -> None:
        self.elections: Counter[str] = Counter()
        self.process_stats = ProcessStats()
        self._alerts = AlertLog(log)

    def start(self) -> None:
        """Begin to observe the process."""
        self.process_stats.start(asyncio.get_running_loop())

    def stop(self) -> None:
        """End what `start` began."""
        self.process_stats.stop()

    def note(self, outcome: CommandResult) -> None:
        """Count the end of an election."""
        self.elections[_RESULTS.get(ResponseCode(outcome.code), "no_master_elected")] += 1

    def alerts(self, service: ControllerService) -> tuple[Alert, ...]:
        """Return the alerts that hold now."""
        found = []
        if service.consensus.leader_id is None:
            found.append(Alert("no_leader", "no controller leads: no master can be replaced"))
        elif service.consensus.is_leader and (groups := _without_master(service)):
            waits = "; ".join(_waits_of(service, group) for group in groups[:10])
            found.append(Alert("no_master", f"no master for {waits}"))
        if service.consensus.is_leader and (outside := _out_of_sync(service)):
            found.append(
                Alert("out_of_sync", f"members without all messages: {', '.join(outside[:10])}", is_warning=True)
            )
        found += service.consensus.alerts
        self._alerts.update(found)
        return self._alerts.alerts

    def health(self, service: ControllerService) -> dict[str, Any]:
        """Return how the controller is doing, as a JSON document."""
        has_leader = service.consensus.leader_id is not None
        alerts = self.alerts(service)
        return {
            "healthy": all(alert.is_warning for alert in alerts),
            "ready": has_leader,
            "notReady": [] if has_leader else ["no controller leads"],
            "needed": 1 if service.config.uses_etcd else majority(len(service.consensus.peers)),
            "isLeader": service.consensus.is_leader,
            "brokersAlive": service.liveness.count,
            "groups": sum(bool(group.replicas) for group in service.replicas.groups.values()),
            "groupNames": sorted(group.name for group in service.replicas.groups.values() if group.replicas)[
                :NAMES_MAX
            ],
            "groupsWithoutMaster": [group.name for group in _without_master(service)],
            "elections": dict(self.elections),
            "warnings": service.consensus.warnings,
            "alerts": [alert.document() for alert in alerts],
        }


class ControllerMetrics:
    """The figures of one controller."""

    def __init__(self, server: Server[Any], service: ControllerService, monitor: ControllerMonitor) -> None:
        self._make = Families("rocketmq_controller")
        self._server_metrics = ServerMetrics(self._make, server, monitor.process_stats)
        self._service = service
        self._monitor = monitor

    def collect(self) -> Iterator[Metric]:
        """Yield every figure there is now."""
        make, service = self._make, self._service
        yield make.gauge("leader", "1 at the controller that leads", service.consensus.is_leader)
        yield make.gauge("brokers_alive", "Brokers that are heard", service.liveness.count)
        text = "Groups that have had a master, and have none"
        outside = "Members outside of their sync sets: each is a copy less"
        yield make.gauge("members_out_of_sync", outside, len(_out_of_sync(service)))
        yield make.gauge("groups_without_master", text, len(_without_master(service)))
        ends = [((end,), count) for end, count in self._monitor.elections.items()]
        yield from make.counters("elections", "Elections by their ends", ("election_result",), ends)
        yield from self._server_metrics.requests()
        yield from self._server_metrics.connections()
        yield from self._server_metrics.process(self._monitor.alerts(service))


def _out_of_sync(service: ControllerService) -> list[str]:
    groups = service.replicas.groups.values()
    return [
        f"{broker_id} of {group.name}"
        for group in sorted(groups, key=lambda group: group.name)
        if group.master is not None
        for broker_id in sorted(group.replicas.keys() - group.sync_set)
    ]


def _without_master(service: ControllerService) -> list[ReplicaGroup]:
    """Return the groups that had a master and have none that lives, by name."""
    groups = service.replicas.groups.values()
    found = [group for group in groups if group.replicas and group.was_led and not service.is_led(group)]
    return sorted(found, key=lambda group: group.name)


def _waits_of(service: ControllerService, group: ReplicaGroup) -> str:
    """Return a group's name, and the members of its sync set that one of must come back, or all where those here may lack messages."""
    away = sorted(group.sync_set - service.living(group).alive.keys())
    members = ", ".join(f"{member} ({group.address_of(member)})" for member in away)
    return f"{group.name}: member {members} of its sync set is waited for" if members else group.name
