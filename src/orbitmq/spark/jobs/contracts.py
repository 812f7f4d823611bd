"""The job `contracts`: bodies of a topic held against a declared schema; good ones become Parquet, bad ones go to quarantine.

```
DIRECTORY/good/date=…/batch=…   messages that keep the contract, what they say in the column `value`
DIRECTORY/bad/date=…/batch=…    those that break it, with their bodies and the columns `reason` and `notSent`
```

The micro-batch that was under way when a run was killed comes again. Then its bad messages that the quarantine topic has
already, by the place they come from, are not sent a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.job_directory import check_claimable, claimed
from orbitmq.model.check_result import CheckResult
from orbitmq.model.message import PROPERTIES_SIZE_MAX
from orbitmq.spark.jobs.archive import EARLIEST, check_archive, count_queues, has_rows
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.contract_checks import Contract, check_contract, checked
from orbitmq.spark.jobs.resending import sent_properties_size
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.tables import Growth, batch_name, finish_merges, grow, merge_small_files, write_part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from orbitmq.spark.writing.messages import MessageBuilder

REASON, ORIGIN = "CONTRACT_REASON", "CONTRACT_ORIGIN"
"""Properties of messages in quarantine: why, and `topic/broker/queue/offset` of the message that it is a copy of."""
_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
_REASONS_SHOWN = 10
_PROPERTIES_MAX = PROPERTIES_SIZE_MAX - 512
"""Bytes that leave a broker room for its own properties, such as the name of its cluster."""


class ContractPlan(NamedTuple):
    """What is judged by which contract, and where the judged go.

    Args:
        quarantine: the topic of the bad ones.
        start: the option `startingOffsets` of the first run; later ones go on where it ended.
    """

    topic: str
    directory: Path
    contract: Contract
    quarantine: str
    start: str
    rows_per_batch: int

    @property
    def good(self) -> Path:
        """The directory of messages that keep the contract."""
        return self.directory / "good"

    @property
    def bad(self) -> Path:
        """The directory of messages that break it."""
        return self.directory / "bad"


def check_plan(cluster: Cluster, plan: ContractPlan) -> None:
    """Find out before Spark starts what the job would refuse, but for what Spark says of the contract.

    Raises: as `hold_to_contract`.
    """
    _check_quarantine(cluster, plan)
    cluster.topic_stats(plan.topic)  # it is there: a mistyped topic claims no directory
    check_claimable(plan.directory, _subject(plan))


def hold_to_contract(spark: SparkSession, cluster: Cluster, plan: ContractPlan, screen: Screen) -> list[CheckResult]:
    """Judge what is in a topic now and was not judged yet; return what the whole was checked for.

    Raises:
        JobFailed: Spark's query failed, or another run is under way.
        ConfigError: Spark cannot judge by the contract; the directory is for something else; there is no such quarantine.
        ClientError: the cluster cannot be asked.
    """
    check_contract(spark, plan.contract)
    check_plan(cluster, plan)
    with claimed(plan.directory, _subject(plan)):
        for table in (plan.good, plan.bad):
            finish_merges(table)
        before = count_queues(spark, plan.good, plan.bad)
        screen.step(
            f"judging {plan.topic}: {sum(queue.rows for queue in before.values()):,} messages are judged already"
        )
        checker = ContractChecker(spark, cluster, plan)
        growth = Growth(plan.topic, plan.directory, plan.start, plan.rows_per_batch, "judged")
        goal = grow(spark, cluster, growth, before, checker.write, screen)
        _show_reasons(spark, plan, screen)
        screen.step("checking")
        results = check_archive(goal, count_queues(spark, plan.good, plan.bad), is_whole=plan.start == EARLIEST)
        results.append(_check_sent(spark, cluster, plan, checker.first_batch))
        for table in (plan.good, plan.bad):
            merge_small_files(spark, table)
        return results


class ContractChecker:
    """Writes the micro-batches of one run.

    `first_batch` is the number of its first one, None before that.
    """

    def __init__(self, spark: SparkSession, cluster: Cluster, plan: ContractPlan) -> None:
        self.first_batch: int | None = None
        self._spark = spark
        self._cluster = cluster
        self._plan = plan

    def write(self, rows: DataFrame, number: int) -> None:
        """Write the good rows of one micro-batch, then the bad ones, then send these to quarantine."""
        from pyspark.sql import functions as f

        may_be_sent = self.first_batch is None  # by the run before, which was killed
        self.first_batch = number if self.first_batch is None else self.first_batch
        judged = checked(rows, self._plan.contract)
        undecoded = f.concat(f.lit("the body cannot be decoded: "), "decodeError")
        found = judged.withColumn("reason", f.coalesce(undecoded, "reason")).persist()
        try:
            write_part(found.where(f.isnull("reason")).drop("body", "reason", "decodeError"), number, self._plan.good)
            bad = self._with_letters(found.where(f.isnotnull("reason")).drop("value", "decodeError"))
            write_part(bad.drop("origin", "letter"), number, self._plan.bad)
            self._send(bad.where(f.isnull("notSent")), may_be_sent)
        finally:
            found.unpersist()

    def _with_letters(self, bad: DataFrame) -> DataFrame:
        """Add `origin`, the properties in quarantine as `letter`, and in `notSent` why that topic cannot have a message; null: it can."""
        from pyspark.sql import functions as f

        told = f.create_map(f.lit(REASON), f.col("reason"), f.lit(ORIGIN), f.col("origin"))
        letter = f.map_concat(told, f.map_filter("properties", _is_free))
        judge = f.udf(why_not_sent, useArrow=False)  # Arrow's way would need pandas
        found = bad.withColumn("origin", origin()).withColumn("letter", letter)
        return found.withColumn("notSent", judge("body", "tags", "keys", "letter"))

    def _send(self, letters: DataFrame, may_be_sent: bool) -> None:
        if may_be_sent:
            letters = letters.join(sent(self._spark, self._cluster, self._plan), "origin", "left_anti")
        letters = letters.select("body", "tags", "keys", letters["letter"].alias("properties"))
        options = self._cluster.options(self._plan.quarantine)
        letters.write.format("rocketmq").mode("append").options(**options, rowIds="false").save()


def why_not_sent(
    body: bytes, tags: str | None, keys: str | None, properties: Mapping[str, str | None] | None
) -> str | None:
    """Return why no message can be made of a row's columns; None where one can."""
    try:
        message = _builder().message("", "any", bytes(body), tags, keys, (properties or {}).items())
        size = sent_properties_size(message)
        if size > _PROPERTIES_MAX:
            raise InvalidArgument("properties", f"{size} bytes", f"at most {_PROPERTIES_MAX}: brokers add their own")
    except InvalidArgument as error:
        return str(error)
    return None


