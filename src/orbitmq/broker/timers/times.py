"""The time that a message's properties ask for, and the form in which it waits until then. Pure.

In: properties, the time. Out: a draft for the timers' topic, or why there is none. A message whose time has come already
is an ordinary one.

Source: Java HookUtils.checkIfTimerMessage, transformTimerMessage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.message import PropertyName, TimerProperty
from orbitmq.model.topic import TIMER_TOPIC
from orbitmq.store import Draft
from orbitmq.wire.messages.properties import format_properties

ASKING = (TimerProperty.DELAY_SEC, TimerProperty.DELAY_MS, TimerProperty.DELIVER_MS)
"""Properties that ask for a time; of several the first one in this order counts, as in Java."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_LONG_MAX = (1 << 63) - 1


class TimerRules(NamedTuple):
    """What a broker allows.

    Args:
        is_enabled: timerWheelEnable.
        delay_s_max: timerMaxDelaySec.
        precision_ms: timerPrecisionMs.
        slot_count_max: timerCongestNumEachSlot: messages that may be due at one step.
    """

    is_enabled: bool
    delay_s_max: int
    precision_ms: int
    slot_count_max: int


class AskedTime(NamedTuple):
    """The time that a message asks for: a delay from now, or a time of the wall clock."""

    value_ms: int
    is_delay: bool

    def at_ms(self, now_ms: int) -> int:
        """Return that time."""
        return now_ms + self.value_ms if self.is_delay else self.value_ms


def asks_for_time(properties: Mapping[str, str]) -> bool:
    """Return True if properties ask for a time. One that was delivered by a timer asks for none any more."""
    return TimerProperty.OUT_MS not in properties and any(name in properties for name in ASKING)


def without_times(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a message that asks for a delay level: where both are asked for, the level counts."""
    return {name: value for name, value in properties.items() if name not in ASKING}


def due_step_ms(properties: Mapping[str, str], rules: TimerRules, now_ms: int) -> int | None:
    """Return the step of the wheel at whose end a message is due, None when that is now.

    Raises:
        Rejected: 13, the time is not a number, too far away, or over for a message that takes another one back; 1, there
            are no timers here.
    """
    name = next(name for name in ASKING if name in properties)
    if not rules.is_enabled:
        raise Rejected(ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false")
    value = asked_time(properties).at_ms(now_ms)
    if value <= now_ms:
        if TimerProperty.DELETE_KEY in properties:
            raise _illegal(name, properties[name], "a time to come: the message takes another one back", rules)
        return None
    if value - now_ms > rules.delay_s_max * 1000:
        raise _illegal(name, properties[name], f"at most {rules.delay_s_max} s from now (timerMaxDelaySec)", rules)
    return _step_ms(value, rules)


def asked_time(properties: Mapping[str, str]) -> AskedTime:
    """Return the time that properties ask for. Raises Rejected 13 where it is not a number."""
    name = next(name for name in ASKING if name in properties)
    value = _parse(name, properties[name])
    return AskedTime(value * 1000 if name == TimerProperty.DELAY_SEC else value, name != TimerProperty.DELIVER_MS)


def step_in_time_ms(asked: AskedTime, rules: TimerRules, now_ms: int) -> int | None:
    """Return the step at whose end a message is due; None where `due_step_ms` says more of it than a step."""
    at_ms = asked.at_ms(now_ms)
    if not now_ms < at_ms <= now_ms + rules.delay_s_max * 1000 or not rules.is_enabled:
        return None
    return _step_ms(at_ms, rules)


def wait_form(draft: Draft, properties: Mapping[str, str], due_ms: int) -> Draft:
    """Return the form in which a message waits: in the timers' queue, with its own topic and queue among its properties.

    Raises:
        InvalidArgument: its properties do not fit a record.
    """
    waiting = {
        **properties,
        TimerProperty.OUT_MS: str(due_ms),
        PropertyName.REAL_TOPIC: draft.topic,
        PropertyName.REAL_QUEUE_ID: str(draft.queue_id),
    }
    return draft._replace(topic=TIMER_TOPIC, queue_id=0, properties=format_properties(waiting))


def is_congested(count: int, count_max: int, chance: float) -> bool:
    """Return True if a step has too many messages to take another one.

    Args:
        count: what it has.
        count_max: timerCongestNumEachSlot; between it and twice as many the chance to be refused grows.
        chance: 0 to 1, drawn by the caller.

    Source: Java TimerMessageStore.isReject.
    """
    if count <= count_max:
        return False
    return count >= 2 * count_max or chance < (count - count_max) / count_max


def parse_long(text: str) -> int | None:
    """Return a number as Java's `Long.parseLong` reads it, None where it reads none."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if -_LONG_MAX - 1 <= value <= _LONG_MAX else None


def _step_ms(at_ms: int, rules: TimerRules) -> int:
    # A step's messages are delivered when it is over: those of a full second come with the step before.
    return (at_ms - 1) // rules.precision_ms * rules.precision_ms


def _parse(name: str, text: str) -> int:
    value = parse_long(text)
    if value is None:
        raise Rejected(
            ResponseCode.MESSAGE_ILLEGAL,
            f"timer message illegal, {name}: {text[:80]!r} is not allowed, expected a number",
        )
    return value


def _illegal(name: str, value: str, allowed: str, rules: TimerRules) -> Rejected:
    return Rejected(
        ResponseCode.MESSAGE_ILLEGAL,
        f"timer message illegal, {name}: {value} is not allowed, expected {allowed}; "
        f"the delay time should not be bigger than the max delay {rules.delay_s_max * 1000}ms; "
        "or if set del msg, the delay time should be bigger than the current time",
    )
