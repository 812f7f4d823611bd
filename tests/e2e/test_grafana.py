"""Grafana's dashboards: what they ask for is what running servers and the exporter show, and Grafana can load them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from orbitmq import Message, Producer, PullConsumer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.exporter.app import Exporter
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.testing import LocalCluster
from promtool import promtool

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
DASHBOARDS = sorted(FOLDER.glob("*.json"))
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds to every series."""
METRIC = re.compile(r"\b((?:rocketmq|orbitmq|process)_\w+|up\b)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
LISTS = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
VALUES = re.compile(r"label_values\((.+), (\w+)\)")


def load(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def queries(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the expressions of a dashboard with their legends."""
    for panel in load(path)["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def uses(expression: str, legend: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of an expression with the labels that it has to have."""
    plain = METRIC.sub(" ", expression)
    found = METRIC.findall(expression)
    lists = {name.strip() for names in LISTS.findall(plain) for name in names.split(",")}
    kept = lists if "by (" in expression or "on (" in expression else set(LEGEND.findall(legend))
    for metric, matchers in found:
        yield metric, set(LABEL.findall(matchers)) | kept


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_grafana_finds_the_fields_that_it_needs(path: Path) -> None:
    board = load(path)
    assert board["uid"] == f"orbitmq-{path.stem}"
    assert board["title"]
    assert board["schemaVersion"] >= 38
    assert board["time"].keys() == {"from", "to"}
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert "datasource" in variables
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, f"{panel['title']} lies over another panel"
        taken |= cells
        if panel["type"] == "row":
            continue
        assert panel["type"] in {"timeseries", "stat", "table"}
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert references
        assert len(references) == len(set(references))
    used = set(re.findall(r"\$(\w+)", " ".join(expression for expression, _ in queries(path))))
    assert used <= variables


def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    expressions = [expression for path in DASHBOARDS for expression, _ in queries(path)]
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(expressions)]
    (tmp_path / "panels.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    done = subprocess.run([promtool(), "check", "rules", tmp_path / "panels.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(expressions) > 40


@pytest.mark.parametrize(
    ("expression", "legend", "used"),
    [
        ('sum by (a) (rate(rocketmq_x{b=~"1", c!="2"}[5m]))', "{{a}}", {"rocketmq_x": {"a", "b", "c"}}),
        ("rocketmq_x / on (a) orbitmq_y", "", {"rocketmq_x": {"a"}, "orbitmq_y": {"a"}}),
        ("rocketmq_x > 3", "{{d}}", {"rocketmq_x": {"d"}}),
    ],
)
def test_metrics_and_labels_of_an_expression_are_found(expression: str, legend: str, used: dict[str, set[str]]) -> None:
    assert dict(uses(expression, legend)) == used


async def test_every_query_asks_for_metrics_and_labels_that_servers_show() -> None:
    shown = await scrape_all()
    missing = []
    for path in DASHBOARDS:
        asked = [use for expression, legend in queries(path) for use in uses(expression, legend)]
        for variable in load(path)["templating"]["list"]:
            if variable["type"] == "query":
                (of, label) = VALUES.fullmatch(variable["definition"]).groups()
                asked += [(metric, labels | {label}) for metric, labels in uses(of)]
        for metric, labels in asked:
            if metric not in shown:
                missing.append(f"{path.stem}: {metric}")
            elif lacking := labels - shown[metric]:
                missing.append(f"{path.stem}: {metric} has no label {', '.join(sorted(lacking))}")
    assert missing == []


async def scrape_all() -> dict[str, set[str]]:
    """Return each metric of a group of brokers, a NameServer in shadow mode and an exporter with its labels, after some traffic."""
    async with LocalCluster(replicas=3, settings={"metrics_port": 0}) as cluster:
        servers = cluster.name_servers
        config = NameServerConfig(bind_address="127.0.0.1", listen_port=0, metrics_port=0, shadow_address=servers)
        name_server, exporter = NameServer(config), Exporter(servers, port=0, interval_s=3600)
        try:
            await name_server.start()
            await exporter.start()
            async with AdminClient(name_server.address) as admin:
                await admin.topic_list()
            async with Producer("makers", servers) as producer, PushConsumer("billing", servers) as consumer:
                await producer.send(Message("orders", b"{}"))
                consumer.subscribe("orders")
                await producer.send(Message("orders", b"{}"))
                async for batch in consumer:
                    batch.reject()
                    break
                async with PullConsumer("billing", servers) as reader:
                    await reader.commit({MessageQueue(RETRY_PREFIX + "billing", "broker-a", 0): 0})
                return await look(cluster, name_server, exporter)
        finally:
            await exporter.stop()
            await name_server.stop()


async def look(cluster: LocalCluster, name_server: NameServer, exporter: Exporter) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {"up": OF_PROMETHEUS}
    wanted = {
        "rocketmq_consumer_lag_messages",
        "rocketmq_broker_tps",
        "rocketmq_broker_qps",
        "rocketmq_producer_tps",
        "rocketmq_consumer_tps",
        "rocketmq_group_get_latency_by_storetime",
        "rocketmq_group_dlqdiff",
        "rocketmq_group_retrydiff",
        "rocketmq_broker_slave_behind_bytes",
    }
    # A server closes connections that rest: on a busy machine just when the next request is sent.
    async with httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0)) as client:
        while any(found.get(name, OF_PROMETHEUS) == OF_PROMETHEUS for name in wanted):
            await asyncio.sleep(0.2)  # rates need samples of several seconds
            await exporter.collect()
            for address in (*cluster.metrics.values(), name_server.metrics_address, exporter.address):
                merge(found, (await client.get(f"http://{address}/metrics")).text)
    return found


def merge(found: dict[str, set[str]], page: str) -> None:
    for family in text_string_to_metric_families(page):
        found.setdefault(family.name, set(OF_PROMETHEUS))  # an alert has no series while it does not hold
        for sample in family.samples:
            labels: Mapping[str, str] = sample.labels
            found.setdefault(sample.name, set()).update(OF_PROMETHEUS, labels)
