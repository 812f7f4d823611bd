"""Fields of forms that browsers send, with errors that name the field. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from orbitmq.errors import InvalidArgument

FIELDS_MAX = 100
FIELD_LENGTH_MAX = 4_096
"""Characters of a field, unless its reader says otherwise, as for the body of a message."""


class Form:
    """The fields of a form and of the address that it was sent to.

    Raises:
        InvalidArgument: of each method: the field is missing, or not what is asked for.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = dict(fields)

    @property
    def fields(self) -> Mapping[str, str]:
        """All of them."""
        return self._fields

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text without blanks around it."""
        value = self.raw(name).strip()
        if value:
            return value
        if default is None:
            raise InvalidArgument(name, value, "a value")
        return default

    def raw(self, name: str, length_max: int | None = FIELD_LENGTH_MAX) -> str:
        """Return a text as it was typed; empty where there is none."""
        value = self._fields.get(name, "")
        if length_max is not None and len(value) > length_max:
            raise InvalidArgument(name, f"{len(value)} characters", f"at most {length_max} characters")
        return value

    def number(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number in a range."""
        value = self.raw(name).strip()
        if not value and default is not None:
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19 and low <= int(value) <= high):
            raise InvalidArgument(name, value, f"a whole number from {low} to {high}")
        return int(value)

    def choice(self, name: str, allowed: Collection[str]) -> str:
        """Return one of some words."""
        value = self.raw(name).strip()
        if value not in allowed:
            raise InvalidArgument(name, value, f"one of {', '.join(allowed)}")
        return value

    def time_ms(self, name: str, default: int | None = None) -> int:
        """Return a time in ISO 8601, in UTC where it names no zone, as ms since 1970."""
        value = self.raw(name).strip()
        if not value and default is not None:
            return default
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(name, value, "a time in UTC, as 2026-11-21T12:03") from None
        at_ms = int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
        if at_ms < 0:
            raise InvalidArgument(name, value, "a time since 1970")
        return at_ms

    def flag(self, name: str) -> bool:
        """Return True if a box is ticked."""
        return self._fields.get(name, "") in ("on", "yes", "true")


def parse_form(body: bytes) -> dict[str, str]:
    """Parse an urlencoded form; of a field that comes twice the last one counts.

    Raises:
        InvalidArgument: it is none, or has too many fields.
    """
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX, errors="strict")
    except ValueError as error:
        raise InvalidArgument(
            "form", f"{len(body)} bytes", f"an urlencoded form of {FIELDS_MAX} fields ({error})"
        ) from None
    return dict(pairs)
