"""A table under a DataVersion whose changes can be taken back until they are on the disk. Pure.

In: values by name. Out: the values; `version` tells whether anything changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.model.topic import DataVersion

V = TypeVar("V")
T = TypeVar("T", bound="VersionedTable[Any]")


class VersionedTable(Generic[V]):
    """Values by name, and what they were when the disk had them last.

    Args:
        count_max: how many there may be; those that were loaded stay, however many they are.
    """

    def __init__(self, values: dict[str, V], version: DataVersion, *, count_max: int) -> None:
        self.count_max = count_max
        self.refused_count = 0
        """New values that were one too many."""
        self._values = values
        self._replaced: dict[str, V | None] = {}
        self.version = self._kept_version = version
        self.get: Callable[[str], V | None] = values.get
        """Return a value or None; bound once, since every send and pull asks."""

    @property
    def all(self) -> Mapping[str, V]:
        """A read-only view of the whole table."""
        return MappingProxyType(self._values)

    @property
    def is_full(self) -> bool:
        """True while no further name may be there."""
        return len(self._values) >= self.count_max

    def has_room(self, name: str) -> bool:
        """Return True if a value of this name may be there; one that may not is counted."""
        if name in self._values or not self.is_full:
            return True
        self.refused_count += 1
        return False

    def delete(self, name: str, now_ms: int) -> bool:
        """Forget a value; False when there was none."""
        old = self._values.pop(name, None)
        if old is None:
            return False
        self._replaced.setdefault(name, old)
        self.version = self.version.next(now_ms)
        return True

    def renew(self, now_ms: int) -> None:
        """Make a new version of what there is."""
        self.version = self.version.next(now_ms)

    def keep(self) -> None:
        """Let all changes count for good: they are on the disk."""
        self._replaced.clear()
        self._kept_version = self.version

    def revert(self) -> None:
        """Take back what was changed since the last `keep`: the disk refused it."""
        for name, old in self._replaced.items():
            if old is None:
                self._values.pop(name, None)
            else:
                self._values[name] = old
        self._replaced.clear()
        self.version = self._kept_version

    def draft(self: T) -> T:
        """Return a copy to be changed and written, whose changes are taken over, or not, when that has ended."""
        twin = copy(self)
        twin._values = dict(self._values)
        twin._replaced = {}
        twin.get = twin._values.get
        return twin

    def adopt(self, draft: VersionedTable[V]) -> None:
        """Take over what a draft has made: it is on the disk, and nothing else has changed since it was copied."""
        for name in draft._replaced:
            self._values[name] = draft._values[name]
        self.version = draft.version
        self.keep()

    def _put(self, name: str, value: V, now_ms: int) -> V:
        self._replaced.setdefault(name, self._values.get(name))
        self._values[name] = value
        self.version = self.version.next(now_ms)
        return value


def save_or_revert(table: T, save: Callable[[T], None], what: str) -> None:
    """Write a changed table's file; when the disk refuses, the table is as it was before the change.

    Raises:
        Rejected: 14, without the path that the disk's error names.
    """
    try:
        save(table)
    except OSError as error:
        table.revert()
        raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, f"{what} cannot be saved: {error.strerror}") from error
    table.keep()
