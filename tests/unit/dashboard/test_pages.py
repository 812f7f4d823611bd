"""The pages over a running cluster: what they show, how they refuse, and that no message becomes markup."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest

from orbitmq import Message, Producer, PushConsumer
from orbitmq.admin import AdminClient
from orbitmq.dashboard.answers import PAGE_SIZE, time_element, time_text
from orbitmq.errors import HeaderError
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig
from waiting import until

from .conftest import Browser

PAUSE_S = 0.1
"""Between two looks at a page."""

pytestmark = pytest.mark.real

XSS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "</td></table><iframe srcdoc='<script>alert(1)</script>'>",
    "\u202e\0<b onmouseover=alert(1)>",
)


class Markup(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


class Tables(HTMLParser):
    """Collects the headings of each table, and the labels of the cells of its rows; a cell over several columns has none."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: list[tuple[list[str], list[str | None]]] = []
        self.heads: list[str] = []
        self.in_head = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.heads = []
        elif tag == "th":
            self.heads.append("")
        elif tag == "tr" and self.heads:
            self.rows.append((self.heads, []))
        elif tag == "td" and "colspan" not in dict(attrs):
            self.rows[-1][1].append(dict(attrs).get("data-label"))
        self.in_head = tag == "th" or (self.in_head and tag == "a")

    def handle_data(self, data: str) -> None:
        if self.in_head:
            self.heads[-1] += data.strip()

    def handle_endtag(self, tag: str) -> None:
        self.in_head = self.in_head and tag not in ("th", "a")


def is_harmless(page: str) -> bool:
    markup = Markup(page)
    allowed = {"script"} if 'src="/static/page.js"' in page else set()
    return (
        not set(markup.tags) & ({"script", "img", "svg", "iframe", "b"} - allowed)
        and markup.tags.count("script") <= 1
        and not markup.handlers
        and all(link.startswith(("/", "#")) for link in markup.links)
    )


async def send(browser: Browser, topic: str, *messages: Message) -> list[str]:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        return [(await producer.send(message)).message_id for message in messages] or [topic]


async def test_the_overview_shows_every_broker(browser: Browser) -> None:
    page = await browser.html("/")
    assert "broker-a" in page
    assert browser.cluster.brokers["broker-a"] in page
    (broker,) = (await browser.json("/"))["brokers"]
    assert (broker["role"], broker["id"], broker["problem"]) == ("master", 0, None)
    assert 0 < broker["disk_used"] < 1


async def test_a_broker_that_does_not_answer_comes_first_and_stops_no_page(browser: Browser) -> None:
    await browser.cluster.stop_broker()
    assert "No broker is registered" in await browser.html("/")


async def test_topics_are_searched_and_counted(browser: Browser) -> None:
    await send(browser, "orders", *(Message("orders", b"1") for _ in range(3)), Message("payments", b"2"))
    rows = (await browser.json("/topics", q="ORD"))["topics"]
    assert [(row["topic"], row["messages"], row["kind"]) for row in rows] == [("orders", 3, "user")]
    assert "payments" in await browser.html("/topics")
    assert "No topic has such a name" in await browser.html("/topics", q="nothing")
    assert all(row["kind"] == "system" for row in (await browser.json("/topics", kind="system"))["topics"])


async def test_topics_that_brokers_name_after_themselves_are_none_of_users(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"{}"))

    users = await browser.json("/topics")
    system = await browser.json("/topics", kind="system")

    assert [row["topic"] for row in users["topics"]] == ["orders"]
    assert {"broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"} <= {row["topic"] for row in system["topics"]}
    assert (await browser.json("/topics/broker-a"))["kind"] == "system"


async def test_long_lists_come_in_parts(browser: Browser) -> None:
    async with AdminClient(browser.cluster.name_servers) as admin:
        for number in range(PAGE_SIZE + 5):
            await admin.create_topic(TopicConfig(topic=f"t-{number:03}", read_queue_count=1, write_queue_count=1))
        while len([name for name in await admin.topic_list() if name.startswith("t-")]) < PAGE_SIZE + 5:
            await asyncio.sleep(0.05)
    first = await browser.json("/topics", q="t-")
    last = await browser.json("/topics", q="t-", page=2)
    assert first["page"] == {"number": 1, "last": 2, "total": PAGE_SIZE + 5}
    assert [len(first["topics"]), len(last["topics"])] == [PAGE_SIZE, 5]
    assert last["topics"] == (await browser.json("/topics", q="t-", page=99))["topics"]
    assert 'rel="next"' in await browser.html("/topics", q="t-")
    assert "page" in (await browser.json("/topics", status=400, page="x"))["error"]


