"""The check that no offset of a range is missing. Pure: offsets in, data loss out."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt

from orbitmq.errors import OrbitError
from orbitmq.spark.reading.planning import Range

log = logging.getLogger(__name__)


class DataLoss(OrbitError):
    """Messages that a query was to read are gone, and failOnDataLoss is true."""


class Continuity:
    """How far one range has been read without a gap, and what a gap leads to.

    Args:
        wanted: the range.
        fails: raise DataLoss for a gap; otherwise it is logged and left behind.
    """

    def __init__(self, wanted: Range, *, fails: bool) -> None:
        self._range = wanted
        self._fails = fails
        self._expected = wanted.begin
        self._told = (0, 0)
        """What a broker said that it has lost, begin and end: it is missing in what was read, too."""

    def check(self, offsets: npt.NDArray[np.int64]) -> None:
        """Check the next offsets that were read: whatever is missing is lost, whatever the broker said.

        Raises:
            DataLoss: there is a gap before or between them.
        """
        if not len(offsets):
            return
        if offsets[0] > self._expected:
            self.lose(self._expected, int(offsets[0]))
        for gap in np.flatnonzero(np.diff(offsets) != 1).tolist():
            self.lose(int(offsets[gap]) + 1, int(offsets[gap + 1]))
        self._expected = int(offsets[-1]) + 1

    def finish(self) -> None:
        """Check that the range was read to its end.

        Raises:
            DataLoss: its last offsets are missing.
        """
        if self._expected < self._range.end:
            self.lose(self._expected, self._range.end)

    def lose(self, begin: int, end: int) -> None:
        """Report that the offsets from `begin` up to, not including, `end` are gone.

        Raises:
            DataLoss: as the query asked for.
        """
        topic, broker_name, queue_id = self._range.queue
        where = f"queue {queue_id} of topic {topic} on {broker_name}"
        if self._fails:
            raise DataLoss(
                f"offsets {begin} to {end - 1} of {where} are gone (retention, or the topic was recreated). "
                "Set failOnDataLoss to false to go on without them."
            )
        if self._told[0] <= begin and end <= self._told[1]:
            return
        self._told = begin, end
        log.warning("offsets %d to %d of %s are gone; going on without them", begin, end - 1, where)
