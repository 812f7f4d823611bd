"""The doctor: what is wrong in a cluster, ours or Java's, worst first, and what to type.

`examine(take_snapshot(...))`: one snapshot of the servers' answers, and checks that are pure functions of it.
"""

from orbitmq.doctor.checks import CHECKS, examine
from orbitmq.doctor.collecting import take_snapshot
from orbitmq.doctor.issues import Issue, Severity
from orbitmq.doctor.snapshot import Snapshot

__all__ = ["CHECKS", "Issue", "Severity", "Snapshot", "examine", "take_snapshot"]