@cache
def _builder() -> MessageBuilder:
    from orbitmq.spark.options import parse_write_options
    from orbitmq.spark.writing.messages import MessageBuilder

    return MessageBuilder(parse_write_options({"nameServer": "none:1", "topic": "any", "rowIds": "false"}), "")


def sent(spark: SparkSession, cluster: Cluster, plan: ContractPlan) -> DataFrame:
    """Return where the messages in quarantine come from: the column `origin`."""
    from pyspark.sql import functions as f

    reader = spark.read.format("rocketmq").options(**cluster.options(plan.quarantine), columns="properties")
    found = reader.load().select(f.col("properties")[ORIGIN].alias("origin"))
    return found.where(f.col("origin").startswith(f"{plan.topic}/"))


def origin() -> Column:
    """Return the place that a message comes from, as text."""
    from pyspark.sql import functions as f

    return f.concat_ws("/", *_PLACE)


def _is_free(name: Column, _value: Column) -> Column:
    return ~name.isin(REASON, ORIGIN)


def _subject(plan: ContractPlan) -> dict[str, str]:
    declared = {"quarantine": plan.quarantine, "contract": plan.contract.digest}
    return {"job": "contracts", "topic": plan.topic, "start": plan.start, **declared}


def _check_quarantine(cluster: Cluster, plan: ContractPlan) -> None:
    if plan.quarantine == plan.topic:
        raise ConfigError("quarantine", plan.quarantine, "another topic than the one that is judged")
    if not cluster.has_topic(plan.quarantine):
        wanted = f"a topic that exists: orbitmq topic create {plan.quarantine}"
        raise ConfigError("quarantine", plan.quarantine, wanted)


def _show_reasons(spark: SparkSession, plan: ContractPlan, screen: Screen) -> None:
    from pyspark.sql import functions as f

    if not has_rows(plan.bad):
        return
    counts = spark.read.parquet(str(plan.bad)).groupBy("reason").count().orderBy(f.desc("count"), "reason")
    rows = [(row["reason"], row["count"]) for row in counts.limit(_REASONS_SHOWN).collect()]
    screen.table(f"Messages of {plan.topic} that break the contract", ("reason", "messages"), rows)


def _check_sent(spark: SparkSession, cluster: Cluster, plan: ContractPlan, first_batch: int | None) -> CheckResult:
    """Return True if the bad messages of this run are in quarantine once each; retention may have taken older ones."""
    from pyspark.sql import functions as f

    if first_batch is None or not has_rows(plan.bad):
        return CheckResult(True, "bad messages of this run, each in quarantine once: 0 of 0")
    bad = spark.read.parquet(str(plan.bad)).where(f.col("batch") >= batch_name(first_batch))
    there = sent(spark, cluster, plan).groupBy("origin").count()
    row = (
        bad.select(origin().alias("origin"), "notSent")
        .join(there, "origin", "left")
        .agg(
            f.count(f.lit(1)).alias("all"),
            f.count_if(f.col("count") == 1).alias("once"),
            f.count_if(f.isnotnull("notSent") & f.isnull("count")).alias("left_out"),
        )
        .collect()[0]
    )
    told = f", and {row['left_out']:,} only in bad/, which cannot be sent" if row["left_out"] else ""
    claim = f"bad messages of this run, each in quarantine once: {row['once']:,} of {row['all']:,}{told}"
    return CheckResult(row["once"] + row["left_out"] == row["all"], claim)
