"""Texts that clients choose never become markup of the dashboard's pages, and its policy stops scripts where one would."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from e2e.chromium import Chromium
from e2e.shop import serving_dashboard
from orbitmq import ConsumeFrom, Message, Producer, PushConsumer, StoredMessage
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.messages.traces import ConsumptionBegun, MessageKind, Published, Trace, encode_trace

pytestmark = pytest.mark.proof

VECTORS = (
    "<script>owned=1</script>",
    "<img src=x onerror=owned=1>",
    '"><svg onload=owned=1>',
    "'><details open ontoggle=owned=1>",
    '" autofocus onfocus=owned=1 x="',
    "javascript:owned=1",
    "<a href=javascript:owned=1>x</a>",
    "</title></textarea><script>owned=1</script>",
    "</option></select></pre></td></table><iframe srcdoc='<script>parent.owned=1</script>'></iframe>",
    "{{ 7 * 7 }}{% raw %}${owned=1}<%= owned=1 %>",
    "\u202e<script>owned=1</script>\u2066",
    "\x00<scr\x00ipt>owned=1</script>",
    '<math><mtext></table><mglyph><style><!--</style><img title="--><img src=x onerror=owned=1>">',
    "<base href=//evil.example><meta http-equiv=refresh content='0;url=javascript:owned=1'>",
    "&lt;script&gt;owned=1&lt;/script&gt;&#60;script&#62;owned=1&#60;/script&#62;",
    "]]><!--><form action=//evil.example><button>x</button></form>",
)
ALL = " ".join(VECTORS).replace("\0", "")
"""Forms cannot hold a NUL: it is in messages alone."""
MARKUP = """
const made = document.querySelectorAll('img, iframe, svg:not(.chart), base, math, object, embed, style, meta[http-equiv], script:not([src^="/static/"])');
const leading = [...document.querySelectorAll('[href], [src], [action]')].filter((one) =>
  new URL(one.href?.baseVal ?? one.getAttribute('href') ?? one.getAttribute('src') ?? one.getAttribute('action'), location).origin !== location.origin);
const handling = [...document.querySelectorAll('*')].filter((one) => [...one.attributes].some((found) => found.name.startsWith('on')));
return [window.owned ? 'a script ran' : '', ...[...made, ...leading, ...handling].map((one) => one.outerHTML)].filter(Boolean);
"""
INSERT = (
    "document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=/nothing onerror=\"window.owned = 1\">')"
)


class Attacked(Chromium):
    """A browser whose pages must be harmless even where the policy does not hold: escaping alone protects them."""

    url: str

    async def visit(self, path: str, **query: str) -> None:
        """Open a page of the dashboard, and look for markup of others."""
        await self.open(self.url.rstrip("/") + path + (f"?{urlencode(query)}" if query else ""))
        await self.check(path)

    async def check(self, where: str) -> None:
        """Look for markup of others on the page."""
        assert await self.run(MARKUP) == [], where
        assert "orbitmq" in await self.run("return document.title")


async def fill(cluster: LocalCluster) -> list[str]:
    """Send every vector in every part of a message, and in traces and dead letters; return the messages' ids."""
    ids = []
    async with AdminClient(cluster.name_servers) as admin, Producer("makers", cluster.name_servers) as producer:
        for topic in ("orders", "%DLQ%billing"):
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
        for vector in VECTORS:
            properties = {"p": vector, vector: "p", "DLQ_ORIGIN_TOPIC": vector, "DLQ_ORIGIN_MESSAGE_ID": vector}
            key = vector.replace(" ", "_")
            for topic in ("orders", "%DLQ%billing"):
                sent = await producer.send(Message(topic, vector.encode(), vector, [key], properties))
                ids.append(sent.message_id)
            told = (vector, vector, "orders", ids[-2], vector, key, vector)
            traces: list[Trace] = [
                Published(1, *told, 1, 1, MessageKind.NORMAL, vector, is_success=True),
                ConsumptionBegun(2, vector, vector, vector, ids[-2], 0, key),
            ]
            body = "".join(map(encode_trace, traces)).encode()
            await producer.send(Message("RMQ_SYS_TRACE_TOPIC", body, keys=[ids[-2]]))
        await producer.send(Message("orders", json.dumps(VECTORS).encode()))
    return ids[::2]


async def test_no_page_makes_markup_of_a_message_or_of_a_client(tmp_path: Path) -> None:
    async def fail(_message: StoredMessage) -> None:
        raise ValueError(ALL)

    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(LocalCluster(data_dir=tmp_path / "data"))
        ids = await fill(cluster)
        consumer = PushConsumer(
            "billing", cluster.name_servers, message_handler=fail, instance=ALL, consume_from=ConsumeFrom.FIRST
        )
        consumer.subscribe("orders", tag=" || ".join(vector.replace(" ", "/") for vector in VECTORS))
        await stack.enter_async_context(consumer)
        dashboard = await stack.enter_async_context(serving_dashboard(cluster.name_servers))
        async with AdminClient(cluster.name_servers) as admin:
            while not (members := (await admin.group_status("billing")).clients):
                await asyncio.sleep(0.05)
        assert ALL in members[0].client_id
        member = f"/groups/billing/members/{quote(members[0].client_id, safe='')}"
        browser = await stack.enter_async_context(Attacked(tmp_path / "home"))
        await browser.cdp("Page.setBypassCSP", enabled=True)
        browser.url = dashboard.url
        pages = (
            "/",
            "/topics",
            "/topics/orders",
            "/groups",
            "/groups/billing",
            "/clients",
            "/waiting",
            "/name-servers",
        )
        for path in (*pages, "/dead-letters", "/dead-letters/billing", "/doctor?now=1", member, f"{member}?stacks=1"):
            await browser.visit(path)
        assert ALL in await browser.run("return document.querySelector('h1').textContent")
        for vector, message_id in zip(VECTORS, ids, strict=True):
            await browser.visit(f"/topics/orders/messages/{message_id}")
            if "\0" not in vector:
                assert await browser.run("return document.querySelector('pre').textContent") == vector
                assert vector in await browser.run("return document.querySelector('.way').textContent")
        await browser.click("Let a client of billing consume it")
        await browser.follow("Consume", "details[open] form")
        await browser.check("the question")
        await browser.follow("Consume", "main")
        await browser.check("the notice")
        assert ALL in await browser.run("return document.querySelector('.notice').textContent")
        assert "CR_THROW_EXCEPTION" in await browser.text(".notice")


