"""Whether a member's log has all that it acknowledged, which after a power cut it may not have.

With ASYNC_FLUSH a message is acknowledged when it is in the memory of the whole sync set. The end of a process takes nothing of
that, the end of the machine does. So a broker keeps under which boot of its machine it runs, and that it was stopped in order
(`completeLog` below storePathRootDir); one that finds another boot counts as incomplete until it has copied from a master, or
was elected although it is incomplete. So does one whose recovery has found less than the log has had: a torn record, entries of queues
or an epoch behind its end.

Source: Kafka's KIP-966 draws the same line, by a file that an orderly stop writes.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from orbitmq.errors import HeaderError, StoreError
from orbitmq.files import read_newest, replace_file

log = logging.getLogger(__name__)

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STOPPED = "stopped"
_FLUSHED = "running flushed"
_INCOMPLETE = "incomplete"


def boot_id() -> str:
    """Return what names this boot of the machine; empty where the system does not say."""
    with suppress(OSError):
        return _BOOT_ID.read_text("ascii").strip()
    return ""


class CompleteLog:
    """What is known of this broker's log.

    Args:
        root: storePathRootDir.
        is_flushed: True: nothing is acknowledged that is not on this broker's disk (SYNC_FLUSH).
        boot: see `boot_id`.
    """

    def __init__(self, root: Path, *, is_flushed: bool, boot: str) -> None:
        self.is_complete = True
        """Whether the log has all that this broker acknowledged."""
        self._path = root / "completeLog"
        self._running = _FLUSHED if is_flushed else f"running {boot}"
        self._is_known = is_flushed or bool(boot)

    def start(self) -> None:
        """Find out, before the log is opened. Raises OSError."""
        try:
            found = read_newest(self._path, _parse)
        except StoreError as error:
            log.warning("the log of this broker counts as incomplete: %s", error)
            found = _INCOMPLETE
        # A process that ended under this boot has lost nothing of what it wrote; without a name of the boot that is not known.
        is_same_boot = self._is_known and found == self._running
        self.is_complete = found in (None, _STOPPED, _FLUSHED) or is_same_boot
        self._write(self._running if self.is_complete else _INCOMPLETE)

    def note_incomplete(self) -> None:
        """Keep that the log has had more than recovery has found. Raises OSError."""
        self._write(_INCOMPLETE)
        self.is_complete = False

    def note_complete(self) -> None:
        """Keep that nothing is missing any more. Raises OSError."""
        self._write(self._running)
        self.is_complete = True

    def stop(self) -> None:
        """Keep that everything is on the disk: the store was closed in order. Raises OSError."""
        if self.is_complete:
            self._write(_STOPPED)

    def _write(self, content: str) -> None:
        replace_file(self._path, content.encode() + b"\n")


def _parse(content: bytes) -> str:
    text = content.decode("ascii", "replace").removesuffix("\n")
    if text not in (_STOPPED, _FLUSHED, _INCOMPLETE) and not text.startswith("running "):
        raise HeaderError(f"completeLog: {text!r:.80} is nothing that this version writes")
    return text
