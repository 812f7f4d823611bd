"""Attributes of topics as requests change them: `+key=value,-key`.

Source: Java AttributeParser, AttributeUtil, TopicAttributes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import RESERVE_TIME

MESSAGE_TYPE = "message.type"
MIXED = "MIXED"
PRIORITY = "PRIORITY"
_ALLOWED = {
    "queue.type": re.compile("BatchCQ|SimpleCQ"),
    "cleanup.policy": re.compile("DELETE|COMPACTION"),
    MESSAGE_TYPE: re.compile("UNSPECIFIED|NORMAL|FIFO|DELAY|TRANSACTION|PRIORITY|MIXED"),
    RESERVE_TIME: re.compile(r"[+-]?[0-9]{1,19}"),
}
_RESERVE_TIMES = range(-1, 2**63)
_MISSING = {
    "queue.type": ("BatchCQ", "its consume queues have one entry per message, and batch consume queues are not built"),
    "cleanup.policy": ("COMPACTION", "its messages are deleted by their age alone"),
}
"""Values that Java takes, and what is missing here: a topic that only seems to have them would lose what was meant."""
_NEWER_TYPES = {"LITE": "5.5"}
"""Types of messages, and the version of RocketMQ that has them first (RIP-83)."""
_FIXED = {"queue.type", "cleanup.policy"}
"""Attributes that are set when a topic is created, or never."""


def parse_attribute_changes(text: str | None) -> dict[str, str]:
    """Parse `+key=value,-key` into {"+key": "value", "-key": ""}. Nothing may stand around the signs, as in Java.

    Raises:
        Rejected: 1, a part is neither of the two, or stands twice.
    """
    changes: dict[str, str] = {}
    named = (text or "").rstrip(",")
    for part in named.split(",") if named else ():
        key, separator, value = part.partition("=")
        if key[:1] != ("+" if separator else "-") or len(key) < 2:
            raise _refused(f"{part!r:.80}, expected +key=value or -key")
        if key in changes:
            raise _twice(key)
        changes[key] = value
    return changes


def wants_mixed_messages(changes: Mapping[str, str]) -> bool:
    """Return True if a topic shall take messages of every type."""
    return changes.get(f"+{MESSAGE_TYPE}") == MIXED


def apply_attribute_changes(attributes: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return `attributes` with the changes made; those of a new topic are None.

    Raises:
        Rejected: 1, a topic has no such attribute, or not with this value, or it cannot be changed, or it is not there, or
            it is to be added and taken away.
    """
    kept, named = dict(attributes or {}), set[str]()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if sign not in ("+", "-"):
            raise _refused(f"{key!r:.80}, expected +{key:.80} or -{key:.80}")
        if name in named:
            raise _twice(key)
        named.add(name)
        allowed = _ALLOWED.get(name)
        if allowed is None:
            raise _refused(f"{name!r:.80} is none of {', '.join(_ALLOWED)}")
        if sign == "-" and name not in kept:
            raise _refused(f"{name} cannot be taken away: it is not there")
        if attributes is not None and name in _FIXED:
            raise _refused(f"{name} cannot be changed")
        if sign == "-":
            del kept[name]
        elif name == MESSAGE_TYPE and value in _NEWER_TYPES:
            version = _NEWER_TYPES[value]
            raise _refused(
                f"{name}={value} needs a broker of RocketMQ {version} or later; this one does what 5.3.3 does"
            )
        elif allowed.fullmatch(value) is None or (name == RESERVE_TIME and int(value) not in _RESERVE_TIMES):
            raise _refused(f"{name} is {value!r:.80}, expected {allowed.pattern}")
        elif name in _MISSING and value == _MISSING[name][0]:
            raise _refused(f"{name}={value} is not supported by this broker: {_MISSING[name][1]}")
        else:
            kept[name] = value
    return kept


def missing_attribute(attributes: Mapping[str, str]) -> str | None:
    """Return the attribute of a topic that a Java broker made, and that has no effect here, as `name=value`; or None."""
    for name, (value, _) in _MISSING.items():
        if attributes.get(name) == value:
            return f"{name}={value}"
    return None


def _twice(key: str) -> Rejected:
    return _refused(f"{key[1:]!r:.80} stands there twice")


def _refused(what: str) -> Rejected:
    return Rejected(ResponseCode.SYSTEM_ERROR, f"attributes: {what}")
