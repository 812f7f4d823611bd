"""The main changes of the dashboard over Java's NameServer and broker, clicked in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.chromium import Chromium
from e2e.shop import serving_dashboard
from interop.conftest import JavaCluster
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.wire.bodies.groups import GroupConfig

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
        await browser.click("Go on elsewhere")
        await browser.choose("To", "an offset", FORM)
        await browser.fill("At", "1", FORM)
        await browser.follow("Preview", FORM)
        assert await browser.text("main tbody") == f"{name} {broker} 0\t3\t1\t2\t0"
        await browser.follow("Reset", "main")
        assert f"{group} goes on elsewhere in 1 queues of {name}" in await browser.text(".notice")
        assert "2 messages to come" in await browser.text()
        await browser.open(f"{dashboard.url}topics/{name}")
        await browser.click("Change its settings")
        await browser.follow("Delete the topic", "main")
        assert f"Delete {name} with its 3 messages?" in await browser.text("h1")
        await browser.follow("Delete", "main")
        assert f"{name} is deleted from 1 brokers" in await browser.text(".notice")
        assert await browser.complaints() == []
