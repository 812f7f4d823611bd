"""Commands that answer to other words with one sentence: the name that the command has here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from typer.core import TyperGroup


class NamingGroup(TyperGroup):
    """Commands; `other_words` are what else they are called, by other tools or by earlier versions."""

    other_words: ClassVar[Mapping[str, str]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, or say its name."""
        if args and args[0] not in self.commands and args[0] in self.other_words:
            ctx.fail(f"No such command {args[0]!r}: it is `orbitmq {self.other_words[args[0]]}` here.")
        return super().resolve_command(ctx, args)
