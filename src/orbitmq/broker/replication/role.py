"""The role of a controlled broker in one epoch, and the file with the epochs of its log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.files import read_table, replace_file
from orbitmq.ha.epochs import Epochs, begin_epoch, format_epochs, parse_epochs
from orbitmq.store import Store
from orbitmq.wire.bodies.controller import SyncSet


class EpochFile:
    """`epochFileCheckpoint` below storePathRootDir."""

    def __init__(self, root: Path) -> None:
        self._path = root / "epochFileCheckpoint"

    def read(self) -> Epochs:
        """Return the epochs of the log, none before the first.

        Raises:
            StoreError: neither the file nor its `.bak` can be read.
        """
        return read_table(self._path, parse_epochs) or ()

    def write(self, epochs: Epochs) -> None:
        """Keep the epochs. Raises OSError."""
        replace_file(self._path, format_epochs(epochs))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRole:
    """What a broker is in one epoch.

    Args:
        broker_id: its own.
        epoch: its master's.
        master_id, master_address: who leads, and where that broker serves clients.
        sync_set: the members that have all that was acknowledged, as the controllers told with the role.
        master_epochs, master_end: of a slave, the epochs of its master's log, and where that ended when it was asked.
        cut_at: of a slave, up to where its log is its master's; None: it has none.
        master_ha_address: of a slave, where it follows.
        propose: of a master, asks the controllers for another sync set, and returns the one that they have then. It raises
            OrbitError when it is not known what became of it.
        changed: called when a controller says that the role is another.
    """

    broker_id: int
    epoch: int
    master_id: int
    master_address: str
    sync_set: SyncSet
    master_epochs: Epochs = ()
    master_end: int = 0
    master_ha_address: str = ""
    cut_at: int | None = None
    propose: Callable[[SyncSet], Awaitable[SyncSet]]
    changed: Callable[[], None]

    @property
    def is_master(self) -> bool:
        """Return True if this broker leads."""
        return self.broker_id == self.master_id

    def begin(self, store: Store, file: EpochFile) -> Epochs:
        """Keep the epochs of the log that was opened for this role, and return them; nothing may be written to it before.

        Raises:
            StoreError: the epochs cannot be read.
            OSError: the disk does not take them.
        """
        own = file.read()
        if self.is_master:
            epochs = begin_epoch(own, self.epoch, store.min_physical_offset, store.max_physical_offset)
        else:
            epochs = self.master_epochs
        if epochs != own:
            file.write(epochs)
        return epochs
