"""Administration: every administrative call, typed."""

from orbitmq.admin.brokers.traffic import Traffic
from orbitmq.admin.client import AdminClient
from orbitmq.admin.groups.values import GroupStatus, QueueLag, QueueReset, ResetTo
from orbitmq.admin.topics.values import TopicChange

__all__ = ["AdminClient", "GroupStatus", "QueueLag", "QueueReset", "ResetTo", "TopicChange", "Traffic"]