async def test_lists_are_sorted_at_the_server_and_what_is_unknown_comes_last(browser: Browser) -> None:
    await send(browser, "orders", *(Message("orders", b"1") for _ in range(3)), Message("payments", b"2"))
    await browser.app.state.watch.look()
    async with AdminClient(browser.cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="later"))
        await admin.create_group(GroupConfig(group="billing"))

    rows = (await browser.json("/topics", sort="groups", desc=1))["topics"]
    page = await browser.html("/topics", sort="messages", desc=1, q="or")

    assert [(row["topic"], row["groups"], row["in_per_s"]) for row in rows] == [
        ("orders", 0, None),
        ("payments", 0, None),
        ("later", None, None),
    ]
    assert [row["topic"] for row in (await browser.json("/topics", sort="messages"))["topics"]][-1] == "orders"
    assert 'aria-sort="descending"><a href="/topics?sort=messages&amp;q=or&amp;kind=user">' in page
    assert "–" in await browser.html("/groups", sort="lag", desc=1)
    assert "sort" in (await browser.json("/groups", status=400, sort="colour"))["error"]


async def test_a_topic_shows_queues_settings_and_its_latest_messages(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"one", tag="a", keys=["k1"]), Message("orders", b"two"))
    found = await browser.json("/topics/orders")
    assert sorted(message["body"] for message in found["messages"]) == ["one", "two"]
    assert sum(queue["messages"] for queue in found["queues"]) == 2
    assert found["settings"][0]["broker"] == "broker-a"
    page = await browser.html("/topics/orders")
    assert "k1" in page
    assert is_harmless(page)


async def test_a_message_is_found_by_id_and_by_key_and_shown_in_three_forms(browser: Browser) -> None:
    message = Message("orders", b'{"amount": 7}', keys=["k1"], properties={"colour": "red"})
    (message_id,) = await send(browser, "orders", message)
    by_key = (await browser.json("/messages", topic="orders", q="k1"))["messages"]
    by_id = (await browser.json("/messages", topic="orders", q=message_id))["messages"]
    await browser.client.get("/doctor?now=1")
    assert '<option value="orders">' in await browser.html("/messages")
    assert [found["message_id"] for found in (*by_key, *by_id)] == [message_id] * 2
    found = (await browser.json(f"/topics/orders/messages/{message_id}"))["message"]
    assert found["json"] == '{\n  "amount": 7\n}'
    assert found["hex"].startswith("000000  7b 22 61")
    assert found["properties"]["colour"] == "red"
    assert "amount" in await browser.html(f"/topics/orders/messages/{message_id}")
    assert "no message" in await browser.html(f"/topics/orders/messages/{'0' * 32}", status=404)


async def test_a_body_is_shown_as_its_topics_schema_reads_it_or_why_it_does_not(browser: Browser) -> None:
    def sum_of(body: bytes) -> Any:
        if not body:
            raise HeaderError("empty")
        return {"sum": sum(body)}

    browser.app.state.schemas = {"orders": sum_of}
    pages = []
    for body in (b"\x01\x02", b"", b"\1" * (256 * 1024 + 1)):
        (message_id,) = await send(browser, "orders", Message("orders", body))
        pages.append(await browser.html(f"/topics/orders/messages/{message_id}"))
    assert "{\n  &#34;sum&#34;: 3\n}" in pages[0]
    assert '<p class="problem" role="status">empty</p>' in pages[1]
    assert "too long to be shown" in pages[2]


