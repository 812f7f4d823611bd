"""Templates of half messages and of messages that ask for a time: what those of one producer have in common is made once.

Both are stored with other properties than they were sent with: where they go, a half message its unique key once more, a timer its
step of time. Between two of them of one producer for one queue only the unique key and that step differ. What stands around these is
made by the slow path's own function, for the second of them: the properties of some producers differ in every message, and come
never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX, TEXTS_MAX
from orbitmq.broker.sending.answers import UNIQUE_KEY
from orbitmq.broker.timers.times import AskedTime, asked_time
from orbitmq.broker.transactions.messages import Ending, plain_ending
from orbitmq.model.message import PropertyName, SysFlag, TimerProperty
from orbitmq.model.topic import HALF_TOPIC, TIMER_TOPIC
from orbitmq.store import Draft
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import parse_properties

_KEY_SIZE_MAX = 64
_NAME = UNIQUE_KEY + b"\x01"
_HALF_KEYS = 2
"""UNIQ_KEY, and the id of the transaction."""
_STEP_NAME = b"\x02" + TimerProperty.OUT_MS.encode() + b"\x01"
_UNUSUAL = TimerProperty.DELETE_KEY, PropertyName.LMQ_QUEUES
"""Their names: what messages with one of these ask for is looked at each time."""

T = TypeVar("T")

SpecialMessage = Callable[[Draft], Draft | None]
"""The slow path's: the stored form of a message that asks for something special, None where it refuses."""
_Around = tuple[str, int, bytes, bytes]
"""A topic, a queue, and the properties as they are sent before the unique key and behind it."""


class KeyedTemplates(Generic[T]):
    """The templates that were made before.

    Args:
        make: returns the template of a message and its unique key, None where it has none.
    """

    def __init__(self, make: Callable[[Draft, bytes], T | None]) -> None:
        self._make = make
        self._templates: dict[_Around, T | None] = {}
        """None: they have none."""
        self._seen: set[_Around] = set()
        """They came once."""

    def find(self, draft: Draft, key: bytes) -> T | None:
        """Return the template of a message, None where it has to be looked at.

        Args:
            draft: the message as it was sent.
            key: its unique key, a plain word that is not empty.
        """
        before, _, behind = draft.properties.partition(key)
        around = draft.topic, draft.queue_id, before, behind
        template = self._templates.get(around)
        if template is None and around not in self._templates:
            template = self._learn(draft, around, key)
        return template if template is not None and len(key) <= _KEY_SIZE_MAX else None

    def _learn(self, draft: Draft, around: _Around, key: bytes) -> T | None:
        _, _, before, behind = around
        if around not in self._seen:
            if len(self._seen) >= TEXTS_MAX:
                self._seen.clear()
            if len(before) + len(behind) <= TEXT_SIZE_MAX:
                self._seen.add(around)
            return None
        if len(self._templates) >= TEXTS_MAX:
            self._templates.clear()
        # The key has to stand where the unique key does, and nowhere else: then so does that of the next message.
        is_alone = (before == _NAME or before.endswith(b"\x02" + _NAME)) and behind.startswith(b"\x02")
        is_plain = is_alone and key not in behind and _NAME not in behind
        template = self._templates[around] = self._make(draft, key) if is_plain else None
        return template


class HalfTemplate(NamedTuple):
    """The stored properties of half messages around their unique keys, and their tag's code."""

    pieces: tuple[bytes, ...]
    tag_code: int
    ending: Ending | None
    """What all of them say of their end; None: each has to be looked at then."""

    def fill(self, sent: Draft, key: bytes) -> Draft:
        """Return the stored form of a half message that has this form."""
        sys_flag = sent.sys_flag & ~SysFlag.TRANSACTION_MASK
        half = (
            HALF_TOPIC, 0, sent.body, key.join(self.pieces), sent.flag, sys_flag, sent.born_at_ms, sent.born_host, 0, 0,
            self.tag_code,
        )  # fmt: skip
        return tuple.__new__(Draft, half)  # a named tuple's own constructor is a Python function


class TimerTemplate(NamedTuple):
    """The stored properties of timers around their unique keys and their steps of time."""

    asked: AskedTime
    before: bytes
    between: bytes
    behind: bytes
    tag_code: int

    def fill(self, sent: Draft, key: bytes, due_ms: int) -> Draft:
        """Return the stored form of a message that has this form and is due at a step."""
        waiting = (
            TIMER_TOPIC, 0, sent.body, b"%b%b%b%d%b" % (self.before, key, self.between, due_ms, self.behind), sent.flag,
            sent.sys_flag, sent.born_at_ms, sent.born_host, 0, 0, self.tag_code,
        )  # fmt: skip
        return tuple.__new__(Draft, waiting)  # a named tuple's own constructor is a Python function


def half_templates(special_message: SpecialMessage) -> KeyedTemplates[HalfTemplate]:
    """Return the templates of half messages."""

    def make(draft: Draft, key: bytes) -> HalfTemplate | None:
        waiting = special_message(draft)
        if waiting is None or waiting.topic != HALF_TOPIC:
            return None
        pieces = tuple(waiting.properties.split(key))
        if len(pieces) != _HALF_KEYS + 1:
            return None
        tag_code = tag_code_of(HALF_TOPIC, waiting.properties, 0)
        return HalfTemplate(pieces, tag_code, plain_ending(waiting.properties))

    return KeyedTemplates(make)


def timer_templates(special_message: SpecialMessage) -> KeyedTemplates[TimerTemplate]:
    """Return the templates of messages that ask for a time."""

    def make(draft: Draft, key: bytes) -> TimerTemplate | None:
        waiting = special_message(draft)
        if waiting is None or waiting.topic != TIMER_TOPIC:
            return None
        properties = parse_properties(waiting.properties)
        pieces, steps = waiting.properties.split(key), waiting.properties.split(_STEP_NAME)
        if len(pieces) != 2 or len(steps) != 2 or any(name in properties for name in _UNUSUAL):
            return None
        step_size = len(properties[TimerProperty.OUT_MS])
        # What a timer waits for stands behind its own properties.
        between = pieces[1][: -len(steps[1])]
        return TimerTemplate(
            asked_time(properties), pieces[0], between, steps[1][step_size:], tag_code_of("", waiting.properties, 0)
        )

    return KeyedTemplates(make)