PAGES_WITH_A_NAME = (
    "/topics/",
    "/groups/",
    "/brokers/",
    "/dead-letters/",
    "/",
    "/topics/orders/messages/",
    "/groups/billing/members/",
)
PAGES_WITH_A_FIELD = (
    ("/topics", "q"), ("/topics", "kind"), ("/topics", "page"), ("/groups", "q"), ("/clients", "q"), ("/dead-letters/billing", "q"),
    ("/dead-letters/billing", "from"), ("/name-servers", "q"), ("/name-servers", "at"), ("/messages", "topic"), ("/login", "to"),
)  # fmt: skip
FORMS = (
    ("/topics", "topic"), ("/groups", "cluster"), ("/topics/orders", "perm"), ("/groups/billing", "at"), ("/brokers/broker-a", "value"),
)  # fmt: skip
SUBMIT = """
const field = document.querySelector(`form[method=post] [name=${arguments[0]}]`);
if (field.tagName === 'SELECT') { field.options[0].value = arguments[1]; field.selectedIndex = 0; } else field.value = arguments[1];
document.isLeft = true;
field.form.submit();
"""


async def test_no_page_makes_markup_of_an_address_or_a_field(tmp_path: Path) -> None:
    async with (
        LocalCluster(data_dir=tmp_path / "data") as cluster,
        AdminClient(cluster.name_servers) as admin,
        serving_dashboard(cluster.name_servers) as dashboard,
        Attacked(tmp_path / "home") as browser,
    ):
        browser.url = dashboard.url
        await browser.cdp("Page.setBypassCSP", enabled=True)
        for topic in ("orders", "%DLQ%billing"):
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
        await admin.create_group(GroupConfig(group="billing"))
        await admin.reset_group("billing", "orders", ResetTo.earliest())
        for vector in VECTORS:
            for path in PAGES_WITH_A_NAME:
                await browser.visit(path + quote(vector, safe=""))
            for path, name in PAGES_WITH_A_FIELD:
                await browser.visit(path, **{name: vector})
            await browser.visit("/messages", topic=vector, q=vector)
            await browser.visit("/messages", topic="orders", q=vector)
            for path, name in FORMS:
                await browser.visit(path)
                await browser.run(SUBMIT, name, vector)
                await browser.arrive()
                await browser.check(f"the answer to {name}={vector} of {path}")
        await browser.visit("/topics/orders")
        await browser.fill("or SQL92", ALL, "#tail")
        await browser.click("Start")
        await browser.until("return document.getElementById('tail-stop').disabled")
        assert "<script>" in await browser.text("#tail-state")
        await browser.check("the refusal of the live tail")


async def test_the_live_tail_makes_no_markup_of_messages(tmp_path: Path) -> None:
    async with (
        LocalCluster(data_dir=tmp_path / "data") as cluster,
        Producer("makers", cluster.name_servers) as producer,
        serving_dashboard(cluster.name_servers) as dashboard,
        Attacked(tmp_path / "home") as browser,
    ):
        browser.url = dashboard.url
        await producer.send(Message("orders", b"first"))
        await browser.cdp("Page.setBypassCSP", enabled=True)
        await browser.visit("/topics/orders#tail")
        seen: set[str] = set()
        while seen < set(VECTORS):
            for vector in VECTORS:
                message = Message("orders", vector.encode(), vector, [vector.replace(" ", "_")], {"p": vector})
                await producer.send(message)
            seen |= set(
                await browser.run(
                    "return [...document.querySelectorAll('#tail-rows td.body')].map((cell) => cell.textContent)"
                )
            )
        await browser.check("the live tail")


@pytest.mark.parametrize("holds", [True, False])
async def test_the_policy_stops_a_script_that_is_in_a_page(tmp_path: Path, holds: bool) -> None:
    async with (
        LocalCluster(data_dir=tmp_path / "data") as cluster,
        serving_dashboard(cluster.name_servers) as dashboard,
        Chromium(tmp_path / "home") as browser,
    ):
        await browser.cdp("Page.setBypassCSP", enabled=not holds)
        await browser.open(dashboard.url)
        await browser.run(INSERT)
        if holds:
            while not (said := await browser.complaints()):
                await asyncio.sleep(0.05)
            assert any("Content Security Policy" in one for one in said)
        else:
            await browser.until("return window.owned")
        assert bool(await browser.run("return window.owned")) is not holds