async def test_a_topic_is_shown_without_the_broker_that_is_silent(half_silent: Browser) -> None:
    async with AdminClient(half_silent.cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders"), broker="broker-a")

    found = await half_silent.json("/topics/orders")
    (row,) = (await half_silent.json("/topics", q="orders"))["topics"]

    assert {queue["broker"] for queue in found["queues"]} == {"broker-a"}
    for problem in (found["queues_problem"], row["problem"]):
        assert problem.startswith("without broker-silent: ")
    assert "without broker-silent" in await half_silent.html("/topics/orders")


async def test_messages_are_found_without_the_broker_that_is_silent(half_silent: Browser) -> None:
    async with AdminClient(half_silent.cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders"), broker="broker-a")
    async with Producer("makers", half_silent.cluster.name_servers) as producer:
        queues = [queue for queue in await producer.queues("orders") if queue.broker_name == "broker-a"]
        message = Message("orders", b"x", keys=["k"])
        sent = [await producer.send(message, queue=queues[0]) for _ in range(70)][-1]

    found = await half_silent.json("/messages", topic="orders", q="k")
    one = await half_silent.json(f"/topics/orders/messages/{sent.message_id}")

    assert len(found["messages"]) == 64
    assert found["is_cut"] is True
    assert found["missing"][0].startswith("these are the newest 64: there may be more, stored until 20")
    until = found["missing"][0].rpartition(" ")[2]
    older = await half_silent.json("/messages", topic="orders", q="k", end=until)
    assert 6 <= len(older["messages"]) < 64
    for notices in (found["missing"][1:], one["missing"]):
        assert any(notice.startswith("without broker-silent: ") for notice in notices)
    assert "without broker-silent" in await half_silent.html("/messages", topic="orders", q="k")


async def test_groups_are_shown_without_the_broker_that_is_silent(half_silent: Browser) -> None:
    async with AdminClient(half_silent.cluster.name_servers) as admin:
        await admin.create_group(GroupConfig(group="billing"), broker="broker-a")

    found = await half_silent.json("/groups")
    one = await half_silent.json("/groups/billing")

    assert [(row["group"], row["lag"]) for row in found["groups"]] == [("billing", None)]
    for problem in (found["problem"], one["problem"]):
        assert problem.startswith("without broker-silent: ")
    assert "without broker-silent" in await half_silent.html("/groups")


async def test_a_group_shows_members_and_lag(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"1"))

    async def handle(message: object) -> None:
        return None

    async with PushConsumer("workers", browser.cluster.name_servers, message_handler=handle) as consumer:
        consumer.subscribe("orders")

        async def shown() -> Any:
            answer = await browser.client.get("/groups/workers", headers={"accept": "application/json"})
            found = answer.json()
            return found if found.get("members") and found.get("queues") else None

        found = await until(shown, PAUSE_S)
        assert found["subscriptions"]["orders"] == "*"
        assert found["lag"] >= 0
        (row,) = (await browser.json("/groups", q="work"))["groups"]
        assert (row["group"], row["members"]) == ("workers", 1)
        assert "workers" in await browser.html("/groups")
        assert found["reset_topics"] == ["orders", "%RETRY%workers"]
        assert '<select name="topic" required><option>orders</option>' in await browser.html("/groups/workers")


@pytest.mark.parametrize("evil", XSS)
async def test_nothing_of_a_message_is_markup(browser: Browser, evil: str) -> None:
    plain = evil.replace("\0", "")
    message = Message("orders", evil.encode(), keys=[plain.replace(" ", "_")], tag="t", properties={"p": plain})
    (message_id,) = await send(browser, "orders", message)
    for page in (
        await browser.html("/topics/orders"),
        await browser.html(f"/topics/orders/messages/{message_id}"),
        await browser.html("/messages", topic="orders", q=plain.replace(" ", "_")),
        await browser.html("/topics", q=plain),
        await browser.html("/groups", q=plain),
        await browser.html("/messages", topic=plain, q=""),
    ):
        assert is_harmless(page), page


@pytest.mark.parametrize("path", ["/topics/nowhere", "/topics/%3Cscript%3E", "/groups/%22%3E%3Csvg%3E"])
async def test_what_the_cluster_refuses_is_a_page_that_says_so(browser: Browser, path: str) -> None:
    answer = await browser.client.get(path)
    assert answer.status_code in (400, 404, 502)
    assert "That did not work" in answer.text
    assert is_harmless(answer.text)
    assert "error" in (await browser.client.get(path, headers={"accept": "application/json"})).json()


async def test_every_answer_forbids_foreign_scripts_and_frames(browser: Browser) -> None:
    for path in ("/", "/topics", "/topics/nowhere", "/static/style.css", "/static/page.js", "/static/..%2fapp.py"):
        answer = await browser.client.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
    assert answer.status_code == 404


async def test_a_request_under_another_host_name_is_refused(browser: Browser) -> None:
    answer = await browser.client.get("/", headers={"host": "evil.example:8080"})
    assert answer.status_code == 400
    assert "broker-a" not in answer.text


async def test_pages_follow_a_cluster_that_changes(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"1"))
    await browser.html("/topics/orders")
    async with AdminClient(browser.cluster.name_servers) as admin:
        await admin.delete_topic("orders")
    await browser.html("/topics/orders", status=404)


async def test_every_cell_names_its_column_for_screens_that_show_rows_as_cards(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"1", keys=["k1"]))
    await browser.app.state.watch.look()
    async with AdminClient(browser.cluster.name_servers) as admin:
        await admin.create_group(GroupConfig(group="billing"))
    for path in ("/", "/topics", "/topics/orders", "/groups", "/brokers/broker-a", "/messages"):
        page = await browser.html(path, topic="orders", q="" if path != "/messages" else "k1")
        rows = [(heads, labels) for heads, labels in Tables(page).rows if labels]
        assert rows, path
        for heads, labels in rows:
            assert labels == heads, path


async def test_nothing_can_be_changed(browser: Browser) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await browser.client.request(method, "/topics/orders")).status_code == httpx.codes.METHOD_NOT_ALLOWED


