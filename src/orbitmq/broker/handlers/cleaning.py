"""Deletion on request: files of messages that are gone (306, 329), queues of topics that are (316).

Source: Java AdminBrokerProcessor.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from orbitmq.broker.delivery.pulls import Pulls
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.topic import LMQ_PREFIX, is_reserved_topic
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.store import Store
from orbitmq.wire.headers import CleanExpiredConsumeQueues, CleanUnusedTopics, DeleteExpiredCommitLog

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningTables:
    """What is cleaned, and by what it is known to be in use."""

    store: Store
    topics: TopicRegistry
    pulls: Pulls


handlers: Handlers[CleaningTables] = Handlers()


@handlers.on(CleanExpiredConsumeQueues)
def clean_expired_consume_queues(tables: CleaningTables, call: Call[CleanExpiredConsumeQueues]) -> Reply:
    """Begin to delete the files of consume queues from which nothing leads into the log any more.

    A queue's last file stays, unlike in Java: a queue without files would give its offsets a second time.
    """
    tables.store.retention.clean_queues_soon()
    return Reply()


@handlers.on(DeleteExpiredCommitLog)
def delete_expired_commit_log(tables: CleaningTables, call: Call[DeleteExpiredCommitLog]) -> Reply:
    """Begin to delete what has expired, whatever the hour."""
    tables.store.retention.delete_soon()
    return Reply()


@handlers.on(CleanUnusedTopics)
def clean_unused_topics(tables: CleaningTables, call: Call[CleanUnusedTopics]) -> Reply:
    """Delete the consume queues of topics that are not in the table."""
    for topic in tables.store.topics():
        if tables.topics.get(topic) is None and not is_reserved_topic(topic) and not topic.startswith(LMQ_PREFIX):
            log.warning("deleting the consume queues of %s, a topic that is not in the table", topic)
            try:
                tables.store.delete_topic(topic)
            except StoreUnavailable as error:
                raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
            tables.pulls.answer_topic(topic)
    return Reply()
