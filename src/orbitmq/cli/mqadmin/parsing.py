"""Command lines as mqadmin takes them: `-t orders`, `--topic orders`, `--topic=orders`, `-torders`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orbitmq.cli.mqadmin.table import Option, Subcommand
from orbitmq.errors import InvalidArgument

NAME_SERVERS = Option("n", "namesrvAddr", has_value=True)
HELP = Option("h", "help")


class Given:
    """The options of a command line, by their long names."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        """Return an option's value without blanks around it."""
        return self._values.get(name, default).strip()

    def number(self, name: str, default: int) -> int:
        """Return an option's value as a whole number.

        Raises:
            InvalidArgument: it is none.
        """
        text = self.text(name)
        if not text:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise InvalidArgument(f"--{name}", text, "a whole number")
        return int(text)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an option's value as true or false, as Java's Boolean.parseBoolean reads it."""
        return self.text(name).lower() == "true" if name in self._values else default


def parse(subcommand: Subcommand, words: Sequence[str]) -> Given:
    """Parse what stands behind a subcommand.

    Raises:
        InvalidArgument: an option is unknown, has no value, or one that is required is missing.
    """
    known = (*subcommand.options, NAME_SERVERS, HELP)
    values: dict[str, str] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        option, value = _match(known, word)
        if option is None:
            allowed = " ".join(option.usage for option in subcommand.options)
            raise InvalidArgument(f"{subcommand.name}", word, f"one of its options: {allowed or 'it has none'}")
        if option.has_value and value is None:
            if not left:
                raise InvalidArgument(f"--{option.long}", "", "a value")
            value = left.pop(0)
        values[option.long] = value or ""
    if HELP.long not in values:
        for option in subcommand.options:
            if option.is_required and option.long not in values:
                raise InvalidArgument(
                    f"-{option.short or option.long}", "", f"a value: {subcommand.name} needs {option.usage}"
                )
        if subcommand.one_of and not any(name in values for name in subcommand.one_of):
            names = " or ".join(f"--{name}" for name in subcommand.one_of)
            raise InvalidArgument(subcommand.name, "neither of them", names)
    return Given(values)


def _match(known: Sequence[Option], word: str) -> tuple[Option | None, str | None]:
    """Return the option that a word is, and the value that stands in the same word."""
    if word.startswith("--"):
        name, separator, value = word[2:].partition("=")
        found = next((option for option in known if option.long == name), None)
        return found, value if separator else None
    if word.startswith("-") and len(word) > 1:
        name, separator, value = word[1:].partition("=")
        for option in known:
            if name in (option.short, option.long):
                return option, value if separator else None
        for option in known:
            if option.has_value and len(option.short) == 1 and word[1] == option.short:
                return option, word[2:]
    return None, None
