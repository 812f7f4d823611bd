"""Templates of messages whose stored properties are others than those that were sent, by what stands around their unique keys.

Between two such messages of one producer for one queue only the unique key differs. What is stored around it is made by the
slow path's own function, for the second of them: the properties of some producers differ in every message, and come never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX, TEXTS_MAX
from orbitmq.broker.sending.answers import UNIQUE_KEY
from orbitmq.store import Draft

_KEY_SIZE_MAX = 64
_NAME = UNIQUE_KEY + b"\x01"

T = TypeVar("T")

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
