"""The topics in which two registrations of one broker differ, found without parsing what is equal. Pure.

A broker that creates one topic sends all of them. The bytes before and after the difference are equal; what lies between is
widened to whole entries of the topic table, and only these are parsed:

    old   ,"topicConfigTable":{"a":{...},"b":{..."perm":6...},"c":{...}},"topicQueueMapping...
    new   ,"topicConfigTable":{"a":{...},"b":{..."perm":4...},"c":{...}},"topicQueueMapping...
                                                      ^ differs
                               |<- whole entries ->|

That is exact because of three checks. The earlier body was parsed in full, and it is `plain`: no brace stands inside a
text, and objects are the table, its entries, their attributes, and the two empty maps behind the table. So a brace that closes no
attributes closes an entry, and the equal part before the difference ends behind one. And what lies between is, on both
sides, a list of entries with as many braces as entries. So the later body is the earlier one with some entries exchanged.
"""

from __future__ import annotations

from typing import Any

import orjson

from orbitmq.wire.bodies.topic_table import RegisteredTopic, parse_registered_topics

HEAD = b',"topicConfigTable":{'
TAIL = b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
"""How the part after the DataVersion begins and ends at Java brokers and ours without static topics."""
DIFFERENCE_SIZE_MAX = 64 * 1024
"""Bytes of entries that are worth comparing; what differs by more is parsed as a whole, in slices."""

VERSION_KEY = b'"dataVersion":'
"""What stands before a body's DataVersion, and nowhere else in a body whose differences are looked for."""
_ATTRIBUTES = b':{"attributes":{'
"""How an entry with attributes begins: nothing else contains it but a first topic of that name, which is not plain."""
_CHUNK_SIZE = 4096
_TRIES_MAX = 8

Entries = dict[str, dict[str, Any]]


def is_plain(part: bytes, topic_count: int) -> bool:
    """Return True if a parsed body's part after the DataVersion has its usual frame, and no braces in texts.

    Args:
        topic_count: how many topics the parser found.
    """
    if not _has_usual_frame(part):
        return False
    # The table, two empty maps, and one object per topic and per attributes: whatever is more stands in a text.
    opened = part.count(b"{")
    return opened == 3 + topic_count + part.count(_ATTRIBUTES) and part.count(b"}") == opened + 2


def find_difference(old: bytes, new: bytes) -> dict[str, RegisteredTopic] | None:
    """Return the topics that `new` adds or changes; None when that cannot be told without parsing all of it.

    Args:
        old: a plain part after the DataVersion.
        new: the same part of the next body; nothing is known of it.
    """
    if not _has_usual_frame(new):
        return None
    prefix_size = _common_prefix_size(old, new)
    suffix_size = _common_suffix_size(old, new, min(len(old), len(new)) - prefix_size)
    if max(len(old), len(new)) - prefix_size - suffix_size > DIFFERENCE_SIZE_MAX:
        return None
    start = _entry_start(old, prefix_size)
    # The nearest brace may close a map of attributes and not an entry: only parsing both sides tells.
    for end in _entry_ends(old, len(old) - suffix_size):
        entries = _entries(old[start:end]), _entries(new[start : end + len(new) - len(old)])
        if None not in entries:
            break
    else:
        return None
    before, after = entries
    assert before is not None and after is not None, "both were looked at"  # noqa: PT018
    # A topic, or an attribute, with the name of the DataVersion: which of them counts is for the parser to say.
    has_version_key = VERSION_KEY in new[start : end + len(new) - len(old)]
    if has_version_key or before.keys() - after.keys():
        return None
    try:
        return parse_registered_topics({topic: entry for topic, entry in after.items() if before.get(topic) != entry})
    except (TypeError, ValueError):
        return None


def _has_usual_frame(part: bytes) -> bool:
    is_first_named_attributes = part.startswith(_ATTRIBUTES, len(HEAD) - 2)
    return part.startswith(HEAD) and part.endswith(TAIL) and not is_first_named_attributes


def _entry_start(body: bytes, position: int) -> int:
    """Return where the entry begins that `position` lies in."""
    # `},"` ends an entry, or the map of attributes in it: then no other brace has closed since the map was opened.
    while True:
        position = body.rfind(b'},"', 0, position)
        if position < 0:
            return len(HEAD)
        if body.rfind(_ATTRIBUTES, 0, position + 1) <= body.rfind(b"}", 0, position):
            return position + 2


def _entry_ends(body: bytes, position: int) -> list[int]:
    """Return where entries may end from `position` on, nearest first."""
    ends: list[int] = []
    position = body.find(b"}", max(position - 1, len(HEAD)))
    while position >= 0 and len(ends) < _TRIES_MAX and position < len(body) - len(TAIL):
        ends.append(position + 1)
        position = body.find(b"}", position + 1)
    return ends


def _entries(part: bytes) -> Entries | None:
    """Parse whole entries of a topic table; None when the part is anything else."""
    try:
        found = orjson.loads(b"{" + part + b"}")
    except orjson.JSONDecodeError:
        return None
    opened = part.count(b"{")
    if opened != len(found) + part.count(_ATTRIBUTES) or part.count(b"}") != opened:
        return None
    return found if found and all(isinstance(entry, dict) and "perm" in entry for entry in found.values()) else None


def _common_prefix_size(one: bytes, other: bytes) -> int:
    # Chunks first and then halves: both compare in C, which is a hundred times as fast as a loop over bytes.
    size = min(len(one), len(other))
    position = 0
    while position < size and other.startswith(one[position : min(position + _CHUNK_SIZE, size)], position):
        position += _CHUNK_SIZE
    low, high = position, min(position + _CHUNK_SIZE, size)
    while low < high:  # the first difference is in low..high, high meaning none
        middle = (low + high + 1) // 2
        if other.startswith(one[position:middle], position):
            low = middle
        else:
            high = middle - 1
    return min(low, size)


def _common_suffix_size(one: bytes, other: bytes, size_max: int) -> int:
    end, other_end = len(one), len(other)
    position = 0
    while position < size_max and other.endswith(
        one[end - min(position + _CHUNK_SIZE, size_max) : end - position], 0, other_end - position
    ):
        position += _CHUNK_SIZE
    low, high = position, min(position + _CHUNK_SIZE, size_max)
    while low < high:
        middle = (low + high + 1) // 2
        if other.endswith(one[end - middle : end - position], 0, other_end - position):
            low = middle
        else:
            high = middle - 1
    return min(low, size_max)
