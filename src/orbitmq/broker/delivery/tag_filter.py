"""Tag filters: the codes of the tags that a subscription names."""

from __future__ import annotations

from functools import lru_cache

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.group import SUBSCRIBE_ALL
from orbitmq.wire.messages.properties import tag_code

_BLANKS = "".join(map(chr, range(33)))
"""What Java's String.trim takes away."""


@lru_cache(maxsize=4096)
def parse_tag_codes(expression: str) -> frozenset[int] | None:
    """Return the codes of the tags in `a || b`, None for every message, none at all where blanks are the only tags.

    Raises:
        Rejected: 23, nothing but separators.
    """
    if expression in ("", SUBSCRIBE_ALL):
        return None
    parts = expression.split("||")
    if not any(parts):
        raise Rejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
    return frozenset(tag_code(tag) for part in parts if (tag := part.strip(_BLANKS)))
