"""A row of the proof: a long command and the question that it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple


class Size(NamedTuple):
    """An option of a command that says how much it does: with `--share`, a part of `whole`, but not less than `least`."""

    option: str
    whole: int
    least: int = 1

    def of(self, share: float) -> str:
        """Return the option's value for a share of the whole."""
        return str(max(self.least, round(self.whole * share)))


class Seed(NamedTuple):
    """A command's option for its seed, and the seed of a usual run; None draws one for each run."""

    option: str
    usual: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A long command, what it asks, and what a change has to touch to make it worth running.

    Attributes:
        name: `group/row`, such as `crash/kills-sync`.
        rooms: words besides the name by which `--only` selects it.
        asked: one sentence for people; a command that writes JSON may say it with its numbers.
        command: arguments of the Python interpreter.
        sources: paths of files and folders, from the repository's root.
        needs: keys of `proof.needs.NEEDS`.
        minutes: roughly, on two cores.
        takes_share: whether the command has an option `--share`.
        sizes: options that `--share` makes smaller.
        when_small: arguments for a run with a share below 1.
        writes_json: whether the command has an option `--json FILE` for asked, measured and reached; otherwise its last line
            says what was measured, and exit code 0 means reached.
        has_keep: whether the command has options `--keep` and `--no-keep` for result files of its own.
        is_pytest: whether it is a run of pytest, which skips what cannot run.
    """

    name: str
    rooms: tuple[str, ...] = ()
    asked: str
    command: tuple[str, ...]
    sources: tuple[str, ...]
    needs: tuple[str, ...] = ()
    minutes: float
    takes_share: bool = False
    sizes: tuple[Size, ...] = ()
    when_small: tuple[str, ...] = ()
    seed: Seed | None = None
    writes_json: bool = False
    has_keep: bool = False
    is_pytest: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    def arguments(self, *, share: float, seed: int | None, keep: bool) -> list[str]:
        """Return the interpreter's arguments for one run.

        Args:
            share: 1 is the whole size.
            seed: ignored by a command that takes none.
            keep: whether the command may change its own result files.
        """
        found = list(self.command)
        if self.takes_share and share != 1:
            found += ["--share", str(share)]
        for size in self.sizes:
            found += [size.option, size.of(share)]
        if share < 1:
            found += self.when_small
        if self.seed is not None and seed is not None:
            found += [self.seed.option, str(seed)]
        if self.has_keep:
            found.append("--keep" if keep else "--no-keep")
        return found

    def is_about(self, path: str) -> bool:
        """Return True if a changed file is one of the sources, or lies in one of them."""
        changed = PurePosixPath(path)
        return any(changed.is_relative_to(source) for source in self.sources)


class UnknownWord(Exception):
    """A word of `--only` that selects no row."""


def select(rows: Sequence[Row], words: Sequence[str]) -> list[Row]:
    """Return the rows that any of the words selects, in their order; all rows when there is no word.

    A word that is a row's whole name selects that row alone, otherwise every row that has it in its name or in a room.

    Raises:
        UnknownWord: a word selects nothing.
    """
    chosen: set[str] = set()
    for word in words:
        found = {row.name for row in rows if row.name == word} or {
            row.name for row in rows if word in row.name or any(word in room for room in row.rooms)
        }
        if not found:
            raise UnknownWord(f"no row has {word!r} in its name or rooms; --list shows the rows")
        chosen |= found
    return [row for row in rows if not words or row.name in chosen]
