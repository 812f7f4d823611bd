"""The user's function that fixes dead letters: found by its name, and what it says of each letter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from orbitmq.admin.dead_letters import ORIGIN_MESSAGE_ID, ORIGIN_TOPIC, own_properties
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.model.message import Message, PropertyName, priority_of
from orbitmq.model.topic import NAME_LENGTH_MAX, is_name, kind_of

Fix = Callable[[bytes, dict[str, str]], bytes | None]
"""Takes a letter's body and properties; returns the body to send, or None for a letter that is beyond help."""

REASON, TOPIC = "DEAD_LETTER_REASON", "DEAD_LETTER_TOPIC"
"""Properties of letters in quarantine: why, and the topic that they came from."""
BEYOND_HELP = "the function gave it up"
_REASON_LENGTH_MAX = 200


class DeadLetterRecord(NamedTuple):
    """A dead letter, as its topic has it."""

    body: bytes
    tag: str | None
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    flag: int
    decode_error: str | None = None

    @property
    def origin_topic(self) -> str | None:
        """The topic that it came from; None when nothing tells it."""
        return self.properties.get(ORIGIN_TOPIC) or self.properties.get(PropertyName.RETRY_TOPIC)

    def message(self, topic: str, body: bytes, more: Mapping[str, str] | None = None) -> Message:
        """Return the message to send: as it was once sent, with another body and further properties."""
        found = self.properties
        own = own_properties(found)
        origin_id = found.get(ORIGIN_MESSAGE_ID) or found.get(PropertyName.ORIGIN_MESSAGE_ID)
        if origin_id:
            own[ORIGIN_MESSAGE_ID] = origin_id
        key = found.get(PropertyName.SHARDING_KEY)
        return Message(
            topic,
            body,
            self.tag,
            self.keys,
            {**own, **(more or {})},
            self.flag,
            sharding_key=key,
            priority=priority_of(found),
        )


def is_user_topic(topic: str) -> bool:
    """Return True for a topic of users; letters may name any text, as their senders could write it."""
    return is_name(topic, NAME_LENGTH_MAX) and kind_of(topic) == "user"


class Fixed(NamedTuple):
    """What becomes of a letter; `reason` is why it goes to quarantine, None where it goes to its topic."""

    message: Message
    reason: str | None


def fix_letter(letter: DeadLetterRecord, fix: Fix, topics: frozenset[str], quarantine: str) -> Fixed:
    """Say what becomes of a letter.

    Args:
        topics: those that exist.
        quarantine: the topic of letters that are beyond help.

    Raises:
        InvalidArgument: not even the quarantine can take it.
    """
    topic = letter.origin_topic
    if topic is None:
        reason = "nothing tells which topic it came from"
    elif not is_user_topic(topic):
        reason = _line(f"it names {topic}, which is not a topic of users")
    elif topic not in topics:
        reason = f"there is no topic {topic}"
    elif letter.decode_error is not None:
        reason = _line(f"the body cannot be decoded: {letter.decode_error}")
    else:
        try:
            body = fix(letter.body, dict(letter.properties))
            if isinstance(body, bytes | bytearray | memoryview):
                return Fixed(letter.message(topic, bytes(body)), None)
            reason = BEYOND_HELP if body is None else f"the function returned {type(body).__name__}, not bytes"
        except Exception as error:  # the user's
            reason = _line(f"{type(error).__name__}: {error}")
    told = {REASON: reason} if topic is None else {REASON: reason, TOPIC: topic}
    return Fixed(letter.message(quarantine, letter.body, told), reason)


def load_fix(name: str) -> Fix:
    """Import a function by `module:function`.

    Raises:
        ConfigError: there is none of that name.
    """
    module_name, colon, function_name = name.partition(":")
    if not colon or not module_name or not function_name:
        raise ConfigError("fix", name, "module:function")
    try:
        found: Any = getattr(import_module(module_name), function_name)
    except (ImportError, AttributeError, InvalidArgument) as error:
        raise ConfigError("fix", name, f"a function that can be imported ({_line(str(error))})") from error
    if not callable(found):
        raise ConfigError("fix", name, f"a function, not {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _line(text: str) -> str:
    """Return text as a property can have it: one line, not long."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_REASON_LENGTH_MAX]
