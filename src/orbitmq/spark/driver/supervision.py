"""Streaming queries that are started again when they fail: Spark itself never does that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

RESTARTS_MAX = 3


class SupervisedQuery:
    """A query and its successors.

    Args:
        start: starts the query; its checkpoint, or its source, knows where to go on.
        tell: is called with one line for every failure that is followed by a new start.
    """

    def __init__(self, start: Callable[[], StreamingQuery], tell: Callable[[str], None]) -> None:
        self._start = start
        self._tell = tell
        self._restarts = 0
        self._rows_before = 0
        self._query = start()

    @property
    def rows_read(self) -> int:
        """Rows that went through finished micro-batches."""
        return self._rows_before + self._rows_of_query()

    def wait(self, seconds: int) -> None:
        """Let time pass, less when the query fails."""
        self._watch(lambda query: query.awaitTermination(seconds))

    def catch_up(self) -> None:
        """Wait until everything that is in the source now was read."""
        self._watch(lambda query: query.processAllAvailable())

    def stop(self) -> None:
        """Stop the query."""
        self._query.stop()

    def _watch(self, work: Callable[[StreamingQuery], object]) -> None:
        from pyspark.errors import StreamingQueryException

        while True:
            try:
                work(self._query)
                return
            except StreamingQueryException as error:
                self._restarts += 1
                if self._restarts > RESTARTS_MAX:
                    raise
                reason = str(error).splitlines()[0]
                self._tell(f"a query failed and is started again ({self._restarts} of {RESTARTS_MAX}): {reason}")
                self._rows_before += self._rows_of_query()
                self._query = self._start()

    def _rows_of_query(self) -> int:
        return sum(progress["numInputRows"] for progress in self._query.recentProgress)
