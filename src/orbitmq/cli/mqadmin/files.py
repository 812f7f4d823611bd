"""Files that subcommands write."""

from __future__ import annotations

from pathlib import Path


def file_name(text: str) -> str:
    """Return a name for a file that lies in its directory, whatever a client or a message calls itself."""
    return (
        "".join("_" if letter in '/\\:"<>|?*' or not letter.isprintable() else letter for letter in text).lstrip(".")
        or "_"
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file, and make the directories that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
