"""Tag expressions such as `A || B`: how they become subscriptions, and which tags they want.

Pure. Source: Java FilterAPI.buildSubscriptionData.
"""

from __future__ import annotations

from orbitmq.errors import InvalidArgument
from orbitmq.model.group import SUBSCRIBE_ALL, Subscription
from orbitmq.model.topic import check_name
from orbitmq.wire.messages.tags import tag_code


def parse_subscription(topic: str, expression: str | None, version: int) -> Subscription:
    """Return the subscription to `topic` that a tag expression means.

    Args:
        expression: `*` (or nothing) for every message, one tag, or several joined by `||`.
        version: when the subscription was made, in ms; a broker keeps the newest.

    Raises:
        InvalidArgument: the expression holds no tag.
    """
    check_name("topic", topic)
    if not expression or expression.strip() == SUBSCRIBE_ALL:
        return Subscription(topic=topic, version=version)
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    if not tags:
        raise InvalidArgument("tag", expression, "'*', a tag, or tags joined by '||'")
    return Subscription(
        topic=topic,
        expression=expression,
        tags=tags,
        tag_codes=frozenset(map(tag_code, tags)),
        version=version,
    )


def wants(subscription: Subscription, tag: str | None) -> bool:
    """True when a message with `tag` belongs to the subscription.

    Brokers compare hashes of tags, and hashes clash: so the consumer compares the texts once more.
    """
    return not subscription.tags or tag in subscription.tags
