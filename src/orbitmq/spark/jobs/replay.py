"""The job `replay`: messages out of Parquet files or a CommitLog go to a topic again, at a rate, those of each key in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.admin.dead_letters import own_properties
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.job_directory import check_claimable, claimed, held
from orbitmq.model.check_result import CheckResult
from orbitmq.model.message import Message, PropertyName, priority_of, split_keys
from orbitmq.spark.jobs.archive import check_finished, has_rows
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.directories import HadoopDirectory
from orbitmq.spark.jobs.resend_positions import PLACE, check_resent
from orbitmq.spark.jobs.resending import ResendTask, Row, resend
from orbitmq.spark.jobs.screen import Screen
from orbitmq.store.inspection.layout import log_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (*PLACE, "storeTimestamp", "body", "properties", "tags", "keys", "flag")
_DECODE_ERROR = "decodeError"
_TYPES = {
    "queueOffset": "bigint",
    "storeTimestamp": "timestamp",
    "body": "binary",
    "properties": "map<string,string>",
    "tags": "string",
    "keys": "string",
}


class ReplayPlan(NamedTuple):
    """What is replayed to where.

    Args:
        source: a directory of Parquet files, a broker's store, or its `commitlog`; or the URI of Parquet files.
        topic: where messages go.
        from_topic: only messages of this topic; None: all that the files have, which a CommitLog does not allow.
        directory: keeps how far the job is.
        rate: messages in a second.
        begin: only messages that were stored then or later; None: from the first one on.
        end: only messages that were stored before; None: to the last one.
        skip_refused: as `ResendTask`.
    """

    source: Path | str
    topic: str
    from_topic: str | None
    directory: Path
    rate: int
    rows_per_checkpoint: int
    begin: datetime | None = None
    end: datetime | None = None
    skip_refused: bool = False

    @property
    def subject(self) -> dict[str, str]:
        """What a directory remembers that it is for: one that is for other messages or another topic is refused."""
        times = {"begin": self.begin, "end": self.end}
        given = {name: time.isoformat() for name, time in times.items() if time is not None}
        return {
            "job": "replay",
            "source": str(self.source),
            "topic": self.topic,
            "from": self.from_topic or "",
            **given,
        }


def check_plan(cluster: Cluster, plan: ReplayPlan) -> None:
    """Find out before Spark starts what the job would refuse, but for files that only Spark can reach.

    Raises: as `replay`.
    """
    if plan.begin is not None and plan.end is not None and plan.begin >= plan.end:
        raise ConfigError("to", plan.end.isoformat(), f"a time behind from, {plan.begin.isoformat()}")
    if isinstance(plan.source, Path):
        if _is_log(plan.source):
            if plan.from_topic is None:
                raise ConfigError("from-topic", None, "a topic: a CommitLog has those of the whole broker")
        elif next(plan.source.glob("**/*.parquet"), None) is None:
            raise ConfigError("source", str(plan.source), "a directory with Parquet files, or with a CommitLog")
    cluster.topic_stats(plan.topic)  # it is there: a replay makes no topic
    check_claimable(plan.directory, plan.subject)


def replay(spark: SparkSession, cluster: Cluster, plan: ReplayPlan, screen: Screen) -> list[CheckResult]:
    """Send what the files have and was not sent yet; return what was checked.

    Raises:
        JobFailed: messages could not be sent, or another run is under way.
        ConfigError: there are no such files, or the directory is for something else.
        ClientError: the cluster cannot be asked.
    """
    check_plan(cluster, plan)
    with _opened(spark, plan) as rows, claimed(plan.directory, plan.subject):
        screen.step(f"replaying {plan.source} to {plan.topic}, {plan.rate:,} messages a second")
        work = ResendTask(
            rows,
            lambda row: message_again(row, plan.topic),
            [plan.topic],
            plan.directory,
            plan.rate,
            plan.rows_per_checkpoint,
            plan.skip_refused,
        )
        before, after = resend(spark, cluster, work, screen)
        screen.step("checking")
        return check_resent(spark, cluster, rows, work.topics, before, after)


def message_again(row: Row, topic: str) -> Message:
    """Return a message as its sender made it, for a topic.

    Raises:
        InvalidArgument: its body cannot be decoded, or no message can be made of the row.
    """
    found = row["properties"] or {}
    if (reason := row[_DECODE_ERROR]) is not None:
        raise InvalidArgument("body", f"{len(row['body'])} bytes", f"one that can be decoded ({reason})")
    return Message(
        topic,
        row["body"],
        row["tags"] or None,
        split_keys(row["keys"] or ""),
        own_properties(found),
        row["flag"] or 0,
        sharding_key=found.get(PropertyName.SHARDING_KEY),
        priority=priority_of(found),
    )


@contextmanager
def _opened(spark: SparkSession, plan: ReplayPlan) -> Iterator[DataFrame]:
    """Give the rows of the files; the archive does not change meanwhile."""
    if isinstance(plan.source, str):
        directory = HadoopDirectory(spark, plan.source)
        with directory.held():
            if not has_rows(directory):
                raise ConfigError("source", plan.source, "an archive: Parquet files in date=*/batch=*")
            check_finished(directory)
            yield _rows(spark, plan)
    elif _is_log(plan.source):
        options = {"commitLogPath": str(plan.source), "topic": str(plan.from_topic), "includeDecodeError": "true"}
        yield _chosen(spark.read.format("rocketmq").options(**options).load(), plan)
    else:
        with held(plan.source):
            check_finished(plan.source)
            yield _rows(spark, plan)


def _is_log(source: Path) -> bool:
    return bool(log_files(source) or log_files(source / "commitlog"))


def _rows(spark: SparkSession, plan: ReplayPlan) -> DataFrame:
    from pyspark.sql import functions as f

    rows = spark.read.parquet(str(plan.source))
    found = dict(rows.dtypes)
    if missing := [name for name in COLUMNS if name not in found]:
        raise ConfigError("source", str(plan.source), f"files with the columns {', '.join(missing)}, too")
    if wrong := [f"{name} {kind}, not {found[name]}" for name, kind in _TYPES.items() if found[name] != kind]:
        raise ConfigError("source", str(plan.source), f"files with columns of a topic's types: {'; '.join(wrong)}")
    if _DECODE_ERROR not in found:  # files of a query that did not ask for it
        rows = rows.withColumn(_DECODE_ERROR, f.lit(None).cast("string"))
    return _chosen(rows if plan.from_topic is None else rows.where(rows["topic"] == plan.from_topic), plan)


def _chosen(rows: DataFrame, plan: ReplayPlan) -> DataFrame:
    """Return the rows of the plan's time, and the columns that are needed; files of a log do not tell whose they are."""
    if plan.begin is not None:
        rows = rows.where(rows["storeTimestamp"] >= plan.begin)
    if plan.end is not None:
        rows = rows.where(rows["storeTimestamp"] < plan.end)
    return rows.select(*COLUMNS, _DECODE_ERROR).fillna({"brokerName": ""})
