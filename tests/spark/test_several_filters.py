"""Programs of several filters over one relation: each query has the rows that the same query has over a Parquet copy.

Spark keeps one reader for each loaded relation, and lets every pushed filter replace it: a source that takes filters returns the rows
of another query (docs/adr/0022-no-filter-pushdown.md). So all of this is run with `spark.sql.python.filterPushdown.enabled` on, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import reduce
from itertools import count
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession

from orbitmq import Message
from orbitmq.blocking import Producer
from seeds import seeds

pytestmark = pytest.mark.spark

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
OFFSET = ("brokerName", "queueId", "queueOffset")
COLUMNS = ("topic", "body", *OFFSET, "tags", "keys", "storeTimestamp")
FILTERS = (
    "queueId = {queue}",
    "queueId <=> {queue}",
    "queueId IN ({queue}, 2)",
    "queueId <> {queue}",
    "queueOffset >= {offset}",
    "queueOffset < {offset}",
    "queueOffset = {offset}",
    "tags = 'a'",
    "tags = 'b'",
    "tags IS NULL",
    "keys IN ('k1', 'k7', 'k20')",
    "topic = 'filtered'",
    "topic = 'another'",
    "brokerName LIKE 'broker%'",
    "storeTimestamp >= timestamp'2020-01-01 00:00:00'",
    "storeTimestamp < timestamp'2020-01-01 00:00:00'",
    "storeTimestamp < timestamp'9999-12-31 00:00:00'",
    "queueId = {queue} OR tags = 'a'",
    "body IS NOT NULL",
)
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


def test_a_filter_is_of_its_own_query_alone(frame):
    assert [frame.where("queueId = 0").count(), frame.count()] == [100, 400]
    assert union_count(frame, "queueId = 0", "queueId = 1") == 200
    assert union_count(frame, "tags = 'a'", "tags = 'b'") == 400
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


class Programs:
    """Random programs over one relation: what they return depends on the seed and on the relation's rows alone."""

    def __init__(self, spark: SparkSession, base: DataFrame, seed: int) -> None:
        self._spark = spark
        self._random = Random(seed)
        self._base = base.select(*COLUMNS)
        self._cached: list[DataFrame] = []

    def run(self) -> list[object]:
        """Return the rows of a query, and the number of all rows before or after it."""
        try:
            found: list[object] = [self._rows(self._query(self._random.randint(1, 2)))]
            found.insert(self._random.randrange(2), self._base.count())
            return found
        finally:
            for frame in self._cached:
                frame.unpersist()

    def _query(self, depth: int) -> DataFrame:
        kind = self._random.choice(("filters", "union", "exceptAll", "join", "subquery", "view", "cached"))
        if not depth or kind == "filters":
            return self._filtered(self._base)
        if kind == "subquery":
            return self._subquery()
        if kind == "view":
            name = f"several_filters_{next(_names)}"
            self._filtered(self._base).createOrReplaceTempView(name)
            return self._spark.sql(f"SELECT * FROM {name} WHERE {self._condition()}")
        one = self._query(depth - 1)
        if kind == "cached":
            self._cached.append(one.cache())
            return self._filtered(one)
        two = self._query(depth - 1)
        if kind == "join":
            return one.join(two.select("queueOffset").distinct(), "queueOffset").select(*COLUMNS)
        return one.union(two) if kind == "union" else one.exceptAll(two)

    def _subquery(self) -> DataFrame:
        name = f"several_filters_{next(_names)}"
        self._base.createOrReplaceTempView(name)
        bound = f"(SELECT avg(queueOffset) FROM {name} WHERE {self._condition()})"
        return self._spark.sql(f"SELECT * FROM {name} WHERE {self._condition()} AND queueOffset <= {bound}")

    def _filtered(self, frame: DataFrame) -> DataFrame:
        for _ in range(self._random.randint(1, 3)):
            frame = frame.where(self._condition())
        return frame

    def _condition(self) -> str:
        return self._random.choice(FILTERS).format(queue=self._random.randrange(4), offset=self._random.randrange(100))

    def _rows(self, frame: DataFrame) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in frame.select(*OFFSET, "keys", "body").collect())


def check(spark: SparkSession, options: Mapping[str, str], copy: DataFrame, seed: int) -> None:
    """Compare one program's rows over the topic with those over the copy."""
    random = Random(seed)
    with ExitStack() as stack:
        stack.enter_context(setting(spark, PUSHDOWN, random.choice(("false", "true"))))
        stack.enter_context(setting(spark, "spark.sql.session.timeZone", random.choice(("UTC", "America/New_York"))))
        if random.random() < 0.3:
            base = stack.enter_context(a_table(spark, options))
        else:
            base = spark.read.format("rocketmq").options(**options).load()
        assert Programs(spark, base, seed).run() == Programs(spark, copy, seed).run(), f"seed {seed}"


@pytest.fixture(scope="module")
def copy(spark, options, tmp_path_factory) -> DataFrame:
    """The topic's rows as a Parquet file."""
    path = str(tmp_path_factory.mktemp("copy") / "parquet")
    spark.read.format("rocketmq").options(**options).load().select(*COLUMNS).coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


@pytest.mark.parametrize("number", range(4))
def test_a_program_of_filters_has_the_rows_of_the_same_program_over_parquet(spark, options, copy, number):
    check(spark, options, copy, seeds(4)[number])


@pytest.mark.proof
def test_300_programs_of_filters_have_the_rows_of_the_same_programs_over_parquet(spark, options, copy):
    for seed in seeds(300):
        check(spark, options, copy, seed)
