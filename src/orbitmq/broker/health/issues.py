"""The issues that make a broker unhealthy, and those that make it unready. Pure: what is known comes in.

Source: the same rules stand in `deploy/prometheus/broker.rules.yml` for Prometheus; names and thresholds are kept equal by
a test.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orbitmq.broker.replication.group_members import GroupMembers
from orbitmq.monitoring.alerts import Alert
from orbitmq.store.values import StoreIssue, StoreIssueKind


class BrokerAlertRule(StrEnum):
    """The names of the rules, as Prometheus shows them."""

    STORE_FENCED = "RocketmqBrokerStoreFenced"
    DISK_HANGS = "RocketmqBrokerDiskHangs"
    UNSYNCED = "RocketmqBrokerFilesUnsynced"
    CHECKPOINT_UNSAVED = "RocketmqBrokerCheckpointUnsaved"
    FILES_UNDELETED = "RocketmqBrokerFilesUndeleted"
    RECOVERY_CUT = "RocketmqBrokerRecoveryCut"
    DISK_FULL = "RocketmqBrokerDiskFull"
    DISK_NEARLY_FULL = "RocketmqBrokerDiskNearlyFull"
    NO_NAME_SERVER = "RocketmqBrokerNoNameServer"
    MEMBER_MISSING = "RocketmqBrokerMemberMissing"
    FEW_MEMBERS = "RocketmqBrokerFewMembers"


RULES = {
    StoreIssueKind.FENCED: BrokerAlertRule.STORE_FENCED,
    StoreIssueKind.DISK_HANGS: BrokerAlertRule.DISK_HANGS,
    StoreIssueKind.UNSYNCED: BrokerAlertRule.UNSYNCED,
    StoreIssueKind.CHECKPOINT_UNSAVED: BrokerAlertRule.CHECKPOINT_UNSAVED,
    StoreIssueKind.UNDELETED: BrokerAlertRule.FILES_UNDELETED,
    StoreIssueKind.QUARANTINE: BrokerAlertRule.RECOVERY_CUT,
    StoreIssueKind.DISK_FULL: BrokerAlertRule.DISK_FULL,
}
"""The rules about the store. An issue that is not among them is a warning."""
READ_ONLY = frozenset((StoreIssueKind.FENCED, StoreIssueKind.DISK_FULL, StoreIssueKind.CLOSED))
"""Issues that a short wait does not end: a broker that has one is not ready."""
_LIST_FAILURE = "the list of NameServers cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """What is known of a broker at one moment.

    Args:
        disk_used_ratio: how much of the disk is used, 0 to 1; None: unknown.
        disk_ratio_max: above it messages are deleted that have not expired (diskSpaceCleanForciblyRatio).
        name_servers: those that are to be told of the broker.
        told: those of them that know it.
        unreachable: those of them that did not answer the last time.
        list_failure: why the file or the address server with the list of NameServers could not be read; None: it could.
        announced_failure: why the address that clients are told cannot be reached; None: it can, or it is not checked yet.
        members: of the master of a controlled group.
    """

    issues: Sequence[StoreIssue] = ()
    disk_used_ratio: float | None = None
    disk_ratio_max: float = 1.0
    name_servers: Sequence[str] = ()
    told: Sequence[str] = ()
    unreachable: Sequence[str] = ()
    list_failure: str | None = None
    announced_failure: str | None = None
    members: GroupMembers | None = None

    def alerts(self) -> Iterator[Alert]:
        """Yield the rules that hold."""
        for issue in self.issues:
            if issue.kind in RULES:
                yield Alert(RULES[issue.kind], issue.reason)
        ratio = self.disk_used_ratio
        if ratio is not None and ratio > self.disk_ratio_max:
            yield Alert(
                BrokerAlertRule.DISK_NEARLY_FULL,
                f"{ratio:.1%} of the disk are used: above {self.disk_ratio_max:.0%} messages go before their time",
            )
        if self.name_servers and len(self.unreachable) == len(self.name_servers):
            yield Alert(BrokerAlertRule.NO_NAME_SERVER, f"no NameServer can be reached: {', '.join(self.unreachable)}")
        if self.list_failure is not None and not self.name_servers:
            yield Alert(BrokerAlertRule.NO_NAME_SERVER, f"no NameServer is known, {_LIST_FAILURE}: {self.list_failure}")
        if self.members is not None and self.members.issue is not None:
            rule = BrokerAlertRule.FEW_MEMBERS if self.members.lacking else BrokerAlertRule.MEMBER_MISSING
            yield Alert(rule, self.members.issue, is_warning=not self.members.lacking)

    def warnings(self) -> Iterator[str]:
        """Yield what an operator should know besides."""
        yield from (issue.reason for issue in self.issues if issue.kind not in RULES)
        if 0 < len(self.unreachable) < len(self.name_servers):
            yield f"NameServers cannot be reached: {', '.join(self.unreachable)}"
        if self.list_failure is not None and self.name_servers:
            yield f"{_LIST_FAILURE}, the last one stays in use: {self.list_failure}"
        if self.announced_failure is not None:
            yield self.announced_failure

    def unready(self) -> Iterator[str]:
        """Yield why clients should not be sent here."""
        yield from (issue.reason for issue in self.issues if issue.kind in READ_ONLY)
        if self.name_servers and not self.told:
            yield f"no NameServer has taken the registration: {', '.join(self.name_servers)}"
        if self.list_failure is not None and not self.name_servers:
            yield f"no NameServer is known, {_LIST_FAILURE}: {self.list_failure}"
