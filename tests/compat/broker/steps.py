"""A step of a scenario: one request to a broker, written so that it can be carried out on two brokers, and again elsewhere.

Texts hold marks, which are replaced when a step is carried out: § by what makes the scenario's names its own, ⟨offset:7⟩
and ⟨id:7⟩ by where step 7's message went on that broker, ⟨time:3⟩ by the moment of step 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

PREFIX_MARK = "\u00a7"
BROKER_NAME = "broker-a"
CLUSTER = "DefaultCluster"
BINARY_CODE_MAX = 32_767
"""A binary header has two bytes for a code."""
SHOWN_LENGTH_MAX = 2_000


class Way(Enum):
    """How a step is carried out."""

    ASK = auto()
    """Send and wait for the answer."""
    HOLD = auto()
    """Send; the answer is fetched by a later step of the way FETCH on the same link."""
    FETCH = auto()
    """Wait for the answer of the held step that `code` names by its number."""
    MARK = auto()
    """Nothing is sent: the moment is remembered, and lies between what was stored before and after it."""
    REOPEN = auto()
    """The link is closed, and opened again."""


@dataclass(frozen=True)
class Step:
    """One request; `number` is its name within the scenario."""

    code: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    number: int = 0
    link: int = 0
    way: Way = Way.ASK
    is_oneway: bool = False
    is_binary: bool = False
    is_spoilt: bool = False
    language: str = "JAVA"
    version: int = 479
    header: bytes | None = None
    """The header's text, where it is none that an encoder would write."""
    user: str = ""
    """The user who signs, if any."""
    secret: str = ""

    def __str__(self) -> str:
        fields = {name: _shortened(text) for name, text in self.fields.items()}
        parts = [f"{self.number}: {self.code}", str(fields)]
        if self.body:
            parts.append(f"body {self.body[:SHOWN_LENGTH_MAX]!r}")
            if len(self.body) > SHOWN_LENGTH_MAX:
                parts[-1] += f"... ({len(self.body)} bytes)"
        if self.header is not None:
            parts.append(f"header {self.header!r}")
        if self.way is not Way.ASK:
            parts.append(self.way.name)
        parts += [name for name in ("is_oneway", "is_binary", "is_spoilt") if getattr(self, name)]
        if self.link:
            parts.append(f"link {self.link}")
        if self.user:
            parts.append(f"as {self.user}/{self.secret}")
        if (self.language, self.version) != ("JAVA", 479):
            parts.append(f"{self.language} {self.version}")
        return " ".join(parts)


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}... ({len(text)} characters)"
