"""Templates of waiting messages: what the properties of many timers have in common is parsed only once.

A message is read twice while it waits: when it comes into the wheel, and when it is due. Between two messages of one producer
for one queue and one step of time only the unique key differs. What stands around it is parsed and formatted for the second of
them by the functions that read any properties; the next ones are put together from it and their key.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.broker.timers.times import parse_long
from orbitmq.broker.topics.missing import destination_of
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import PropertyName, TimerProperty
from orbitmq.model.topic import SCHEDULE_TOPIC
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import format_properties, parse_properties

TEXTS_MAX = 4_096
"""Texts that are remembered; with more, all are forgotten and learnt again."""
TEXT_SIZE_MAX = 1_024
"""Bytes of properties that are looked at."""
_KEY = PropertyName.UNIQ_KEY.encode() + b"\x01"
_KEY_SIZE = len(_KEY)
_PROPERTY_END = 2
_UNUSUAL = (
    PropertyName.CRC32,
    TimerProperty.DELETE_KEY,
    TimerProperty.ENQUEUE_MS,
    TimerProperty.DEQUEUE_MS,
    TimerProperty.ROLL_TIMES,
)
"""A message with one of these takes another one back, has had a turn, or has properties that are replaced or left out."""


class WaitingTemplate(NamedTuple):
    """What waiting messages say that differ only in their unique keys."""

    due_ms: int
    topic: str
    queue_id: int
    """Where they are stored when they are due."""
    before: bytes
    """Their properties as they are stored then, before the unique key; `behind`: behind it."""
    behind: bytes
    tag_code: int

    def fill(self, key: bytes, enqueue_ms: str, dequeue_ms: int) -> bytes:
        """Return the properties of a message that is due."""
        traces = f"TIMER_ENQUEUE_MS\x01{enqueue_ms}\x02TIMER_DEQUEUE_MS\x01{dequeue_ms}\x02"
        return self.before + key + self.behind + traces.encode()


class WaitingTemplates:
    """The templates that were made before."""

    def __init__(self) -> None:
        self._templates: dict[bytes, WaitingTemplate | None] = {}
        """By the text around the unique key; None: there is none for it."""
        self._seen: set[bytes] = set()
        """Texts that came once: those of some producers differ in every message, and come never again."""

    def find(self, properties: bytes) -> tuple[WaitingTemplate, bytes] | None:
        """Return the template of a waiting message, and its unique key; None: its properties have to be parsed."""
        start = properties.find(_KEY) + _KEY_SIZE
        end = properties.find(b"\x02", start)
        if start < _KEY_SIZE or end < 0 or len(properties) > TEXT_SIZE_MAX:
            return None
        key = properties[start:end]
        if not key.isalnum():
            return None
        # Its first key's name ends where the key was cut out: two messages of one text differ in nothing else.
        text = properties[:start] + properties[end:]
        template = self._templates.get(text)
        if template is None:
            if text in self._templates:
                return None
            template = self._learn(text, properties, start, end)
        return None if template is None else (template, key)

    def _learn(self, text: bytes, properties: bytes, start: int, end: int) -> WaitingTemplate | None:
        """Make the template of a text that comes for the second time."""
        if text not in self._seen:
            if len(self._seen) >= TEXTS_MAX:
                self._seen.clear()
            self._seen.add(text)
            return None
        if len(self._templates) >= TEXTS_MAX:
            self._templates.clear()
        template = self._templates[text] = _template_of(properties, start, end)
        return template


def _template_of(encoded: bytes, start: int, end: int) -> WaitingTemplate | None:
    name_at = start - _KEY_SIZE
    if (name_at and encoded[name_at - 1] != _PROPERTY_END) or _KEY in encoded[end:]:
        return None
    try:
        properties = parse_properties(encoded)
        pieces = format_properties(properties).split(encoded[name_at : end + 1])
    except (UnicodeDecodeError, InvalidArgument):
        return None
    due_ms, destination = parse_long(properties.get(TimerProperty.OUT_MS, "")), destination_of(properties)
    is_usual = not any(name in properties for name in _UNUSUAL)
    if due_ms is None or destination is None or not is_usual or len(pieces) != 2:
        return None
    topic, queue_id = destination
    if topic == SCHEDULE_TOPIC:  # an entry there has a time in place of its tag's code
        return None
    before, behind = pieces
    return WaitingTemplate(
        due_ms, topic, queue_id, before + _KEY, b"\x02" + behind, tag_code_of(topic, behind + before, 0)
    )