async def test_messages_are_found_by_time_and_by_offset(browser: Browser) -> None:
    async with AdminClient(browser.cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=2, write_queue_count=2))
    await send(browser, "orders", *(Message("orders", b"%d" % number) for number in range(6)))
    found = (await browser.json("/messages", topic="orders", begin="2020-01-01T00:00"))["messages"]
    assert sorted(message["body"] for message in found) == list("012345")
    assert [message["stored_at_ms"] for message in found] == sorted(message["stored_at_ms"] for message in found)
    assert (await browser.json("/messages", topic="orders", begin="2020-01-01T00:00", end="2021-01-01"))[
        "messages"
    ] == []
    queue = [m for m in found if m["queue_id"] == 1]
    page = await browser.json("/messages", topic="orders", queue=1, offset=1)
    assert [message["queue_offset"] for message in page["messages"]] == [m["queue_offset"] for m in queue][1:]
    assert (page["is_asked"], page["is_cut"]) == (True, False)
    for query in ({"queue": 9}, {"begin": "soon"}, {"queue": "x"}, {"begin": "2020-01-01", "end": "1950-01-01"}):
        assert "error" in await browser.json("/messages", status=400, topic="orders", **query)


async def test_bodies_are_searched_for_a_text_and_the_page_says_what_was_read(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AdminClient(browser.cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
    await send(browser, "orders", *(Message("orders", b"." * 1_000 + b"Colour %d" % number) for number in range(6)))
    search: dict[str, Any] = {"topic": "orders", "begin": "2020-01-01", "text": "colour 4"}

    whole = await browser.json("/messages", **search)
    monkeypatch.setattr("orbitmq.dashboard.messages.TEXT_COUNT_MAX", 3)
    part = await browser.json("/messages", **search)

    assert [message["queue_offset"] for message in whole["messages"]] == [4]
    assert (whole["searched"]["count"], whole["is_cut"], whole["searched"]["next"]) == (6, False, None)
    assert (part["messages"], part["searched"]["count"], part["is_cut"]) == ([], 3, True)
    assert f"begin={part['searched']['next'][:13]}" in await browser.html("/messages", **search)
    assert "0 of the 3 messages that were read hold the text" in await browser.html("/messages", **search)
    last = datetime.fromtimestamp(part["searched"]["last_ms"] / 1000, UTC).replace(tzinfo=None)
    monkeypatch.setattr("orbitmq.dashboard.messages.TEXT_COUNT_MAX", 1)
    same = await browser.json("/messages", **search | {"begin": last.isoformat(timespec="milliseconds")})
    assert (same["is_cut"], same["searched"]["next"]) == (True, None), "a link that leads to the same page"


async def test_a_body_with_half_a_character_has_its_page(browser: Browser) -> None:
    (message_id,) = await send(browser, "orders", Message("orders", rb'{"name": "\ud800"}'))

    page = await browser.html(f"/topics/orders/messages/{message_id}")
    shown = await browser.json(f"/topics/orders/messages/{message_id}")

    assert "\\ud800" in page
    assert "\ud800" in shown["message"]["json"]


async def test_the_page_of_deep_json_is_not_much_larger_than_its_body(browser: Browser) -> None:
    body = b"[" * 900 + b"1," * 30_000 + b"1" + b"]" * 900
    (message_id,) = await send(browser, "orders", Message("orders", body))

    assert len(await browser.html(f"/topics/orders/messages/{message_id}")) < 5 * len(body)


def test_a_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    assert time_text(2**62) == time_element(2**62) == f"{2**62} ms"


def test_a_time_is_an_element_that_scripts_can_read() -> None:
    assert time_element(1_000) == '<time datetime="1970-01-01T00:00:01Z">1970-01-01 00:00:01</time>'
    assert time_element(None) == "–"


async def test_pages_of_state_may_be_refreshed_and_searches_and_questions_may_not(browser: Browser) -> None:
    await send(browser, "orders", Message("orders", b"1"))
    for path in ("/", "/topics", "/topics/orders", "/groups", "/brokers/broker-a", "/doctor", "/waiting"):
        assert 'id="refresh"' in await browser.html(path)
    question = (await browser.send("/topics/orders/delete")).text
    for page in (question, await browser.html("/messages"), await browser.html("/users")):
        assert 'id="refresh"' not in page


async def test_the_lag_of_a_group_without_offsets_is_unknown(browser: Browser) -> None:
    await browser.change("/groups", group="billing")
    assert (await browser.json("/groups/billing"))["lag"] is None
    assert [row["lag"] for row in (await browser.json("/groups"))["groups"]] == [None]
    assert "lag unknown: no offsets" in await browser.html("/groups/billing")
