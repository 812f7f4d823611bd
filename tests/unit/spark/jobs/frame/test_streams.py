from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from orbitmq.errors import JobFailed
from orbitmq.spark.jobs.frame.streams import run_to_end


class Query:
    """A query that ends after some looks at it."""

    def __init__(self, batches, error=None):
        self.recentProgress = []
        self._left, self._error, self.stopped = list(batches), error, False

    def awaitTermination(self, seconds):  # noqa: N802
        if not self._left:
            if self._error:
                raise self._error
            return True
        self.recentProgress.append({"numInputRows": self._left.pop(0)})
        return False

    def stop(self):
        self.stopped = True


def test_rows_are_told_while_a_query_runs_and_at_its_end():
    query, told = Query([3, 4]), []

    assert run_to_end(lambda: query, told.append) == 7

    assert told == [3, 7, 7]
    assert query.stopped


def test_a_query_that_fails_is_one_sentence():
    query = Query([3], StreamingQueryException("the topic is gone\nat java.lang.Thread"))

    with pytest.raises(JobFailed, match="the topic is gone") as raised:
        run_to_end(lambda: query, lambda rows: None)

    assert "Thread" not in str(raised.value)
    assert query.stopped


def test_an_interrupted_query_is_stopped():
    query = Query([], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_to_end(lambda: query, lambda rows: None)
    assert query.stopped
