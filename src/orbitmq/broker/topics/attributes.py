"""Attributes of topics as requests change them: `+key=value,-key`.

Source: Java AttributeParser, AttributeUtil, TopicAttributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected

_ALLOWED = {
    "queue.type": re.compile("BatchCQ|SimpleCQ"),
    "cleanup.policy": re.compile("DELETE|COMPACTION"),
    "message.type": re.compile("UNSPECIFIED|NORMAL|FIFO|DELAY|TRANSACTION|MIXED"),
    "reserve.time": re.compile(r"-1|\d{1,18}"),
}
_FIXED = {"queue.type", "cleanup.policy"}
"""What a topic has from its beginning or never."""


def parse_attribute_changes(text: str | None) -> dict[str, str]:
    """Parse `+key=value,-key` into {"+key": "value", "-key": ""}.

    Raises:
        Rejected: 1, a part starts with neither sign, or a name stands twice.
    """
    changes: dict[str, str] = {}
    for part in (text or "").split(","):
        if not (part := part.strip()):
            continue
        key, _, value = part.partition("=")
        if key[0] not in "+-" or len(key) < 2:
            raise _refused(f"{part!r:.80}, expected +key=value or -key")
        if key[1:] in {known[1:] for known in changes}:
            raise _refused(f"{key[1:]!r:.80} stands there twice")
        changes[key] = value
    return changes


def apply_attribute_changes(attributes: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return `attributes` with the changes made; those of a new topic are None.

    Raises:
        Rejected: 1, a topic has no such attribute, or not with this value, or it cannot be changed, or it is not there.
    """
    kept = dict(attributes or {})
    for key, value in changes.items():
        sign, name = key[0], key[1:]
        allowed = _ALLOWED.get(name)
        if allowed is None:
            raise _refused(f"{name!r:.80} is none of {', '.join(_ALLOWED)}")
        if sign == "-" and name not in kept:
            raise _refused(f"{name} cannot be taken away: it is not there")
        if attributes is not None and name in _FIXED:
            raise _refused(f"{name} cannot be changed")
        if sign == "-":
            del kept[name]
        elif allowed.fullmatch(value):
            kept[name] = value
        else:
            raise _refused(f"{name} is {value!r:.80}, expected {allowed.pattern}")
    return kept


def _refused(what: str) -> Rejected:
    return Rejected(ResponseCode.SYSTEM_ERROR, f"attributes: {what}")
