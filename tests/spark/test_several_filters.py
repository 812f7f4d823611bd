"""Several filters over one relation: each is of its own query alone.

Spark keeps one reader for each loaded relation, and lets every pushed filter replace it: a source that takes filters returns the rows
of another query (docs/adr/0022-no-filter-pushdown.md). So all of this is run with `spark.sql.python.filterPushdown.enabled` on, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from itertools import count

import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq import Message
from orbitmq.blocking import Producer

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
OFFSET = ("brokerName", "queueId", "queueOffset")
_names = count()


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Set a setting of the session for a while."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name) if before is None else spark.conf.set(name, before)


@pytest.fixture(scope="module")
def options(rocketmq_session) -> dict[str, str]:
    """Fill a topic with 400 messages in four queues and make an empty one; return the options that read the first."""
    with Producer("spark-tests", rocketmq_session.name_servers) as producer:
        for n in range(400):
            producer.send(Message("filtered", b"%d" % n, tag="ab"[n // 4 % 2], keys=[f"k{n}"]))
    return {"nameServer": rocketmq_session.name_servers, "topic": "filtered"}


@pytest.fixture(params=[pytest.param("false", marks=pytest.mark.proof), "true"], ids=["push-down off", "push-down on"])
def frame(request, spark, options) -> Iterator[DataFrame]:
    with setting(spark, PUSHDOWN, request.param):
        yield spark.read.format("rocketmq").options(**options).load()


@contextmanager
def a_table(spark: SparkSession, options: Mapping[str, str]) -> Iterator[DataFrame]:
    """Make a table of a topic for a while."""
    name = f"filtered_{next(_names)}"
    given = ", ".join(f"{option} '{value}'" for option, value in options.items())
    spark.sql(f"CREATE TABLE {name} USING rocketmq OPTIONS ({given})")
    try:
        yield spark.table(name)
    finally:
        spark.sql(f"DROP TABLE {name}")


def union_count(frame: DataFrame, *conditions: str) -> int:
    parts = [frame.where(condition) for condition in conditions]
    return reduce(DataFrame.union, parts).count()


@pytest.mark.interop
def test_a_filter_is_of_its_own_query_alone(frame):
    assert [frame.where("queueId = 0").count(), frame.count()] == [100, 400]
    assert union_count(frame, "queueId = 0", "queueId = 1") == 200
    places = frame.select(*OFFSET)
    assert places.exceptAll(places.where("queueId = 0")).count() == 300
    one, two = (frame.where(f"queueId = {queue}").select("queueOffset") for queue in (0, 1))
    assert one.join(two, "queueOffset").count() == 100


def test_a_filter_is_of_its_own_scalar_subquery_alone(spark, frame):
    frame.createOrReplaceTempView("filtered_view")
    part = "(SELECT count(*) FROM filtered_view WHERE queueId = {})"
    found = spark.sql(f"SELECT {part.format(0)}, {part.format(1)}, (SELECT count(*) FROM filtered_view)").first()
    assert tuple(found) == (100, 100, 400)


@pytest.mark.parametrize("is_on", [pytest.param("false", marks=pytest.mark.proof), "true"])
def test_a_filter_is_of_its_own_query_alone_over_tables_and_files(spark, rocketmq_session, options, is_on, tmp_path):
    with setting(spark, PUSHDOWN, is_on):
        with a_table(spark, options) as table:
            assert union_count(table, "queueId = 0", "queueId = 1") == 200
        store = str(rocketmq_session.data_dir / "broker-a")
        files = spark.read.format("rocketmq").option("commitLogPath", store).load()
        assert union_count(files, "topic = 'filtered'", "topic = 'nothing'") == 400


def test_a_filter_of_a_time_that_no_datetime_has_keeps_all_rows(spark, options):
    """With push-down Spark's own worker fails here (OverflowError): it makes a datetime in UTC of the bound."""
    with setting(spark, "spark.sql.session.timeZone", "America/New_York"):
        frame = spark.read.format("rocketmq").options(**options).load()
        assert frame.where("storeTimestamp < timestamp'9999-12-31 23:59:59'").count() == 400


def test_orbitmq_leaves_filter_push_down_as_spark_has_it(spark):
    """It is off, because of Spark's own fault, and no other Python source of the session is told filters because of us."""
    assert spark.conf.get(PUSHDOWN, "false") == "false"  # 4.0 has no such setting
