"""Deletion on request: files of messages that are gone (306, 329), queues of topics that are (316).

Source: Java AdminBrokerProcessor.
"""

from __future__ import annotations

import logging

from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, StoreUnavailable
from orbitmq.model.topic import LMQ_PREFIX, is_reserved_topic
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers import CleanExpiredConsumeQueues, CleanUnusedTopics, DeleteExpiredCommitLog

log = logging.getLogger(__name__)


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(CleanExpiredConsumeQueues)
def clean_expired_consume_queues(broker: BrokerService, call: Call[CleanExpiredConsumeQueues]) -> Reply:
    """Begin to delete the files of consume queues from which nothing leads into the log any more.

    A queue's last file stays, unlike in Java: a queue without files would give its offsets a second time.
    """
    broker.store.retention.clean_queues_soon()
    return Reply()


@handlers.on(DeleteExpiredCommitLog)
def delete_expired_commit_log(broker: BrokerService, call: Call[DeleteExpiredCommitLog]) -> Reply:
    """Begin to delete what has expired, whatever the hour."""
    broker.store.retention.delete_soon()
    return Reply()


@handlers.on(CleanUnusedTopics)
def clean_unused_topics(broker: BrokerService, call: Call[CleanUnusedTopics]) -> Reply:
    """Delete the consume queues of topics that are not in the table."""
    for topic in broker.store.topics():
        if (
            broker.tables.topics.get(topic) is None
            and not is_reserved_topic(topic)
            and not topic.startswith(LMQ_PREFIX)
        ):
            log.warning("deleting the consume queues of %s, a topic that is not in the table", topic)
            try:
                broker.store.delete_topic(topic)
            except StoreUnavailable as error:
                raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, str(error)) from error
            broker.delivery.pulls.answer_topic(topic)
    return Reply()
