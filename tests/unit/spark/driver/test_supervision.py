"""A query that fails is started again, a few times."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from orbitmq.spark.driver.supervision import RESTARTS_MAX, SupervisedQuery


class FakeQuery:
    """Fails immediately, or has caught up; reports ten rows."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.recentProgress = [{"numInputRows": 4}, {"numInputRows": 6}]
        self.is_stopped = False

    def processAllAvailable(self) -> None:  # noqa: N802
        if self.fails:
            raise StreamingQueryException("the worker is gone\nand a stack")

    def awaitTermination(self, seconds: int) -> None:  # noqa: N802
        self.processAllAvailable()

    def stop(self) -> None:
        self.is_stopped = True


def supervised(fails: list[bool]) -> tuple[SupervisedQuery, list[FakeQuery], list[str]]:
    queries = [FakeQuery(fail) for fail in fails]
    started, told = iter(queries), []
    return SupervisedQuery(lambda: next(started), told.append), queries, told


def test_a_query_that_fails_has_a_successor():
    query, queries, told = supervised([True, True, False])
    query.catch_up()
    query.stop()

    assert query.rows_read == 30
    assert [made.is_stopped for made in queries] == [False, False, True]
    assert told[0] == f"a query failed and is started again (1 of {RESTARTS_MAX}): the worker is gone"


def test_a_query_that_does_not_fail_is_left_alone():
    query, _, told = supervised([False])
    query.wait(1)

    assert (query.rows_read, told) == (10, [])


def test_a_query_that_always_fails_is_given_up():
    query, _, told = supervised([True] * (RESTARTS_MAX + 1))

    with pytest.raises(StreamingQueryException, match="the worker is gone"):
        query.wait(1)
    assert len(told) == RESTARTS_MAX
