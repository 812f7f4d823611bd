"""Streams that read what is there and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from orbitmq.errors import JobFailed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_EVERY_S = 1


def run_to_end(start: Callable[[], StreamingQuery], on_rows: Callable[[int], None]) -> int:
    """Run a query until it ends by itself; return how many rows it has read. However this ends, the query has ended, too.

    Args:
        on_rows: is told now and then how many rows finished micro-batches have read.

    Raises:
        JobFailed: the query has failed; says why.
    """
    from pyspark.errors import StreamingQueryException

    query = start()
    try:
        while not query.awaitTermination(_LOOK_EVERY_S):
            on_rows(_rows(query))
    except StreamingQueryException as error:
        raise JobFailed(str(error).splitlines()[0]) from error
    finally:
        query.stop()
    rows = _rows(query)
    on_rows(rows)
    return rows


def _rows(query: StreamingQuery) -> int:
    return sum(progress["numInputRows"] for progress in query.recentProgress)
