"""The index on its way to the disk: full files, the one that is filled, and the note of what they cover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orbitmq.store.disk import Disk
from orbitmq.store.index.index_file import IndexFile, IndexWriter
from orbitmq.store.index.layout import NO_ENTRIES, IndexHeader, IndexNote, format_note, parse_note
from orbitmq.store.sync.flusher import Flusher

_COMMIT_S = 10.0
_COMMIT_SIZE = 256 * 1024 * 1024

Mark = tuple[int, IndexWriter | None, IndexHeader]
"""A place of the log, and the file and its header when everything before it had its entries."""


class IndexCommits:
    """The writes of one index: one at a time, on a thread of its own once it is attached.

    Args:
        note_path: the file that says what of the index may be trusted after a crash.
    """

    def __init__(self, disk: Disk, note_path: Path) -> None:
        self.is_writing = False
        """The thread is at work."""
        self.mark: Mark | None = None
        """What is written next, when the log is on the disk up to there."""
        self._disk = disk
        self._note_path = note_path
        self._position = 0
        self._committed_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Flusher | None = None

    def read_note(self) -> IndexNote | None:
        """Return what the last run has left."""
        return parse_note(self._disk.read(self._note_path))

    def start(self, position: int) -> None:
        """Count from here on: everything before this place of the log has its entries on the disk."""
        self._position, self.mark = position, None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Report to this loop from now on."""
        self._loop = loop
        self._committed_s = loop.time()

    def stop(self) -> None:
        """End the thread when it has done its work."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None
        self._loop = None

    def submit(self, task: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        """Run a task on the thread; `done` is called on the loop."""
        assert self._loop is not None
        if self._thread is None:
            self._thread = Flusher(self._loop, name="orbitmq-index")
        self.is_writing = True

        def report(error: Exception | None) -> None:
            self.is_writing = False
            done(error)

        self._thread.submit(task, report)

    def is_due(self, position: int) -> bool:
        """Return True if it is time to write what has its entries before this place of the log."""
        assert self._loop is not None
        size = position - self._position
        return size >= _COMMIT_SIZE or (size > 0 and self._loop.time() - self._committed_s >= _COMMIT_S)

    def begin(self, mark: Mark, on_failure: Callable[[Exception], None]) -> None:
        """Have the thread write the file that is filled, up to this mark."""
        assert self._loop is not None
        self._committed_s, self.mark = self._loop.time(), None

        def committed(error: Exception | None) -> None:
            if error is None:
                self._position = mark[0]
            else:
                on_failure(error)

        self.submit(partial(self.commit, mark), committed)

    def commit(self, mark: Mark) -> None:
        """Sync the entries of the file that is filled, then write the note that covers them. May run on the thread."""
        position, writer, header = mark
        if writer is not None:
            writer.file.sync()
        self._write_note(position, writer, header)

    def seal(self, writer: IndexWriter) -> None:
        """Write a full file; what of its last message's keys is in the next one is not covered. May run on the thread."""
        writer.finish(writer.header)
        self._write_note(writer.header.end_offset, writer, writer.header)

    def commit_whole(self, position: int, last: IndexFile | None) -> None:
        """Write everything, on the caller's thread: the index is being closed."""
        if isinstance(last, IndexWriter):
            last.finish(last.header)
        self._write_note(position, last, NO_ENTRIES if last is None else last.header, is_whole=True)

    def _write_note(
        self, position: int, file: IndexFile | None, header: IndexHeader, *, is_whole: bool = False
    ) -> None:
        name = "" if file is None else file.path.name
        self._disk.write(self._note_path, format_note(IndexNote(name, header, position, is_whole)))
