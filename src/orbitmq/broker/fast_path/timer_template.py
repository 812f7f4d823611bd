"""Templates of messages that ask for a time: what those of one producer have in common is made once.

A timer is stored in the timers' queue with properties that were added to its own: its step of time, and where it goes. Between
two timers of one producer for one queue only the unique key and that step differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from orbitmq.broker.fast_path.keyed_templates import KeyedTemplates
from orbitmq.broker.timers.times import AskedTime, asked_time
from orbitmq.model.message import PropertyName, SysFlag, TimerProperty
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import parse_properties

_STEP_NAME = b"\x02" + TimerProperty.OUT_MS.encode() + b"\x01"
_UNUSUAL = TimerProperty.DELETE_KEY, PropertyName.LMQ_QUEUES
"""Their names: what messages with one of these ask for is looked at each time."""


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


class TimerTemplates:
    """The templates that were made before.

    Args:
        special_message: the slow path's: the stored form of a message that asks for something special, None where it refuses.
    """

    def __init__(self, special_message: Callable[[Draft], Draft | None]) -> None:
        self._special_message = special_message
        self._templates = KeyedTemplates(self._template_of)

    def find(self, draft: Draft, key: bytes) -> TimerTemplate | None:
        """Return the template of a timer, None where it has to be looked at.

        Args:
            draft: the message as it was sent.
            key: its unique key, a plain word that is not empty.
        """
        return None if draft.sys_flag & SysFlag.FOR_THE_BROKER else self._templates.find(draft, key)

    def _template_of(self, draft: Draft, key: bytes) -> TimerTemplate | None:
        waiting = self._special_message(draft)
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
