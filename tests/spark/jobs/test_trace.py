"""`orbitmq job trace` on what a producer and two groups have told of real flights."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from itertools import islice
from pathlib import Path

import orjson
import pytest

from examples.quickstart.flights import find_flights, percentile, read_flights, to_message
from orbitmq.admin.client import AdminClient
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.model.topic import TopicConfig
from orbitmq.net.loop import run
from orbitmq.spark.jobs.cluster import Cluster
from orbitmq.spark.jobs.latencies import (
    BEGUN,
    ENDED,
    PUBLISHED,
    SCHEMA,
    Consumptions,
    TraceRow,
    consumptions,
    count_consumptions,
    find_latencies,
)
from orbitmq.spark.jobs.screen import Screen
from orbitmq.spark.jobs.trace import TracePlan, evaluate_traces
from orbitmq.wire.messages.traces import (
    ConsumptionBegun,
    ConsumptionEnded,
    MessageKind,
    Published,
    decode_traces,
    encode_trace,
)
from spark.jobs.killing import is_killed, kill_when, start_job
from spark.undecodable import send_undecodable

pytestmark = pytest.mark.spark

FLIGHTS = 300
GROUPS = ("billing", "tower")


@pytest.fixture
def trace_topic(rocketmq_session, topic):
    """Return a trace topic of this test's own, which clients tell to."""

    async def make():
        async with AdminClient(rocketmq_session.name_servers) as admin:
            for name in (topic, f"{topic}-traces"):
                await admin.create_topic(TopicConfig(topic=name, read_queue_count=2, write_queue_count=2))

    run(make())
    return f"{topic}-traces"


def fly(name_servers, topic, trace_topic, first, end):
    """Send flights, and let both groups consume them; all three tell traces."""
    flights = islice(read_flights(find_flights(None, Path(".cache")), 1), first, end)
    with Producer("airlines", name_servers, trace=True, trace_topic=trace_topic) as producer:
        sent = [producer.send(to_message(topic, flight)).message_id for flight in flights]
    for group in GROUPS:
        left = set(sent)
        with PushConsumer(f"{topic}-{group}", name_servers, trace=True, trace_topic=trace_topic) as consumer:
            consumer.subscribe(topic)
            for batch in consumer:
                left -= {message.message_id for message in batch}
                batch.commit()
                if not left:
                    break


@is_killed
@pytest.mark.interop
def test_latencies_are_those_that_python_finds_though_the_job_is_killed(
    spark, rocketmq_session, topic, trace_topic, read, tmp_path, capsys, is_killed
):
    name_servers, directory = rocketmq_session.name_servers, tmp_path / "ways"
    fly(name_servers, topic, trace_topic, 0, FLIGHTS)
    if is_killed:
        job = start_job(name_servers, "trace", directory, "--trace-topic", trace_topic, "--rows-per-batch", 2)
        kill_when(job, directory, "traces/date=*/batch=b00000001", 1)
    with Producer("sloppy", name_servers) as producer:
        producer.send(to_message(trace_topic, {"carrier": "UA", "flight": 1, "year": 2013, "month": 1, "day": 1}))
    (address,) = rocketmq_session.brokers.values()
    asyncio.run(send_undecodable(address, trace_topic, published_text("X")))
    plan = TracePlan(trace_topic, directory, "earliest", 500_000, 0)

    verdicts = evaluate_traces(spark, Cluster(name_servers), plan, Screen())

    assert "2 trace messages have no trace that can be decoded" in capsys.readouterr().out
    assert all(verdict.holds for verdict in verdicts), verdicts
    report = orjson.loads((directory / "latency.json").read_bytes())
    assert report["undecodable"] == 2
    bodies = [bytes(row["body"]) for row in read(topic=trace_topic).collect()]
    assert {row["group"]: row for row in report["latencies"]} == expected(topic, bodies)
    assert report["consumptions"]["all"] == report["consumptions"]["measured"] == len(GROUPS) * FLIGHTS
    shown = {text.text for text in ET.parse(directory / "latency.svg").iter("{http://www.w3.org/2000/svg}text")}
    assert {f"{topic} → {topic}-{group}" for group in GROUPS} <= shown

    late = evaluate_traces(spark, Cluster(name_servers), plan._replace(since_ms=2**60), Screen())
    assert f"{len(GROUPS) * FLIGHTS} consumptions = 0 with a latency" in late[3].claim
    assert all(verdict.holds for verdict in late), late


def expected(topic, bodies):
    """Return the report's rows by group, computed by plain Python."""
    traces = {trace for body in bodies for trace in decode_traces(body)}
    assert any(isinstance(trace, ConsumptionBegun) for trace in traces)
    sent = {trace.message_id: trace.at_ms for trace in traces if isinstance(trace, Published)}
    rows = {}
    for group in (f"{topic}-{name}" for name in GROUPS):
        ends: dict[str, int] = {}
        for trace in traces:
            if isinstance(trace, ConsumptionEnded) and trace.group == group and trace.is_success:
                ends[trace.message_id] = min(trace.at_ms, ends.get(trace.message_id, trace.at_ms))
        found = [at_ms - sent[message_id] for message_id, at_ms in ends.items()]
        shares = {
            name: pytest.approx(percentile(found, share))
            for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99))
        }
        rows[group] = {"topic": topic, "group": group, "messages": len(found), "max_ms": max(found), **shares}
    return rows


def published_text(message_id):
    return encode_trace(
        Published(7, "r", "p", "t", message_id, None, None, "b:1", 5, 3, MessageKind.NORMAL, "O", True)
    ).encode()


def published(message_id, at_ms, *, is_delayed=False):
    return TraceRow(PUBLISHED, at_ms, "p", "t", message_id, None, 1, True, is_delayed)


def ended(message_id, at_ms, *, group="g", request="R", cost_ms=1, is_success=True):
    return TraceRow(ENDED, at_ms, group, None, message_id, request, cost_ms, is_success, None)


@pytest.mark.interop
def test_only_the_first_success_counts_and_what_has_no_latency_is_told_why(spark, tmp_path):
    told = [
        published("A", 100),
        ended("A", 150, is_success=False),
        ended("A", 400, request="second"),
        ended("A", 400, request="second"),  # told twice
        ended("A", 900, request="third"),
        TraceRow(BEGUN, 130, "old", None, "A", "old", None, None, None),
        ended("A", None, group=None, request="old", cost_ms=20),  # a client before 4.9
        ended("A", None, group=None, request="nobody began it"),
        published("B", 100, is_delayed=True),
        ended("B", 5_000),
        ended("C", 200),
        published("D", 7),
        ended("D", 9),
        published("E", 300),
        ended("E", 290),
    ]
    table = tmp_path / "traces"
    spark.createDataFrame([(told,)], f"traces {SCHEMA}").write.parquet(str(table))

    found = consumptions(spark, table, since_ms=50)

    latencies = {latency.group: (latency.messages, latency.p50_ms, latency.max_ms) for latency in find_latencies(found)}
    assert latencies == {"g": (2, 145.0, 300), "old": (1, 50.0, 50)}
    counts = count_consumptions(spark, table, found)
    assert counts == Consumptions(all=6, measured=3, untold=1, delayed=1, earlier=1, backwards=1, failed=1)
