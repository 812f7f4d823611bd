"""The job `alerts`: what servers say of themselves, looked at as a stream; each incident is told once to a topic, also over a kill.

The topic is the job's memory: at its start, and after a sending that failed, it reads there which incidents are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from orbitmq.address import parse_name_servers
from orbitmq.admin.monitoring import ask_broker_health, ask_brokers, ask_health
from orbitmq.clock import now_ms
from orbitmq.errors import ClientError, ConfigError, InvalidArgument, JobFailed, RouteNotFound
from orbitmq.model.check_result import CheckResult
from orbitmq.monitoring.alerts import Alert
from orbitmq.net.loop import run
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.security.client_security import load_security
from orbitmq.spark.jobs.incidents import (
    BEGUN,
    ClusterSample,
    Incident,
    Notice,
    find_incidents,
    find_notices,
    open_incidents,
    repeated,
)
from orbitmq.spark.jobs.runtime.cluster import Cluster
from orbitmq.spark.jobs.runtime.screen import Screen

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIMEOUT_MS = 5_000
_Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


def look_at(cluster: Cluster) -> ClusterSample:
    """Ask all servers at the same time; one that does not answer in time is left out.

    Raises:
        ConfigError: the security file cannot be used.
    """

    async def work() -> ClusterSample:
        pool = ConnectionPool(name="admin", **load_security(cluster.security)._asdict())
        try:
            return await _look(pool, parse_name_servers(cluster.name_servers))
        finally:
            await pool.close()

    return run(work())


def alert_in(document: Mapping[str, Any]) -> Alert:
    """Return the alert of a health document."""
    return Alert(document["rule"], document["reason"], tuple(document.get("subjects", ())))


async def _look(pool: ConnectionPool, name_servers: tuple[str, ...]) -> ClusterSample:
    answers: dict[str, list[Alert]] = {}
    brokers: set[str] = set()

    async def ask(address: str, question: _Ask) -> None:
        try:
            health = await question(pool, address, timeout_ms=TIMEOUT_MS)
            answers[address] = [alert_in(alert) for alert in health["alerts"]]
            if question is ask_health:
                brokers.update(await ask_brokers(pool, address, timeout_ms=TIMEOUT_MS))
        except (ClientError, InvalidArgument):  # any client may register a broker, also at an address that is none
            pass

    await asyncio.gather(*(ask(address, ask_health) for address in name_servers))
    await asyncio.gather(*(ask(address, ask_broker_health) for address in brokers))
    return ClusterSample(answers, frozenset(name_servers))


_LINE_EVERY = 30
"""Looks after which the screen says that there is nothing new."""
_LOOK_S = 1


class AlertPlan(NamedTuple):
    """What is told where.

    Args:
        topic: of the notices.
        every_s: between two looks.
        looks: the job ends after so many; 0: it is ended by Ctrl-C.
    """

    topic: str
    every_s: int
    looks: int


def watch(spark: SparkSession, cluster: Cluster, plan: AlertPlan, screen: Screen) -> list[CheckResult]:
    """Look at a cluster again and again, and tell of incidents; at the end, return what the notices were checked for.

    Raises:
        JobFailed: Spark's query failed.
        ConfigError: there is no such topic.
        ClientError: the cluster cannot be asked.
    """
    try:
        cluster.topic_stats(plan.topic)
    except RouteNotFound:
        wanted = f"a topic that exists: orbitmq topic create {plan.topic}"
        raise ConfigError("alert topic", plan.topic, wanted) from None
    watcher = Watcher(spark, cluster, plan, screen)
    if plan.looks:
        _run(spark, plan, watcher)
    else:
        with suppress(KeyboardInterrupt):
            _run(spark, plan, watcher)
    screen.step("checking")
    return check_notices(read_notices(spark, cluster, plan.topic), watcher)


class Watcher:
    """Looks and tells.

    `opened` has the incidents that are open; None: the topic has to be asked. `finished` is set after the last look.
    """

    def __init__(self, spark: SparkSession, cluster: Cluster, plan: AlertPlan, screen: Screen) -> None:
        self.looks = 0
        self.finished = Event()
        self.opened: dict[Incident, Notice] | None = None
        self._spark = spark
        self._cluster = cluster
        self._plan = plan
        self._screen = screen

    def look(self, _rows: DataFrame, _number: int) -> None:
        """Look once; Spark calls it for each micro-batch."""
        from pyspark.errors import PySparkException

        if self.finished.is_set():
            return
        try:
            if self.opened is None:
                self.opened = open_incidents(read_notices(self._spark, self._cluster, self._plan.topic))
                self._screen.step(f"watching: {len(self.opened):,} incidents are open")
            self._tell(self.opened)
        except PySparkException as error:  # the brokers of the topic may be the incident
            self.opened = None
            self._screen.step(f"not told, and tried again: {str(error).strip().splitlines()[0]}")
        self.looks += 1
        if self.looks == self._plan.looks:
            self.finished.set()

    def _tell(self, opened: dict[Incident, Notice]) -> None:
        found = look_at(self._cluster)
        notices = find_notices(opened, found, now_ms())
        if notices:
            send_notices(self._spark, self._cluster, self._plan.topic, notices)
        for notice in notices:
            self._screen.step(f"{notice.state}: {notice.rule} {notice.subject} ({notice.reason})")
        self.opened = open_incidents([*opened.values(), *notices])
        if self.looks % _LINE_EVERY == 0 and not notices:
            self._screen.step(f"{len(found.answers):,} servers answer, {len(find_incidents(found)):,} alerts hold")


def send_notices(spark: SparkSession, cluster: Cluster, topic: str, notices: list[Notice]) -> None:
    """Send notices as messages: tag is the state, key the incident, the body a JSON document."""
    rows = [(orjson.dumps(notice._asdict()), notice.state, [_key(notice)], notice.subject) for notice in notices]
    letters = spark.createDataFrame(rows, "body binary, tags string, keys array<string>, shardingKey string")
    writer = letters.coalesce(1).write.format("rocketmq").mode("append")
    writer.options(**cluster.options(topic), rowIds="false").save()


def read_notices(spark: SparkSession, cluster: Cluster, topic: str) -> list[Notice]:
    """Return the notices that a topic has; other messages in it are passed over."""
    rows = spark.read.format("rocketmq").options(**cluster.options(topic), columns="body").load().collect()
    return [notice for notice in (_notice(bytes(row["body"])) for row in rows) if notice is not None]


def check_notices(notices: list[Notice], watcher: Watcher) -> list[CheckResult]:
    """Return whether each incident was told once, and all that are open are known."""
    begun = sum(notice.state == BEGUN for notice in notices)
    twice = repeated(notices)
    opened = open_incidents(notices)
    return [
        CheckResult(
            not twice, f"each of {begun - len(twice):,} incidents was told once: {len(twice):,} were told again"
        ),
        CheckResult(
            watcher.opened is not None and opened.keys() == watcher.opened.keys(),
            f"the topic knows what is open: {len(opened):,} incidents",
        ),
    ]


def _run(spark: SparkSession, plan: AlertPlan, watcher: Watcher) -> None:
    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    query = ticks.writeStream.foreachBatch(watcher.look).trigger(processingTime=f"{plan.every_s} seconds").start()
    try:
        # Not awaitTermination: py4j answers a Ctrl-C in it with a trace.
        while query.isActive and not watcher.finished.wait(_LOOK_S):
            pass
        error = query.exception()
    finally:
        query.stop()
    if error is not None:
        raise JobFailed(str(error).splitlines()[0]) from error


def _key(notice: Notice) -> str:
    return f"{notice.rule}/{notice.subject}/{notice.begun_ms}".replace(" ", "_")


def _notice(body: bytes) -> Notice | None:
    try:
        document = orjson.loads(body)
        return Notice(**document) if isinstance(document, dict) else None
    except (orjson.JSONDecodeError, TypeError):
        return None
