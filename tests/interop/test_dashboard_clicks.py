"""The dashboard over Java's servers in a real Chromium: its main changes, and names that Java's NameServer takes from anyone."""

from __future__ import annotations

import zlib
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote

import pytest

from e2e.chromium import Chromium
from e2e.shop import serving_dashboard
from e2e.test_dashboard_markup import VECTORS, Attacked
from interop.conftest import JavaCluster
from interop.peers import JavaNameServer
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.codes import ResponseCode
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.headers import RegisterBroker

pytestmark = pytest.mark.proof

TIMEOUT_MS = 30_000
FORM = "details[open] form"


async def test_a_topic_is_created_sent_to_read_from_elsewhere_and_deleted(
    java_cluster: JavaCluster, name: str, tmp_path: Path
) -> None:
    servers, broker, group = java_cluster.name_server.address, java_cluster.broker.name, f"{name}-group"
    async with (
        AdminClient(servers, timeout_ms=TIMEOUT_MS) as admin,
        serving_dashboard(servers, timeout_ms=TIMEOUT_MS) as dashboard,
        Chromium(tmp_path) as browser,
    ):
        await browser.open(f"{dashboard.url}topics")
        await browser.click("Create a topic")
        await browser.fill("Name", name, FORM)
        await browser.fill("Queues", "1", FORM)
        await browser.follow("Create", FORM)
        assert await browser.text("main tbody") == f"{broker}\t–\t1"
        await browser.follow("Create", "main")
        assert f"{name} is made on {broker}" in await browser.text(".notice")
        for number in (1, 2, 3):
            await browser.click("Send a test message")
            await browser.fill("Keys", f"k{number}", FORM)
            await browser.fill("Body", f'{{"order": {number}}}', FORM)
            await browser.follow("Send", FORM)
            assert f"is sent to {name}" in await browser.text(".notice")
        await admin.create_group(GroupConfig(group=group))
        await admin.reset_group(group, name, ResetTo.latest())
        await browser.open(f"{dashboard.url}groups/{group}")
        await browser.click("Reset or clone offsets")
        await browser.choose("To", "an offset", FORM)
        await browser.fill("At", "1", FORM)
        await browser.follow("Preview", FORM)
        assert await browser.text("main tbody") == f"{name} {broker} 0\t3\t1\t2\t0"
        await browser.follow("Reset", "main")
        assert f"the offsets of {group} are reset in 1 queues of {name}" in await browser.text(".notice")
        assert "2 messages to come" in await browser.text()
        await browser.open(f"{dashboard.url}topics/{name}")
        await browser.click("Change its settings")
        await browser.follow("Delete the topic", "main")
        assert f"Delete {name} with its 3 messages?" in await browser.text("h1")
        await browser.follow("Delete", "main")
        assert f"{name} is deleted from 1 brokers" in await browser.text(".notice")
        assert await browser.complaints() == []


async def test_names_that_anyone_registers_with_a_java_nameserver_are_no_markup(
    own_name_server: JavaNameServer, tmp_path: Path
) -> None:
    async with (
        AsyncExitStack() as stack,
        serving_dashboard(own_name_server.address) as dashboard,
        Attacked(tmp_path) as browser,
    ):
        pool = ConnectionPool(name="attacker")
        stack.push_async_callback(pool.close)
        for number, vector in enumerate(VECTORS):
            body = encode_registration(
                DataVersion(0, 0, 1), {name: TopicConfig(topic=name) for name in (vector, "orders")}
            )
            header = RegisterBroker(
                broker_name=vector,
                broker_addr=f"127.0.0.1:{number + 1}",  # none listens there
                cluster_name=vector,
                ha_server_addr=vector,
                broker_id=0,
                body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
            )
            answer = await pool.request(own_name_server.address, header, body)
            assert answer.code == ResponseCode.SUCCESS, (vector, answer.remark)
        browser.url = dashboard.url
        await browser.cdp("Page.setBypassCSP", enabled=True)
        for path in (
            "/",
            "/topics?kind=all",
            "/groups",
            "/waiting",
            "/name-servers",
            "/clients",
            "/doctor?now=1",
            "/users",
        ):
            await browser.visit(path)
        await browser.visit("/topics?kind=all")
        shown = await browser.run("return [...document.querySelectorAll('tbody a')].map((one) => one.textContent)")
        assert {vector.replace("\0", "") for vector in VECTORS} <= set(shown)
        for vector in VECTORS:
            await browser.visit(f"/brokers/{quote(vector, safe='')}")
            await browser.visit(f"/topics/{quote(vector, safe='')}")
