"""The messages of a pull as their consumer is to see them: decoded, and filtered by the text of their tags. Pure.

Source: Java PullAPIWrapper.processPullResult.
"""

from __future__ import annotations

from dataclasses import replace

from orbitmq.client.consume.pull.logical_records import logical_records
from orbitmq.client.consume.subscriptions import wants
from orbitmq.model.group import Subscription
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.messages.record import iter_records, to_stored_message


def decode_messages(
    records: bytes, queue: MessageQueue, subscription: Subscription, offset_delta: int | None = None
) -> list[StoredMessage]:
    """Return the messages that `subscription` wants, of whole records back to back.

    Args:
        offset_delta: from a record's offset to the one in its logical queue; None for a plain queue.
    """
    found = iter_records(logical_records(records, queue, offset_delta))
    messages = [to_stored_message(record, queue.broker_name) for record in found]
    if subscription.tags:
        messages = [message for message in messages if wants(subscription, message.tag)]
    if queue.topic.startswith(RETRY_PREFIX):
        messages = [_as_sent(message) for message in messages]
    return messages


def _as_sent(message: StoredMessage) -> StoredMessage:
    """Return a message from the retry topic under the topic it was sent to."""
    topic = message.properties.get(PropertyName.RETRY_TOPIC)
    return replace(message, topic=topic) if topic else message
