"""Tag expressions such as `A || B`, and SQL92 expressions: how they become subscriptions, and which tags they want.

Pure. Source: Java FilterAPI.buildSubscriptionData.
"""

from __future__ import annotations

from orbitmq.errors import InvalidArgument
from orbitmq.filter import check_sql92
from orbitmq.model.group import SQL92, SUBSCRIBE_ALL, Subscription
from orbitmq.model.topic import check_name
from orbitmq.wire.messages.properties import tag_code


def subscribe(topic: str, tag: str | None, sql: str | None, version: int) -> Subscription:
    """Return the subscription to `topic` that a user asks for: by tags, or by an expression.

    Args:
        tag: as `parse_subscription` takes it; `*` or nothing next to an expression.
        sql: an SQL92 expression over properties, such as `price > 10 AND region IN ('eu', 'us')`.
        version: when the subscription was made, in ms; a broker keeps the newest.

    Raises:
        InvalidArgument: there are both; or one of them is wrong: InvalidExpression says where.
    """
    if sql is None:
        return parse_subscription(topic, tag, version)
    if tag is not None and not (isinstance(tag, str) and tag.strip() in ("", SUBSCRIBE_ALL)):
        raise InvalidArgument("sql", sql, f"nothing next to the tag {tag!r}: write TAGS = '...' into the expression")
    check_name("topic", topic)
    if not isinstance(sql, str):
        raise InvalidArgument("sql", sql, f"text, not {type(sql).__name__}: an SQL92 expression over properties")
    check_sql92(sql)
    return Subscription(topic=topic, expression=sql, expression_type=SQL92, version=version)


def parse_subscription(topic: str, expression: str | None, version: int) -> Subscription:
    """Return the subscription to `topic` that a tag expression means.

    Args:
        expression: `*` (or empty) for every message, one tag, or several joined by `||`.
        version: when the subscription was made, in ms; a broker keeps the newest.

    Raises:
        InvalidArgument: there is no expression, or none that holds a tag that a message can have.
    """
    check_name("topic", topic)
    # None is mostly a setting that is missing: not a wish for every message.
    if not isinstance(expression, str):
        raise InvalidArgument("tag", expression, "text: '*' for every message, a tag, or tags joined by '||'")
    if expression.strip() in ("", SUBSCRIBE_ALL):
        return Subscription(topic=topic, version=version)
    tags = frozenset(tag for part in expression.split("||") if (tag := part.strip()))
    # No message ever has such a tag: several tags, or an expression, were meant.
    if not tags or any(strange in tag for tag in tags for strange in (",", " ")):
        raise InvalidArgument("tag", expression, "'*', a tag, or tags joined by '||'; expressions are given as sql=")
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
