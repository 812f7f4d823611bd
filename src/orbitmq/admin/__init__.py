"""Administration: every administrative call, typed."""

from orbitmq.admin.client import AdminClient
from orbitmq.admin.groups.values import GroupStatus, QueueLag, QueueReset, ResetTo

__all__ = ["AdminClient", "GroupStatus", "QueueLag", "QueueReset", "ResetTo"]
