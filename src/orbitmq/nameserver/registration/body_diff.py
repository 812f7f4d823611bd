"""Which topics differ between two registrations of one broker, found without parsing what is equal. Pure.

A broker that creates one topic sends all of them. The bytes before and after the difference are equal; what lies between is
widened to whole entries of the topic table, and only these are parsed.

That is exact because of three checks. The earlier body was parsed in full, and it is `plain`: no brace stands inside a
text, so that counting braces tells the depth at any place. The equal part before the difference ends between two entries
of the table (depth one), and the equal part after it begins there. And what lies between is, on both sides, a list of
entries with as many braces as entries. So the later body is the earlier one with some entries exchanged.
"""

from __future__ import annotations

from typing import Any

import orjson

from orbitmq.wire.bodies.topic_table import RegisteredTopic, parse_registered_topics

HEAD = b',"topicConfigTable":{'
TAIL = b'},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
"""How the part behind the DataVersion begins and ends at Java brokers and ours without static topics."""

_ATTRIBUTES = b'"attributes":{'
_CHUNK_SIZE = 4096
_TRIES_MAX = 8
DIFFERENCE_SIZE_MAX = 64 * 1024
"""Bytes of entries that are worth comparing; what differs by more is parsed as a whole, in slices."""

Entries = dict[str, dict[str, Any]]


def is_plain(rest: bytes, topic_count: int) -> bool:
    """Tell whether a parsed body's part behind the DataVersion has its usual frame, and no braces in texts.

    Args:
        topic_count: how many topics the parser found.
    """
    if not (rest.startswith(HEAD) and rest.endswith(TAIL)):
        return False
    # The table, two empty maps, and one object per topic and per attributes: whatever is more stands in a text.
    opened = rest.count(b"{")
    return opened == 3 + topic_count + rest.count(_ATTRIBUTES) and rest.count(b"}") == opened + 2


def find_difference(old: bytes, new: bytes) -> dict[str, RegisteredTopic] | None:
    """Return the topics that `new` adds or changes; None when that cannot be told without parsing all of it.

    Args:
        old: a plain part behind the DataVersion.
        new: what came in its place; nothing is known of it.
    """
    if not (new.startswith(HEAD) and new.endswith(TAIL)):
        return None
    first = _common_prefix_size(old, new)
    last = _common_suffix_size(old, new, min(len(old), len(new)) - first)
    if max(len(old), len(new)) - first - last > DIFFERENCE_SIZE_MAX:
        return None
    start = _entry_start(old, first)
    for end in _entry_ends(old, len(old) - last):
        entries = _entries(old[start:end]), _entries(new[start : end + len(new) - len(old)])
        if None not in entries:
            break
    else:
        return None
    before, after = entries
    assert before is not None and after is not None, "both were looked at"  # noqa: PT018
    if old[:start].count(b"{") - old[:start].count(b"}") != 1 or before.keys() - after.keys():
        return None
    try:
        return parse_registered_topics({topic: entry for topic, entry in after.items() if before.get(topic) != entry})
    except TypeError:
        return None


def _entry_start(body: bytes, place: int) -> int:
    """Return where the entry begins that `place` lies in, as far as the nearest end of an entry before it tells."""
    while True:
        place = body.rfind(b'},"', 0, place)
        if place < 0:
            return len(HEAD)
        if body.rfind(_ATTRIBUTES, 0, place + 1) <= body.rfind(b"}", 0, place):
            return place + 2


def _entry_ends(body: bytes, place: int) -> list[int]:
    """Return where entries may end from `place` on, nearest first."""
    ends: list[int] = []
    place = body.find(b"}", max(place - 1, len(HEAD)))
    while place >= 0 and len(ends) < _TRIES_MAX and place < len(body) - len(TAIL):
        ends.append(place + 1)
        place = body.find(b"}", place + 1)
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
    size = min(len(one), len(other))
    place = 0
    while place < size and one[place : place + _CHUNK_SIZE] == other[place : place + _CHUNK_SIZE]:
        place += _CHUNK_SIZE
    low, high = place, min(place + _CHUNK_SIZE, size)
    while low < high:  # the first difference is in low..high, high meaning none
        middle = (low + high + 1) // 2
        if one[place:middle] == other[place:middle]:
            low = middle
        else:
            high = middle - 1
    return min(low, size)


def _common_suffix_size(one: bytes, other: bytes, size_max: int) -> int:
    place = 0
    while place < size_max and _last(one, place, _CHUNK_SIZE) == _last(other, place, _CHUNK_SIZE):
        place += _CHUNK_SIZE
    low, high = place, min(place + _CHUNK_SIZE, size_max)
    while low < high:
        middle = (low + high + 1) // 2
        if _last(one, place, middle - place) == _last(other, place, middle - place):
            low = middle
        else:
            high = middle - 1
    return min(low, size_max)


def _last(body: bytes, skip: int, size: int) -> bytes:
    """Return `size` bytes that end `skip` before the end."""
    end = len(body) - skip
    return body[max(end - size, 0) : max(end, 0)]
