"""Claims about the metrics of a broker, scraped over its port or collected from its parts."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from cases import each_case
from orbitmq.address import parse_address
from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.health.group_metrics import WORK_PER_PART
from orbitmq.broker.health.metrics import BrokerMetrics
from orbitmq.broker.monitoring.stats import BrokerStats
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.topic import TopicConfig
from orbitmq.store import StoreIssueKind
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.headers import CreateTopic, HeartbeatRequest, UpdateConsumerOffset, UpdateSubscriptionGroup
from waiting import until

from ..conftest import Harness
from ..parts import Serve

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "broker.md"
Figures = dict[tuple[str, ...], float]
BEAT = Heartbeat(client_id="c1", consumers=(ConsumerInfo(group="g"),), producer_groups=("p",))
NODE = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "a"}


async def get(harness: Any, path: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*parse_address(harness.broker.metrics_address))
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, _, text = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), text


async def scrape(harness: Any) -> Figures:
    """Return every value by name and the values of its own labels, those of the broker taken off."""
    status, text = await get(harness, "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name.startswith("rocketmq"):
                assert {name: labels.pop(name) for name in NODE} == NODE
            found[(sample.name, *(labels[name] for name in sorted(labels)))] = sample.value
    return found


async def test_a_scrape_tells_how_far_timers_are(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for _ in range(2):
            assert (await harness.send("t", properties="TIMER_DELAY_SEC\x01500\x02")).code == 0
        timers = harness.broker.service.sends.timers
        await until(lambda: timers.timers.pending_count == 2)
        timers.timers.lost_count = 3
        found = await scrape(harness)
        assert found["rocketmq_timing_messages", "disk", "local", "t"] == 2
        assert found["rocketmq_timer_enqueue_lag", "disk", "local"] == 0
        assert found["rocketmq_broker_timer_lost_messages_total",] == 3
        assert found["rocketmq_broker_timer_delivered_messages_total",] == 0


async def test_a_scrape_tells_of_dead_letters_by_their_groups(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for topic in ("%DLQ%g", "%DLQ%g", "t"):
            await harness.send(topic, body=b"given up")
        found = await scrape(harness)
        letters = {key: value for key, value in found.items() if key[0] == "rocketmq_send_to_dlq_messages_total"}
        assert letters == {("rocketmq_send_to_dlq_messages_total", "g", "false", "%DLQ%g"): 2}
        assert found["rocketmq_timer_dequeue_latency_milliseconds", "disk", "local"] == 0


async def test_a_scrape_tells_what_a_broker_has_done(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for _ in range(3):
            await harness.send("t", body=b"x" * 100)
        await harness.send("t", body=b"later", properties="DELAY\x018\x02")
        _, records = await harness.pull("t", count_max=2)
        assert len(records) == 2
        await harness.make_group()
        commit = UpdateConsumerOffset(consumer_group="g", topic="t", queue_id=0, commit_offset=1)
        await harness.ask(commit)
        await harness.ask(HeartbeatRequest(), encode_heartbeat(BEAT))
        found = await scrape(harness)
        assert found["rocketmq_messages_in_total", "false", "t"] == 3
        assert found["rocketmq_messages_in_total", "true", "SCHEDULE_TOPIC_XXXX"] == 1
        assert found["rocketmq_messages_out_total", "g", "false", "false", "t"] == 2
        assert found["rocketmq_broker_messages_sent_total",] == 4
        assert found["rocketmq_throughput_in_total", "false", "t"] > 300
        assert found["rocketmq_throughput_out_total", "g", "false", "false", "t"] > 200
        assert found["rocketmq_message_size_count",] == found["rocketmq_message_size_bucket", "1024.0"] == 4
        assert found["rocketmq_message_size_sum",] > 400
        assert found["rocketmq_consumer_lag_messages", "g", "false", "false", "t"] == 2
        (consumers,) = [key for key in found if key[0] == "rocketmq_consumer_connections"]
        assert consumers[1:3] == ("push", "g")
        assert len([key for key in found if key[0] == "rocketmq_producer_connections"]) == 1
        assert found["rocketmq_broker_delayed_messages", "8"] == 1
        assert found["rocketmq_broker_permission",] == 6
        assert found["rocketmq_broker_is_master",] == 1
        assert found["rocketmq_consumer_group_number",] > 0
        assert found["rocketmq_topic_number",] > 1
        assert found["rocketmq_storage_message_reserve_time_milliseconds", "disk", "local"] >= 0
        assert found["rocketmq_broker_log_end_offset",] >= found["rocketmq_broker_log_durable_offset",] >= 0
        assert found["rocketmq_broker_store_writable",] == 1
        assert {kind: found["rocketmq_broker_store_trouble", kind] for kind in StoreIssueKind} == dict.fromkeys(
            StoreIssueKind, 0
        )
        assert found["rocketmq_broker_active_connections",] == 1
        assert found["rocketmq_broker_requests_total", "310", "SEND_MESSAGE_V2"] == 4
        assert 0 < found["rocketmq_broker_store_descriptors",] <= found["rocketmq_broker_store_descriptors_max",]
        assert 0 < found["rocketmq_broker_store_maps",] < found["rocketmq_broker_maps_max",]
        assert found["rocketmq_broker_limit_refusals_total", "parkedPullsMax"] == 0
        assert found["process_open_fds",] > 0


async def test_a_pull_that_waits_and_a_frame_that_is_not_whole_are_seen(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        await harness.send("t")
        waiting = asyncio.create_task(harness.pull("t", queue_offset=1, sys_flag=6, suspend_timeout_ms=60_000))
        await until(lambda: harness.broker.service.delivery.pulls.held_count == 1)
        _, writer = await asyncio.open_connection(*parse_address(harness.broker.address))
        writer.write((1 << 20).to_bytes(4, "big") + bytes(100_000))
        server = harness.broker.running.server
        await until(lambda: server.partial_frames_size > 90_000)
        found = await scrape(harness)
        assert (found["rocketmq_broker_parked_pulls",], found["rocketmq_broker_active_connections",]) == (1, 2)
        assert found["rocketmq_broker_parked_pulls_bytes",] > 0
        assert 90_000 < found["rocketmq_broker_partial_frames_bytes",] <= 100_100
        writer.close()
        await harness.send("t")
        await waiting


async def test_the_pages_of_health_and_readiness_are_next_to_the_metrics(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        status, text = await get(harness, "/healthz")
        document = orjson.loads(text)
        assert (status, document["brokerName"], document["ready"]) == (200, "a", True)
        assert await get(harness, "/readyz") == (200, "ready\n")


async def test_a_broker_that_no_name_server_knows_is_alive_and_not_ready(serve: Serve) -> None:
    async with serve(metrics_port=0, namesrv_addr="127.0.0.1:1") as harness:
        status, text = await get(harness, "/readyz")
        assert (status, text) == (503, "no NameServer has taken the registration: 127.0.0.1:1\n")
        assert (await get(harness, "/healthz"))[0] == 200
        found = await scrape(harness)
        assert (found["rocketmq_broker_name_servers",], found["rocketmq_broker_name_servers_reached",]) == (1, 0)


async def test_without_a_port_there_is_no_http(harness: Harness) -> None:
    assert harness.broker.metrics_address is None


async def test_the_reference_names_every_metric(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        await harness.send("t")
        _, text = await get(harness, "/metrics")
        named = set(re.findall(r"`(rocketmq_\w+)", REFERENCE.read_text(encoding="utf-8")))
        # The comment lines name families without a sample, too; a counter's samples end with _total.
        there = set(re.findall(r"^# TYPE (rocketmq_\w+) \w+$", text, re.MULTILINE))
        assert there == named


def many(topics: int, queues: int, *, limit: int = 50_000) -> BrokerMetrics:
    """Return the metrics of a broker with many queues, each consumed by one group; nothing else of it is asked for."""
    table = {
        f"t{number}": TopicConfig(topic=f"t{number}", read_queue_count=queues, write_queue_count=queues)
        for number in range(topics)
    }
    offsets = GroupOffsets({f"t{number}@g": dict.fromkeys(range(queues), 3) for number in range(topics)})
    service: Any = SimpleNamespace(
        config=BrokerConfig(broker_name="a", metrics_otel_cardinality_limit=limit),
        store=SimpleNamespace(
            queue_ids=lambda topic: [],
            max_offset=lambda topic, queue_id: 5,
            min_offset=lambda topic, queue_id: 0,
            stored_at_ms=lambda topic, queue_id, queue_offset: 1,
        ),
        tables=SimpleNamespace(topics=SimpleNamespace(table=SimpleNamespace(all=table)), offsets=offsets),
        monitoring=SimpleNamespace(stats=BrokerStats(0)),
        delivery=SimpleNamespace(
            pop=SimpleNamespace(revive_log=SimpleNamespace(checkpoints=SimpleNamespace(in_flight={})))
        ),
        clients=SimpleNamespace(members=SimpleNamespace(consumers={}, producers={})),
    )
    server: Any = SimpleNamespace()
    monitor: Any = SimpleNamespace(process_stats=None)
    registrar: Any = SimpleNamespace()
    return BrokerMetrics(service, server, registrar, monitor, lambda: 0)


def lag_samples(metrics: BrokerMetrics) -> list[Any]:
    parts = [part for part in metrics._groups.collect() if part.name == "rocketmq_consumer_lag_messages"]
    return [sample for part in parts for sample in part.samples]


def test_thousands_of_topics_are_looked_at_in_small_parts() -> None:
    metrics = many(2_000, 8)
    parts = [part for part in metrics._of_messages() if part.name == "rocketmq_messages_in"]
    assert len(parts) >= 2_000 * 8 / (WORK_PER_PART + 8)
    assert max(len(part.samples) for part in parts) * 8 < WORK_PER_PART + 8
    assert sum(sample.value for part in parts for sample in part.samples) == 2_000 * 8 * 5
    lags = [sample.value for sample in lag_samples(metrics)]
    assert lags == [16] * 2_000


def test_a_topic_with_thousands_of_queues_ends_its_part() -> None:
    parts = [part for part in many(3, 2 * WORK_PER_PART)._of_messages() if part.name == "rocketmq_messages_in"]
    assert [len(part.samples) for part in parts] == [1, 1, 1, 0]


@each_case((3, 2), (5, 0), (0, 5))
def test_a_setting_bounds_what_is_told_apart_and_the_rest_is_counted(limit: int, left: int) -> None:
    metrics = many(5, 1, limit=limit)
    assert len(lag_samples(metrics)) == 5 - left
    (family,) = metrics._left_out()
    counted = {sample.labels["metric"]: sample.value for sample in family.samples}
    assert counted["rocketmq_consumer_lag_messages"] == counted["rocketmq_messages_in_total"] == left


def test_topics_and_groups_that_come_during_a_scrape_do_no_harm() -> None:
    metrics = many(2_000, 8)
    parts = metrics.collect()
    first = next(parts)
    topics: Any = metrics._service.tables.topics.table.all
    topics["new"] = TopicConfig(topic="new")
    metrics._service.tables.offsets.commit("g", "new", 0, 1, offset_max=1)
    assert [part.name for part, _ in zip(parts, range(10), strict=False)] == [first.name] * 10


async def test_a_scrape_tells_how_long_it_took_to_make_topics_and_groups(serve: Serve) -> None:
    async with serve(metrics_port=0) as harness:
        for topic, perm in (("made", 6), ("made", 4), ("TBW102", 6)):
            header = CreateTopic(
                topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=perm,
                topic_filter_type="SINGLE_TAG",
            )  # fmt: skip
            await harness.ask(header)
        await harness.make_group()
        assert await harness.code(UpdateSubscriptionGroup(), b"{}") != 0
        found = await scrape(harness)
        topic, group = (
            f"rocketmq_{name}_create_execution_time_milliseconds_count" for name in ("topic", "consumer_group")
        )
        assert [found[topic, end] for end in ("success", "failure")] == [2, 1]
        assert [found[group, end] for end in ("success", "failure")] == [1, 1]
