"""`orbitmq job replay` of real flights, out of an archive and out of a CommitLog; killed in the middle."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql.functions import expr, lit

from examples.quickstart.flights import find_flights, read_flights, to_message
from orbitmq.admin.client import AdminClient
from orbitmq.client.producer import Producer
from orbitmq.errors import ConfigError, JobFailed, RouteNotFound
from orbitmq.job_directory import claimed
from orbitmq.model.message import BODY_SIZE_MAX
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.replay import ReplayPlan, replay
from orbitmq.spark.jobs.resend_positions import RESENT_FROM, load_progress
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.tables import write_part
from spark.jobs.killing import is_killed, kill_as_soon_as, start_job
from waiting import wait_for

pytestmark = pytest.mark.spark

FLIGHTS = 2_000
ARCHIVE = {"job": "archive"}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def flown(cluster, topic):
    """Send flights, each carrier a sharding key, every fifth flight without one; return them as messages."""
    flights = islice(read_flights(find_flights(None, Path(".cache")), 1), FLIGHTS)
    messages = [
        replace(
            to_message(topic, flight),
            flag=number,
            properties={"number": str(number)},
            sharding_key=str(flight["carrier"]) if number % 5 else None,
        )
        for number, flight in enumerate(flights)
    ]

    async def work():
        async with AdminClient(cluster.name_servers) as admin:
            for name, count in ((topic, 4), (f"{topic}-again", 5)):  # of the five, only four can be read
                await admin.create_topic(TopicConfig(topic=name, read_queue_count=4, write_queue_count=count))
        async with Producer("flights", cluster.name_servers) as producer:
            for message in messages:
                await producer.send_soon(message)
            await producer.flush()

    run(work())
    return messages


@pytest.fixture
def plan(topic, tmp_path):
    return ReplayPlan(tmp_path / "archive", f"{topic}-again", None, tmp_path / "replay", 1_000_000, 500)


def stored(cluster, topic):
    return sum(stats.max_offset for stats in cluster.topic_stats(topic).values())


def all_hold(verdicts):
    assert all(verdict.holds for verdict in verdicts), verdicts
    assert len(verdicts) == 2


def wait_for_log(spark, plan, count):
    """Return when the broker has confirmed so many messages in its files."""
    options = {"commitLogPath": str(plan.source), "topic": plan.from_topic}
    frame = spark.read.format("rocketmq").options(**options)
    wait_for(lambda: frame.load().count() >= count, f"{count} messages in the broker's files")


def by_key(rows):
    """Return the numbers of flights by their keys, in the order of the topic; a key must be in one queue."""
    found, queues = {}, {}
    for row in sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"])):
        key = row["properties"].get("__SHARDINGKEY") or row["properties"][RESENT_FROM].rsplit("/", 1)[0]
        found.setdefault(key, []).append(int(row["properties"]["number"]))
        assert queues.setdefault(key, row["queueId"]) == row["queueId"]
    return found


def is_again(rows, messages):
    """Say that rows are the messages, as they were sent."""
    found = {int(row["properties"]["number"]): row for row in rows}
    assert len(rows) == len(found) == len(messages)
    for number, message in enumerate(messages):
        row = found[number]
        assert (bytes(row["body"]), row["tags"], row["keys"]) == (message.body, message.tag, message.keys[0])
        assert (row["flag"], row["properties"].get("__SHARDINGKEY")) == (number, message.sharding_key)
    for numbers in by_key(rows).values():
        assert numbers == sorted(numbers)


@is_killed
@pytest.mark.interop
def test_each_flight_is_replayed_once_and_in_order_though_the_job_is_killed(
    spark, cluster, topic, flown, plan, read, tmp_path, is_killed
):
    with claimed(plan.source, ARCHIVE):
        write_part(read(), 0, plan.source)
    if is_killed:
        words = (plan.source, plan.topic, plan.directory, "--rate", 250, "--rows-per-checkpoint", 350)
        job = start_job(cluster.name_servers, "replay", *words)
        kill_as_soon_as(job, lambda: stored(cluster, plan.topic) >= 400 if plan.directory.exists() else False, 0.2)
        at_kill = sum(load_progress(plan.directory / "_progress.json").done.values())
        assert (
            350 <= at_kill <= stored(cluster, plan.topic) < FLIGHTS
        )  # what is behind the checkpoint may not come again

    all_hold(replay(spark, cluster, plan, Screen()))

    is_again(read(topic=plan.topic).collect(), flown)
    all_hold(replay(spark, cluster, plan, Screen()))
    assert stored(cluster, plan.topic) == FLIGHTS
    with claimed(plan.source, ARCHIVE), pytest.raises(JobFailed):
        replay(spark, cluster, plan, Screen())
    with pytest.raises(ConfigError, match="which is for"):
        replay(spark, cluster, plan._replace(from_topic=topic), Screen())


@pytest.mark.interop
def test_a_commit_log_is_replayed_and_what_came_since_by_the_next_run(
    spark, cluster, rocketmq_session, topic, flown, plan, read, send
):
    plan = plan._replace(source=rocketmq_session.data_dir / "broker-a", from_topic=topic)
    wait_for_log(spark, plan, FLIGHTS)
    all_hold(replay(spark, cluster, plan, Screen()))
    is_again(read(topic=plan.topic).collect(), flown)
    late = replace(flown[-1], flag=FLIGHTS, properties={"number": str(FLIGHTS)})
    send([late])
    wait_for_log(spark, plan, FLIGHTS + 1)

    all_hold(replay(spark, cluster, plan, Screen()))

    is_again(read(topic=plan.topic).collect(), [*flown, late])


@pytest.mark.interop
def test_rows_that_cannot_be_sent_are_left_out_and_the_others_replayed(
    spark, cluster, topic, flown, plan, read, capsys
):
    """One row of each kind, and one message with a priority, whose queue the broker chooses."""
    broken = {
        "body": f"if(flag = 10, cast(repeat('x', {BODY_SIZE_MAX + 1}) as binary), if(flag = 20, null, body))",
        "properties": "map_concat(properties, map(if(flag = 30, char(2), 'k'), if(flag = 40, null, 'v')))",
        "tags": "if(flag = 50, 'a||b', tags)",
        "keys": "if(flag = 60, concat('k', char(2)), keys)",
        "decodeError": "if(flag = 70, 'cut short', null)",
    }
    rows = read(includeDecodeError="true")
    rows = rows.selectExpr(*(f"{broken.get(name, name)} as {name}" for name in rows.columns))
    with_priority = rows.withColumn(
        "properties",
        expr(
            "if(flag % 5 = 0, map_concat(properties, map('_SYS_MSG_PRIORITY_', cast(flag div 20 % 4 as string))), properties)"
        ),
    )
    with claimed(plan.source, ARCHIVE):
        write_part(with_priority, 0, plan.source)

    results = replay(spark, cluster, plan, Screen())

    all_hold(results)
    assert f"{FLIGHTS - 7:,} of {FLIGHTS:,}, and 7 left out that cannot be sent" in results[0].claim
    assert capsys.readouterr().out.count(f"left out: {topic}/") == 7
    found = {int(row["properties"]["number"]) for row in read(topic=plan.topic).collect()}
    assert found == set(range(FLIGHTS)) - set(range(10, 80, 10))
    all_hold(replay(spark, cluster, plan, Screen()))


@pytest.mark.interop
def test_only_messages_of_a_range_of_times_are_replayed(spark, cluster, topic, flown, plan, read):
    write_part(read(), 0, plan.source)
    rows = sorted(spark.read.parquet(str(plan.source)).collect(), key=lambda row: row["storeTimestamp"])
    first, last = (rows[at]["storeTimestamp"].astimezone(UTC) for at in (len(rows) // 3, 2 * len(rows) // 3))
    wanted = [row for row in rows if first <= row["storeTimestamp"].astimezone(UTC) < last]

    all_hold(replay(spark, cluster, plan._replace(begin=first, end=last), Screen()))

    found = read(topic=plan.topic).collect()
    assert 0 < len(found) < len(rows)
    assert sorted(row["flag"] for row in found) == sorted(row["flag"] for row in wanted)
    with pytest.raises(ConfigError, match="which is for"):
        replay(spark, cluster, plan._replace(begin=first), Screen())


@pytest.mark.interop
def test_what_cannot_be_replayed_is_one_sentence(spark, cluster, rocketmq_session, topic, flown, plan, read, tmp_path):
    log = rocketmq_session.data_dir / "broker-a"

    def fails(error, **changes):
        with pytest.raises(error) as raised:
            replay(spark, cluster, plan._replace(**changes), Screen())
        return str(raised.value)

    with_damage(read(), tmp_path / "damaged")
    told = fails(JobFailed, source=tmp_path / "damaged", directory=tmp_path / "other")
    assert "error while reading file" in told
    assert "\n" not in told
    (tmp_path / "archive").mkdir()
    assert "with Parquet files, or with a CommitLog" in fails(ConfigError)
    assert "a time behind from" in fails(ConfigError, begin=NOON, end=NOON)
    assert "a CommitLog has those of the whole broker" in fails(ConfigError, source=log)
    fails(RouteNotFound, source=log, from_topic=topic, topic=f"{topic}-none")
    spark.range(3).selectExpr("id as queueOffset").write.parquet(str(tmp_path / "numbers"))
    assert "columns topic, brokerName, queueId, storeTimestamp, body" in fails(ConfigError, source=tmp_path / "numbers")
    for column in ("body", "properties", "queueOffset", "storeTimestamp", "tags", "keys"):
        read().withColumn(column, lit(b"bytes" if column != "body" else "text")).write.parquet(str(tmp_path / column))
        assert f"types: {column} " in fails(ConfigError, source=tmp_path / column)


def with_damage(rows, directory):
    """Write Parquet files, one of which has lost its beginning."""
    rows.write.parquet(str(directory))
    file = min(directory.glob("*.parquet"))
    content = file.read_bytes()
    file.with_name(f".{file.name}.crc").unlink()
    file.write_bytes(content[:4] + b"x" * 1_000 + content[1_004:])
