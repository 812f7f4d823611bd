"""The rooms of the source with the mutants of their modules, and the unit tests that have to notice them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from mutants.mutation import Mutant, mutants_of

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/orbitmq")
UNIT = Path("tests/unit")
TOP = "top"
"""The room of the modules that lie in no package."""
EQUIVALENT = Path(__file__).parent / "equivalent"


@dataclass(frozen=True, slots=True)
class Place:
    """A mutant and where it lies."""

    room: str
    module: str
    """Path below src/orbitmq."""
    mutant: Mutant

    def __str__(self) -> str:
        """Return place and change as a reader wants them."""
        where = f"{self.module}:{self.mutant.line}"
        if self.mutant.function:
            where += f"  {self.mutant.function}"
        return f"{where}\n    - {self.mutant.before}\n    + {self.mutant.after}"


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A mutant that is not run: it changes nothing that a user can see, or nothing that a unit test should hold."""

    module: str
    function: str
    before: str
    after: str
    reason: str

    def is_of(self, place: Place) -> bool:
        """Return True if this entry is about this mutant; line numbers do not matter."""
        mutant = place.mutant
        return (self.module, self.function, self.before, self.after) == (
            place.module,
            mutant.function,
            mutant.before,
            mutant.after,
        )


def room_of(module: str) -> str:
    """Return the room of a module's path below src/orbitmq."""
    first, separator, _ = module.partition("/")
    return first if separator else TOP


def unit_tests(room: str) -> list[str]:
    """Return what pytest runs for a room."""
    if room == TOP:
        own = sorted(str(path.relative_to(ROOT)) for path in (ROOT / UNIT).glob("test_*.py"))
        return [*own, "tests/test_coverage_of_codes.py"]  # the numbers of codes.py are held by a page
    return [str(UNIT / room)]


def places(wanted: Iterable[str] = ()) -> list[Place]:
    """Return all mutants of rooms (`net`), packages (`net/connection`), modules (`wire/frame.py`) or lines (`wire/frame.py:80`).

    Raises:
        LookupError: nothing lies there.
    """
    found = [
        Place(room_of(module), module, mutant)
        for module in sorted(str(path.relative_to(ROOT / SOURCE)) for path in (ROOT / SOURCE).rglob("*.py"))
        for mutant in mutants_of((ROOT / SOURCE / module).read_bytes())
    ]
    chosen: list[Place] = []
    for name in wanted:
        of_name = [place for place in found if _is_within(place, name)]
        if not of_name:
            raise LookupError(f"no mutants in {name}")
        chosen += [place for place in of_name if place not in chosen]
    return chosen if chosen else found


def drawn(found: list[Place], most: int, seed: int) -> list[Place]:
    """Return the sample of a seed, in order of the modules.

    Each mutant has its own number, which does not depend on the others: another commit's sample has the same mutants wherever
    the source is the same, so that what the tests of two commits notice can be compared.
    """

    def number(place: Place) -> bytes:
        mutant = place.mutant
        text = "\0".join((str(seed), place.module, mutant.function, mutant.before, mutant.after))
        return blake2b(text.encode(), digest_size=8).digest()

    chosen = set(sorted(range(len(found)), key=lambda index: number(found[index]))[:most])
    return [place for index, place in enumerate(found) if index in chosen]


def _is_within(place: Place, name: str) -> bool:
    name = name.removeprefix(f"{SOURCE}/").rstrip("/")
    module, _, line = name.partition(":")
    if line:
        return place.module == module and str(place.mutant.line) == line
    return name in (place.room, place.module) or place.module.startswith(f"{name}/")


def equivalents() -> list[Equivalent]:
    """Return the listed mutants of all rooms. The file <room>.toml has a table `[[mutant]]` for each.

    Raises:
        ValueError: an entry lacks a reason, or has a key of another name.
    """
    listed = []
    for path in sorted(EQUIVALENT.glob("*.toml")):
        for entry in tomllib.loads(path.read_text()).get("mutant", []):
            try:
                listed.append(Equivalent(**{"function": "", **entry}))
            except TypeError as error:
                raise ValueError(f"{path.name}: {entry}: {error}") from None
            if not listed[-1].reason.strip():
                raise ValueError(f"{path.name}: {entry}: the reason is missing")
    return listed
