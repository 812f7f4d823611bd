"""Templates of half messages: what the half messages of one producer have in common is made once.

A half message is stored with properties that were added to its own: where it goes, and its unique key once more. Between
two half messages of one producer for one queue only that key differs. What stands around it is made by the slow path's own function,
for the first of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from orbitmq.broker.fast_path.keyed_templates import KeyedTemplates
from orbitmq.broker.transactions.messages import Ending, plain_ending
from orbitmq.model.message import SysFlag
from orbitmq.model.topic import HALF_TOPIC
from orbitmq.store import Draft
from orbitmq.store.dispatch import tag_code_of

_KEY_COUNT = 2
"""UNIQ_KEY, and the id of the transaction."""


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


class HalfTemplates:
    """The forms that were made before.

    Args:
        special_message: the slow path's: the stored form of a message that asks for something special, None where it refuses.
    """

    def __init__(self, special_message: Callable[[Draft], Draft | None]) -> None:
        self._special_message = special_message
        self._templates = KeyedTemplates(self._template_of)

    def find(self, draft: Draft, key: bytes) -> HalfTemplate | None:
        """Return the form of a half message, None where it has to be looked at.

        Args:
            draft: the message as it was sent.
            key: its unique key, a plain word that is not empty.
        """
        return self._templates.find(draft, key)

    def _template_of(self, draft: Draft, key: bytes) -> HalfTemplate | None:
        waiting = self._special_message(draft)
        if waiting is None or waiting.topic != HALF_TOPIC:
            return None
        pieces = tuple(waiting.properties.split(key))
        if len(pieces) != _KEY_COUNT + 1:
            return None
        tag_code = tag_code_of(HALF_TOPIC, waiting.properties, 0)
        return HalfTemplate(pieces, tag_code, plain_ending(waiting.properties))
