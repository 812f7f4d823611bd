"""`orbitmq job dead-letters` on real flights: a group has rejected those that left late; killed in the middle of fixing."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path

import orjson
import pytest

from examples.quickstart.flights import find_flights, read_flights, to_message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.errors import JobFailed
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.dead_letters import FixPlan, fix_letters, inspect_letters
from orbitmq.spark.jobs.fix_functions import REASON, TOPIC, load_fix
from orbitmq.spark.jobs.resend_positions import load_progress
from orbitmq.spark.jobs.screen import Screen
from spark.jobs.killing import is_killed, kill_as_soon_as, start_job

pytestmark = pytest.mark.spark

FLIGHTS = 1_200
FIXES = """
import json


def repair(body, properties):
    flight = json.loads(body)
    if flight["dep_time"] is None:
        return None
    flight["delay"] = 60 // (flight["dep_delay"] - 16)
    return json.dumps(flight).encode()
"""


@pytest.fixture
def rejected(cluster, topic):
    """Send flights to two topics, and let a group reject those that were late or cancelled; return these as messages."""
    names = (topic, f"{topic}-gone")

    async def make():
        async with AdminClient(cluster.name_servers) as admin:
            for name in (*names, f"{topic}-hopeless"):
                await admin.create_topic(TopicConfig(topic=name, read_queue_count=2, write_queue_count=2))

    run(make())
    flights = list(islice(read_flights(find_flights(None, Path(".cache")), 1), FLIGHTS))
    messages = [
        replace(to_message(names[number % 50 == 0], flight), sharding_key=str(flight["carrier"]))
        for number, flight in enumerate(flights)
    ]
    bad = [message for message, flight in zip(messages, flights, strict=True) if is_late(flight)]
    with Producer("flights", cluster.name_servers) as producer:
        producer.send_all(messages)
    left = len(messages)
    with PushConsumer(f"{topic}-tower", cluster.name_servers) as consumer:
        for name in names:
            consumer.subscribe(name)
        for batch in consumer:
            for message in batch:
                if is_late(orjson.loads(message.body)):
                    batch.reject(message)
            batch.commit()
            left -= len(batch)
            if not left:
                break
    return bad


def is_late(flight):
    return flight["dep_delay"] is None or flight["dep_delay"] > 15


@pytest.fixture
def plan(topic, tmp_path, monkeypatch):
    name = "fixes_" + topic.replace("-", "_")
    (tmp_path / f"{name}.py").write_text(FIXES)
    monkeypatch.syspath_prepend(str(tmp_path))
    fix = load_fix(f"{name}:repair")
    return FixPlan(f"{topic}-tower", fix, f"{name}:repair", f"{topic}-hopeless", tmp_path / "fixed", 1_000_000, 10)


def stored(cluster, *topics):
    return sum(stats.max_offset for topic in topics for stats in cluster.topic_stats(topic).values())


class KeepingScreen(Screen):
    """A screen that keeps the rows of its table."""

    def table(self, title, columns, rows):
        self.rows = rows


def all_hold(verdicts):
    assert all(verdict.holds for verdict in verdicts), verdicts


@is_killed
@pytest.mark.interop
def test_each_letter_is_sent_again_once_though_the_job_is_killed(
    spark, cluster, topic, rejected, plan, read, tmp_path, is_killed
):
    gone = f"{topic}-gone"
    again = [message for message in rejected if message.topic != gone]
    screen = KeepingScreen()
    all_hold(inspect_letters(spark, cluster, plan.group, screen))
    counts = {row[0]: tuple(row[1:3]) for row in screen.rows}
    assert counts == {topic: ("attempts: 1", len(again)), gone: ("attempts: 1", len(rejected) - len(again))}
    assert all(datetime.fromisoformat(oldest) <= datetime.fromisoformat(newest) for *_, oldest, newest in screen.rows)
    delete(cluster, gone)
    before = stored(cluster, topic)
    with pytest.raises(JobFailed, match=f"no NameServer knows the topic {gone}"):
        fix_letters(spark, cluster, plan, Screen())
    assert stored(cluster, topic, plan.quarantine) == before
    plan = plan._replace(quarantines_gone=True)
    if is_killed:
        words = (
            plan.group,
            plan.directory,
            "--fix",
            plan.fix_name,
            "--quarantine",
            plan.quarantine,
            "--quarantine-gone",
        )
        job = start_job(
            cluster.name_servers, "dead-letters", *words, "--rate", 40, "--rows-per-checkpoint", 30, directory=tmp_path
        )
        kill_as_soon_as(job, lambda: stored(cluster, topic, plan.quarantine) >= before + 50, 0.2)
        sent = stored(cluster, topic, plan.quarantine) - before
        assert 30 <= sum(load_progress(plan.directory / "_progress.json").done.values()) <= sent < len(rejected)

    all_hold(fix_letters(spark, cluster, plan, Screen()))

    assert stored(cluster, topic, plan.quarantine) == before + len(rejected)
    letters = [row for row in read().collect() if "DLQ_ORIGIN_MESSAGE_ID" in row["properties"]]
    assert sorted(flown(row["body"]) for row in letters) == sorted(
        flown(message.body) for message in again if is_fixable(message)
    )
    assert all("delay" in orjson.loads(row["body"]) and row["properties"]["__SHARDINGKEY"] for row in letters)
    hopeless = {flown(row["body"]): row["properties"] for row in read(topic=plan.quarantine).collect()}
    told = {flown(message.body): reason(message, gone) for message in rejected}
    assert {flight: found[REASON] for flight, found in hopeless.items()} == {
        flight: why for flight, why in told.items() if why
    }
    assert {found[TOPIC] for found in hopeless.values()} == {topic, gone}
    all_hold(fix_letters(spark, cluster, plan, Screen()))
    assert stored(cluster, topic, plan.quarantine) == before + len(rejected)


def delete(cluster, topic):
    async def work():
        async with AdminClient(cluster.name_servers) as admin:
            await admin.delete_topic(topic)

    run(work())


def flown(body):
    """Return which flight a body tells of."""
    flight = orjson.loads(bytes(body))
    return flight["carrier"], flight["flight"], flight["origin"], flight["day"]


def is_fixable(message):
    return orjson.loads(message.body)["dep_delay"] not in (None, 16)


def reason(message, gone):
    """Return why a letter goes to quarantine, None for one that does not."""
    if message.topic == gone:
        return f"there is no topic {gone}"
    if is_fixable(message):
        return None
    cancelled = orjson.loads(message.body)["dep_delay"] is None
    return "the function gave it up" if cancelled else "ZeroDivisionError: integer division or modulo by zero"
