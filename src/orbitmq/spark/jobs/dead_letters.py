"""The job `dead-letters`: what a group could not process, as a table; fixed by a function, and sent to its topics again.

Letters stay in the dead-letter topic. Each is sent once, to the topic that it came from or to quarantine, though the job is
killed: the checkpoint says how far it is, and topics tell what was sent behind that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import orjson

from orbitmq.admin.dead_letter_client import dead_letter_topic
from orbitmq.admin.dead_letters import ORIGIN_TOPIC
from orbitmq.errors import ClientError, ConfigError, JobFailed, RouteNotFound
from orbitmq.job_directory import check_claimable, claimed
from orbitmq.model.check_result import CheckResult
from orbitmq.model.message import Message, PropertyName, split_keys
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.contracts import REASON as CONTRACT_REASON
from orbitmq.spark.jobs.fix_functions import REASON, DeadLetterRecord, Fix, fix_letter, is_user_topic
from orbitmq.spark.jobs.resend_positions import PLACE, QUEUE, check_resent
from orbitmq.spark.jobs.resending import ResendTask, Row, resend
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.offsets import format_offsets
from orbitmq.wire.bodies.topics import QueueStats

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_COLUMNS = (*PLACE, "storeTimestamp", "body", "properties", "tags", "keys", "flag", "reconsumeTimes", "decodeError")
_ROWS_SHOWN = 50
REASONS_MAX = 1_000
"""Reasons that are counted each by itself: that of an exception may be another one for each letter."""
_OTHERS = "in quarantine: for other reasons"


class FixPlan(NamedTuple):
    """Whose letters are fixed by what.

    Args:
        fix_name: `module:function`, as it was given.
        quarantine: the topic of letters that are beyond help.
        directory: keeps how far the job is.
        rate: messages in a second.
        quarantines_gone: letters go to quarantine, too, whose topic does not exist; else they end the job.
        skip_refused: as `ResendTask`.
    """

    group: str
    fix: Fix
    fix_name: str
    quarantine: str
    directory: Path
    rate: int
    rows_per_checkpoint: int
    quarantines_gone: bool = False
    skip_refused: bool = False

    @property
    def subject(self) -> dict[str, str]:
        """What a directory remembers that it is for."""
        return {"job": "dead-letters", "group": self.group, "quarantine": self.quarantine}


def check_plan(cluster: Cluster, plan: FixPlan) -> None:
    """Find out before Spark starts what the job would refuse.

    Raises: as `fix_letters`.
    """
    find_letters(cluster, plan.group)
    _check_quarantine(cluster, plan)
    check_claimable(plan.directory, plan.subject)


def inspect_letters(spark: SparkSession, cluster: Cluster, group: str, screen: Screen) -> list[CheckResult]:
    """Show a group's dead letters by the topics that they came from; return what the table was checked for.

    Raises:
        RouteNotFound: the group has none.
        ClientError: the cluster cannot be asked, or the dead letters cannot be read.
    """
    from pyspark.sql import functions as f

    letters, count = _read(spark, cluster, group)
    properties = f.col("properties")
    attempts = f.concat(f.lit("attempts: "), "reconsumeTimes")
    table = (
        letters.groupBy(
            f.coalesce(_origin_topic(), f.lit("?")).alias("topic"),
            f.coalesce(properties[REASON], properties[CONTRACT_REASON], attempts).alias("reason"),
        )
        .agg(f.count(f.lit(1)).alias("letters"), _time(f.min("storeTimestamp")), _time(f.max("storeTimestamp")))
        .orderBy(f.desc("letters"), "topic", "reason")
    )
    rows = table.collect()
    columns = ("topic", "reason", "letters", "oldest (UTC)", "newest (UTC)")
    screen.table(f"Dead letters of {group}, by the topics that they came from", columns, rows[:_ROWS_SHOWN])
    if len(rows) > _ROWS_SHOWN:
        screen.step(f"and {len(rows) - _ROWS_SHOWN:,} rows more")
    found = sum(row["letters"] for row in rows)
    return [CheckResult(found == count, f"letters in the table = letters of the group: {found:,} = {count:,}")]


def fix_letters(spark: SparkSession, cluster: Cluster, plan: FixPlan, screen: Screen) -> list[CheckResult]:
    """Fix what was not fixed yet, and send it; return what was checked.

    Raises:
        JobFailed: messages could not be sent, a letter's topic is not there, or another run is under way.
        ConfigError: there is no such quarantine, or the directory is for something else.
        RouteNotFound: the group has no dead letters.
        ClientError: the cluster cannot be asked.
    """
    check_plan(cluster, plan)
    letters, _ = _read(spark, cluster, plan.group)
    with claimed(plan.directory, plan.subject):
        screen.step(f"fixing dead letters of {plan.group} by {plan.fix_name}")
        origins = [row[0] for row in letters.select(_origin_topic()).distinct().collect()]
        named = (topic for topic in origins if topic and is_user_topic(topic))
        fixer = _LetterFixer(plan, frozenset(topic for topic in named if cluster.has_topic(topic)))
        work = ResendTask(
            letters,
            fixer.message,
            fixer.targets,
            plan.directory,
            plan.rate,
            plan.rows_per_checkpoint,
            plan.skip_refused,
        )
        before, after = resend(spark, cluster, work, screen)
        if fixer.told:
            screen.table("What became of them", ("letters that went", "count"), sorted(fixer.told.items()))
        screen.step("checking")
        return check_resent(spark, cluster, letters, work.topics, before, after)


class _LetterFixer:
    """Fixes the letters of one run, those of each queue in the order of their offsets.

    `told` is what became of how many of them: one that is fixed again, because its sending failed, counts once.
    """

    def __init__(self, plan: FixPlan, topics: frozenset[str]) -> None:
        self.told: Counter[str] = Counter()
        self._next: dict[tuple[object, ...], int] = {}
        """Of each queue the first offset that was not counted yet."""
        self._plan = plan
        self._topics = topics

    @property
    def targets(self) -> list[str]:
        """The topics that letters may go to."""
        return sorted(self._topics | {self._plan.quarantine})

    def message(self, row: Row) -> Message:
        """Return the message that a letter becomes.

        Raises:
            JobFailed: its topic is not there. That may pass, so that nothing else is done with it unless the plan says so.
            InvalidArgument: not even the quarantine can take it.
        """
        letter = DeadLetterRecord(
            bytes(row["body"]),
            row["tags"] or None,
            split_keys(row["keys"] or ""),
            row["properties"] or {},
            row["flag"] or 0,
            row["decodeError"],
        )
        topic = letter.origin_topic
        is_gone = topic is not None and is_user_topic(topic) and topic not in self._topics
        if is_gone and not self._plan.quarantines_gone:
            raise JobFailed(
                f"no NameServer knows the topic {topic}, which letters came from: its brokers are down, or it was deleted. "
                "With --quarantine-gone its letters go to quarantine"
            )
        message, reason = fix_letter(letter, self._plan.fix, self._topics, self._plan.quarantine)
        told = f"to {message.topic}" if reason is None else f"in quarantine: {reason}"
        queue = tuple(row[name] for name in QUEUE)
        if row["queueOffset"] >= self._next.get(queue, 0):
            self._next[queue] = row["queueOffset"] + 1
            is_known = told in self.told or len(self.told) < REASONS_MAX
            self.told[told if is_known else _OTHERS] += 1
        return message


def find_letters(cluster: Cluster, group: str) -> Mapping[MessageQueue, QueueStats]:
    """Return where the queues of a group's dead letters begin and end now.

    Raises:
        RouteNotFound: the group has none.
        ClientError: the cluster cannot be asked, or the dead letters cannot be read.
    """
    topic = dead_letter_topic(group)
    try:
        stats = cluster.topic_stats(topic)
    except RouteNotFound:
        told = f"the group {group} has no dead letters: no NameServer knows the topic {topic}"
        raise RouteNotFound(told) from None
    readable = cluster.readable_stats(topic)
    closed = sorted({queue.broker_name for queue in stats.keys() - readable.keys()})
    if closed:
        raise ClientError(
            f"the dead letters in {topic} cannot be read on {', '.join(closed)}: the topic is write-only there (older brokers "
            f"make it so). Make it readable first: `orbitmq topic create '{topic}' --queues 1 --broker {closed[0]}`"
        )
    return stats


def _read(spark: SparkSession, cluster: Cluster, group: str) -> tuple[DataFrame, int]:
    """Return the letters that there are now, and how many."""
    stats = find_letters(cluster, group)
    bounds = {
        "startingOffsets": {queue: found.min_offset for queue, found in stats.items()},
        "endingOffsets": {queue: found.max_offset for queue, found in stats.items()},
    }
    options = {name: orjson.dumps(format_offsets(offsets)).decode() for name, offsets in bounds.items()}
    options |= {**cluster.options(dead_letter_topic(group)), "includeDecodeError": "true"}
    rows = spark.read.format("rocketmq").options(**options).load()
    return rows.select(*_COLUMNS), sum(found.max_offset - found.min_offset for found in stats.values())


def _time(at: Column) -> Column:
    """Return a time as text, in the zone of the job's session: UTC."""
    from pyspark.sql import functions as f

    return f.date_format(at, "yyyy-MM-dd HH:mm:ss")


def _origin_topic() -> Column:
    from pyspark.sql import functions as f

    properties = f.col("properties")
    return f.coalesce(properties[ORIGIN_TOPIC], properties[PropertyName.RETRY_TOPIC])


def _check_quarantine(cluster: Cluster, plan: FixPlan) -> None:
    if plan.quarantine == dead_letter_topic(plan.group):
        raise ConfigError("quarantine", plan.quarantine, "another topic than that of the dead letters")
    if not cluster.has_topic(plan.quarantine):
        wanted = f"a topic that exists: orbitmq topic create {plan.quarantine}"
        raise ConfigError("quarantine", plan.quarantine, wanted)
