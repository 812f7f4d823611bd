"""The result of a check that long work makes of itself at its end."""

from __future__ import annotations

from typing import NamedTuple


class CheckResult(NamedTuple):
    """A claim, and whether it holds."""

    holds: bool
    claim: str
