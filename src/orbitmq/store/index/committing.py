"""The index on its way to the disk: full files, the one that is filled, and the note of what they cover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from orbitmq.store.disk import Disk
from orbitmq.store.index.builder import IndexBuilder, Mark
from orbitmq.store.index.index_file import IndexFile, IndexWriter
from orbitmq.store.index.layout import IndexHeader, IndexNote, format_note, parse_note
from orbitmq.store.sync.flusher import Flusher

_COMMIT_S = 10.0
_COMMIT_SIZE = 256 * 1024 * 1024


class IndexCommits:
    """The writes of one index: one at a time, on a thread of its own once it is attached.

    Args:
        note_path: the file that says what of the index may be trusted after a crash.
    """

    def __init__(self, disk: Disk, note_path: Path, builder: IndexBuilder) -> None:
        self.is_writing = False
        """The thread is at work."""
        self._disk = disk
        self._note_path = note_path
        self._builder = builder
        self._note: IndexNote | None = None
        """What is written before the first entry of this run: the file is not trusted after a crash then."""
        self._position = 0
        self._committed_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Flusher | None = None

    def read_note(self) -> IndexNote | None:
        """Return what the last run has left."""
        return parse_note(self._disk.read(self._note_path))

    def start(self, position: int, last: IndexFile | None) -> None:
        """Count from here on: everything before this place of the log has its entries on the disk."""
        self._note = _note_of(position, last, is_whole=False)
        self._position = position

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

    def is_due(self) -> bool:
        """Say whether it is time to write the file that is filled."""
        assert self._loop is not None
        size = self._builder.position - self._position
        # Thousands of keys change every page of the slots, 20 MB: to write them more often costs sends more than a start.
        return size >= _COMMIT_SIZE or (size > 0 and self._loop.time() - self._committed_s >= _COMMIT_S)

    def begin(self, mark: Mark, on_failure: Callable[[Exception], None]) -> None:
        """Have the thread write the file that is filled, up to this mark."""
        assert self._loop is not None
        position, writer, _header = mark
        self._committed_s = self._loop.time()
        pages = [] if writer is None else writer.take_changes()

        def committed(error: Exception | None) -> None:
            if error is None:
                self._position = position
                return
            if writer is not None:
                writer.give_back(pages)
            on_failure(error)

        self.submit(partial(self.commit, mark, pages), committed)

    def seal(self, writer: IndexWriter) -> None:
        """Write a full file; what of its last message's keys is in the next one is not covered. May run on the thread."""
        self.commit((writer.header.end_offset, writer, writer.header), None)

    def commit(self, mark: Mark, pages: list[int] | None, *, is_whole: bool = False) -> None:
        """Write the file that is filled, then the note that covers it. May run on the thread."""
        position, writer, header = mark
        if self._note is not None:
            self._disk.write(self._note_path, format_note(self._note))
            self._note = None
        if writer is not None:
            writer.commit(pages, header)
        name = "" if writer is None else writer.path.name
        self._disk.write(self._note_path, format_note(IndexNote(name, header, position, is_whole)))

    def commit_whole(self, last: IndexFile | None) -> None:
        """Write everything, on the caller's thread: the index is being closed."""
        position = self._builder.position
        if isinstance(last, IndexWriter):
            self.commit((position, last, last.header), last.take_changes(), is_whole=True)
        else:
            self._disk.write(self._note_path, format_note(_note_of(position, last, is_whole=True)))


def _note_of(position: int, last: IndexFile | None, *, is_whole: bool) -> IndexNote:
    if last is None:
        return IndexNote("", IndexHeader(), position, is_whole)
    return IndexNote(last.path.name, last.header, position, is_whole)
