"""Tag filters: the codes of the tags that a subscription names."""

from __future__ import annotations

from functools import lru_cache

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import SUBSCRIBE_ALL
from orbitmq.wire.messages.tags import tag_code


@lru_cache(maxsize=4096)
def parse_tag_codes(expression: str) -> frozenset[int] | None:
    """Return the codes of the tags in `a || b`, None for every message.

    Raises:
        Rejected: 23, an expression without a tag.
    """
    if expression.strip() in ("", SUBSCRIBE_ALL):
        return None
    tags = {tag.strip() for tag in expression.split("||")} - {""}
    if not tags:
        raise Rejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return frozenset(map(tag_code, tags))
