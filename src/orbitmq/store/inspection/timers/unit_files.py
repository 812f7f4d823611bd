"""The files of the timer log, read without mapping them: unit after unit, or one at a place."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack
from types import TracebackType

from orbitmq.store.inspection.layout import SizedFile
from orbitmq.store.inspection.reading import ReadOnlyFile
from orbitmq.store.timers.units import BLANK_LAYOUT, BLANK_MAGIC, LAYOUT, UNIT_SIZE, Unit, is_whole, parse_unit

_CHUNK_UNITS = 16_384


class UnitFiles:
    """The open files of a timer log, all of one size.

    Args:
        files: they begin where the one before them ends.
        file_size: of each, in bytes.

    Raises:
        OSError: one cannot be read.
    """

    def __init__(self, files: Collection[SizedFile], file_size: int) -> None:
        self.end = 0
        """Where the units that `walk` has yielded end; behind a file that is full, the file's end."""
        self._file_size = file_size
        self._units_per_file = (file_size - BLANK_LAYOUT.size) // UNIT_SIZE
        self._base = min((file.base for file in files), default=0)
        with ExitStack() as opened:
            self._files = [opened.enter_context(ReadOnlyFile(file.path)) for file in files]
            self._opened = opened.pop_all()

    def __enter__(self) -> UnitFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def walk(self) -> Iterator[tuple[int, Unit]]:
        """Yield every unit with its place, until one is not whole."""
        self.end = self._base
        for number, file in enumerate(self._files):
            base = self._base + number * self._file_size
            for low in range(0, self._units_per_file, _CHUNK_UNITS):
                count = min(_CHUNK_UNITS, self._units_per_file - low)
                chunk = file.read(low * UNIT_SIZE, count * UNIT_SIZE)
                for at, values in enumerate(LAYOUT.iter_unpack(chunk[: len(chunk) // UNIT_SIZE * UNIT_SIZE]), low):
                    unit, position = Unit(*values), base + at * UNIT_SIZE
                    if unit.magic == BLANK_MAGIC:
                        break
                    if not is_whole(unit, position):
                        return
                    self.end = position + UNIT_SIZE
                    yield position, unit
                else:
                    continue
                break
            self.end = base + self._file_size

    def unit(self, position: int) -> Unit | None:
        """Return the unit that stands there, None where no whole one does."""
        number, at = divmod(position - self._base, self._file_size)
        if not 0 <= number < len(self._files):
            return None
        content = self._files[number].read(at, UNIT_SIZE)
        unit = parse_unit(content) if len(content) == UNIT_SIZE else None
        return unit if unit is not None and is_whole(unit, position) else None

    def bytes_behind(self, end: int) -> int:
        """Return how many bytes there are from `end` to the last one that is no zero."""
        number, at = divmod(end - self._base, self._file_size)
        found = 0
        for file in self._files[number:]:
            found, at = file.data_end(at) - at, 0
            if found:
                break
        return found
