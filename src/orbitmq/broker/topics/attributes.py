"""Attributes of topics as requests change them: `+key=value,-key`.

Source: Java AttributeParser.
"""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected


def parse_attribute_changes(text: str | None) -> dict[str, str]:
    """Parse `+key=value,-key` into {"+key": "value", "-key": ""}.

    Raises:
        Rejected: 29, a part starts with neither sign.
    """
    changes: dict[str, str] = {}
    for part in (text or "").split(","):
        if not (part := part.strip()):
            continue
        key, _, value = part.partition("=")
        if key[0] not in "+-" or len(key) < 2:
            raise Rejected(ResponseCode.INVALID_PARAMETER, f"attributes: {part!r:.80}, expected +key=value or -key")
        changes[key] = value
    return changes


def apply_attribute_changes(attributes: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return `attributes` with the changes made."""
    kept = dict(attributes)
    for key, value in changes.items():
        if key.startswith("-"):
            kept.pop(key[1:], None)
        else:
            kept[key.removeprefix("+")] = value
    return kept
