"""Golden files: bytes captured from Java 5.3.3 peers, each next to what Java's own decoder reads in it (capture.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
STORE = HERE / "store"


class Golden(NamedTuple):
    """One captured file and what Java reads in it."""

    stem: str
    data: bytes
    expected: dict[str, Any]

    def __str__(self) -> str:
        return self.stem

    @property
    def body(self) -> bytes:
        """What follows a frame's header."""
        return self.data[len(self.data) - self.expected["header"]["body_size"] :]


def golden(stem: str) -> Golden:
    """Load one golden file."""
    expected = json.loads((HERE / f"{stem}.json").read_text())
    return Golden(stem, (HERE / f"{stem}.bin").read_bytes(), expected)


def golden_frames() -> list[Golden]:
    """Load every captured frame, `<code>-<name>-request` or `-answer` with its code unless that is 0."""
    return [golden(path.stem) for path in sorted(HERE.glob("[0-9]*.bin"))]


def store_records() -> list[dict[str, Any]]:
    """Return what Java reads in the captured CommitLog, in order."""
    records: list[dict[str, Any]] = json.loads((STORE / "records.json").read_text())["records"]
    return records
