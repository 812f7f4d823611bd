"""Permissions of a topic's queues, as they are typed and shown: rw, r or w."""

from __future__ import annotations

import typer

from orbitmq.model.topic import Perm

_WORDS = {"rw": int(Perm.READ_WRITE), "r": int(Perm.READ), "w": int(Perm.WRITE)}


def parse_permission(word: str) -> int:
    """Return the permission bits that a word means.

    Raises:
        typer.BadParameter: it means none.
    """
    if word not in _WORDS:
        raise typer.BadParameter(f"{word!r} is not rw, r or w", param_hint="--permission")
    return _WORDS[word]


def permission_word(perm: int) -> str:
    """Return the word for what a topic's queues permit, `none` where they can neither be read nor be sent to."""
    return next((word for word, bits in _WORDS.items() if bits == perm & Perm.READ_WRITE), "none")
