"""Claims about the metrics that Prometheus reads."""

from __future__ import annotations

import asyncio
import contextlib
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq.errors import RemoteRefused
from orbitmq.wire import headers

from ..talk import BODY, BROKER, run

REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "nameserver.md"


def test_metrics_count_what_happened_and_parse():
    async def scenario(talk):
        await talk.ask(BROKER, BODY)
        for _ in range(5):
            await talk.ask(headers.GetRouteInfo(topic="t"))
        with pytest.raises(RemoteRefused):
            await talk.ask(headers.GetRouteInfo(topic="none"))
        return await talk.get("/metrics")

    status, text = run(scenario)
    assert status == 200
    found = {
        (sample.name, tuple(sorted(sample.labels.values()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    prefix = "rocketmq_nameserver_"
    assert found[prefix + "registered_brokers", ()] == 1
    assert found[prefix + "registered_topics", ()] == 2
    assert found[prefix + "active_connections", ()] == 1
    assert found[prefix + "route_queries_total", ()] == 6
    assert found[prefix + "route_query_failures_total", ()] == 1
    assert found[prefix + "registrations_total", ()] == 1
    assert found[prefix + "requests_total", ("105", "GET_ROUTEINFO_BY_TOPIC")] == 6
    assert found[prefix + "refusals_total", ("105", "17", "TOPIC_NOT_EXIST")] == 1
    assert found[prefix + "route_changes_total", ("broker joined", "registration")] == 1
    assert found["process_resident_memory_bytes", ()] > 0


def test_the_reference_names_every_metric():
    async def scenario(talk):
        return (await talk.get("/metrics"))[1]

    text = run(scenario, shadow_address="127.0.0.1:1")
    named = set(re.findall(r"`(rocketmq_nameserver_\w+)", REFERENCE.read_text(encoding="utf-8")))
    # The comment lines name families without a sample, too; a counter's samples end with _total.
    there = {
        f"{name}_total" if kind == "counter" and not name.endswith("_total") else name
        for name, kind in re.findall(r"^# TYPE (rocketmq_nameserver_\w+) (\w+)$", text, re.MULTILINE)
    }
    assert there == named


def test_bytes_of_another_protocol_are_counted_by_kind():
    async def scenario(talk):
        host, port = talk.name_server.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        return await talk.get("/metrics")

    assert 'rocketmq_nameserver_connections_ended_total{reason="HTTP/2"} 1.0' in run(scenario)[1]
