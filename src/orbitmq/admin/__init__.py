"""Administration: every administrative call, typed."""

from orbitmq.admin.client import AdminClient
from orbitmq.admin.groups import GroupStatus, QueueLag, QueueReset, ResetTo
from orbitmq.admin.stats import Traffic
from orbitmq.admin.topics import TopicChange

__all__ = ["AdminClient", "GroupStatus", "QueueLag", "QueueReset", "ResetTo", "TopicChange", "Traffic"]
