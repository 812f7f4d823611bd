"""Dead letters, what waits, brokers, NameServers, clients, users, and the doctor, over a running cluster."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from cases import each_case
from orbitmq import Decision, Message, Producer, PushConsumer, StoredMessage, TransactionProducer
from orbitmq.admin import AdminClient
from orbitmq.dashboard.app import PAGES
from orbitmq.dashboard.waiting import delay_rows, timer_text
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.headers.send import SendMessage
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.signature import Credentials

from .conftest import Browser, browsing

pytestmark = pytest.mark.real


async def bury(browser: Browser, group: str, *bodies: str) -> None:
    """Put dead letters of a group into its topic, as a broker does."""
    await browser.change("/topics", topic=f"%DLQ%{group}", queues=1)
    await browser.change("/topics", topic="orders", queues=1)
    async with Producer("broker", browser.cluster.name_servers) as producer:
        for body in bodies:
            properties = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "id-" + body[:8]}
            await producer.send(Message(f"%DLQ%{group}", body.encode(), keys=[f"k-{body[:3]}"], properties=properties))


async def test_dead_letters_of_which_some_cannot_be_sent_again_are_told_apart(browser: Browser) -> None:
    await bury(browser, "billing", "one")
    async with Producer("broker", browser.cluster.name_servers) as producer:
        await producer.send(Message("%DLQ%billing", b"lost"))
    answer = await browser.send("/dead-letters/billing/resend", confirmed="yes")
    assert "1 dead letters of billing are sent again, others are not: " in answer.text
    assert (len(browser.audit[-1].after), browser.audit[-1].error is None) == (1, False)


async def test_dead_letters_are_listed_filtered_sent_again_and_exported(browser: Browser) -> None:
    await bury(browser, "billing", "one", "two", "<b>three</b>")
    (row,) = (await browser.json("/dead-letters"))["groups"]
    assert (row["group"], row["count"]) == ("billing", 3)
    page = await browser.json("/dead-letters/billing", q="TWO")
    assert [letter["body"] for letter in page["letters"]] == ["two"]
    assert (page["read"], page["is_cut"]) == (3, False)
    assert "<b>three</b>" not in await browser.html("/dead-letters/billing")
    assert [letter["body"] for letter in (await browser.json("/dead-letters/billing", **{"from": 1}))["letters"]] == [
        "two",
        "<b>three</b>",
    ]
    letter_id = page["letters"][0]["message_id"]
    await browser.change("/dead-letters/billing/resend", id=letter_id)
    question = (await browser.send("/dead-letters/billing/resend")).text
    assert "Send 3 dead letters of billing" in question
    await browser.change("/dead-letters/billing/resend")
    messages = (await browser.json("/topics/orders"))["messages"]
    assert sorted(message["body"] for message in messages) == ["<b>three</b>", "one", "two", "two"]
    assert "Send 0 dead letters" in (await browser.send("/dead-letters/billing/resend")).text
    assert browser.audit[-1].after["count"] == 3
    export = await browser.client.get("/dead-letters/billing/export")
    assert export.headers["content-disposition"] == 'attachment; filename="dead-letters-billing.ndjson"'
    assert [json.loads(line)["body"] for line in export.text.splitlines()] == ["one", "two", "<b>three</b>"]
    assert (await browser.client.get("/dead-letters/none/export")).status_code == 404


async def test_what_waits_is_counted(browser: Browser) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        await producer.send(Message("orders", b"later", delay_ms=3_600_000))
    checker = TransactionProducer("payers", browser.cluster.name_servers, check=lambda _message: Decision.COMMIT)
    async with checker as payer:
        async with payer.transaction(Message("orders", b"half")):
            while not (found := await browser.json("/waiting"))["transactions"][0]["undecided"]:
                await asyncio.sleep(0.05)
            assert found["transactions"][0]["undecided"] == 1
            (timers,) = found["timers"]
            assert (timers["is_on"], timers["waiting"], timers["topics"]) == (True, 1, "orders 1")
            assert found["pops"][0]["problem"] is None
    assert "Messages with a time of their own" in await browser.html("/waiting")


async def test_nothing_is_wrong_where_no_transaction_was_discarded_yet(browser: Browser) -> None:
    (row,) = (await browser.json("/waiting"))["transactions"]

    assert row == {"broker": "broker-a", "undecided": 0, "discarded": 0, "problem": None}


async def test_what_waits_at_one_broker_is_counted_while_another_is_silent(half_silent: Browser) -> None:
    found = await half_silent.json("/waiting")

    for table, count in (("transactions", "undecided"), ("timers", "waiting"), ("pops", "checkpoints")):
        assert {row["broker"]: row[count] for row in found[table]} == {"broker-a": 0, "broker-silent": None}, table
    assert "did not answer" in found["transactions"][1]["problem"]


async def test_a_broker_that_is_gone_is_named_where_its_messages_would_wait(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def miss(_admin: AdminClient) -> dict[str, str]:
        return {"broker-b": "it is gone"}

    monkeypatch.setattr(AdminClient, "missing_masters", miss)
    found = await browser.json("/waiting")
    for table, reason in (("transactions", "problem"), ("timers", "topics"), ("pops", "problem")):
        assert [(row["broker"], row[reason]) for row in found[table]][1:] == [("broker-b", "it is gone")], table


def test_delay_levels_are_read_from_a_brokers_values() -> None:
    told = {"scheduleMessageOffset_3": "10,30", "scheduleMessageOffset_1": "0,5", "scheduleMessageOffset_2": "7,7"}
    rows = delay_rows("a", told | {"scheduleMessageOffset_x": "1,2", "scheduleMessageOffset_4": "nonsense"})
    assert [(row["level"], row["delay"], row["waiting"], row["share"]) for row in rows] == [
        (1, "1 s", 5, 0.25),
        (3, "10 s", 20, 1.0),
    ]


@each_case(b"", b"[]", b'{"timingCount": 7}', b'{"timingCount": {"a": {}}}', b"\xff")
def test_nonsense_instead_of_timers_is_said(body: bytes) -> None:
    assert timer_text(body) == "the broker has answered with no such table"


async def test_a_broker_shows_its_members_and_settings_and_one_is_changed(browser: Browser) -> None:
    page = await browser.json("/brokers/broker-a")
    (member,) = page["members"]
    assert (member["role"], member["id"], member["problem"]) == ("master", 0, None)
    setting = next(found for found in page["settings"] if found["key"] == "maxMessageSize")
    assert setting["value"] == "4194304"
    fixed = next(found["key"] for found in page["settings"] if found["may_change"] is False)
    refused = await browser.send("/brokers/broker-a/setting", key=fixed, value="1")
    assert (refused.status_code, "may change while the broker runs" in refused.text) == (400, True)
    key = "fileReservedTime"
    before = next(found["value"] for found in page["settings"] if found["key"] == key)
    assert f"{key} of broker-a is 99" in await browser.change("/brokers/broker-a/setting", key=key, value="99")
    assert (browser.audit[-1].before, browser.audit[-1].after) == ({key: before}, {key: "99"})
    assert (await browser.client.get("/brokers/none")).status_code == 400


async def test_a_broker_is_retired_step_by_step(browser: Browser) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    await browser.client.get("/doctor?now=1")
    states = [row["state"] for row in (await browser.json("/brokers/broker-a"))["steps"]]
    assert "topics are written to" in states[0]
    assert states[1] == "done"
    said = await browser.change("/brokers/broker-a/write-permission", writable="no")
    assert "broker-a is not written to any more" in said
    assert (await browser.send("/brokers/none/write-permission", writable="no", confirmed="yes")).status_code == 400
    said = await browser.change("/brokers/broker-a/write-permission", writable="yes")
    assert "broker-a can be written to" in said


async def test_a_write_permission_that_one_name_server_did_not_change_names_both(browser: Browser) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    alive = browser.cluster.name_servers
    half: Any = SimpleNamespace(name_servers=f"127.0.0.1:1;{alive}")
    async with browsing(half) as other:
        refused = await other.send("/brokers/broker-a/write-permission", writable="no", confirmed="yes")
    assert refused.status_code == 502
    assert f"done on {alive}; not done on 127.0.0.1:1: " in html.unescape(refused.text)
    (record,) = other.audit
    assert (record.after, record.error.partition(": ")[0]) == ([alive], f"done on {alive}; not done on 127.0.0.1:1")


@pytest.mark.parametrize("own", ["a/b", "a\nb", "a b?c#d%2F/again", "\n"])
async def test_links_lead_to_messages_whatever_their_ids(browser: Browser, own: str) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    header = SendMessage(
        producer_group="makers",
        topic="orders",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_at_ms=1,
        flag=0,
        properties=format_properties({"UNIQ_KEY": own}).decode(),
    )
    pool = ConnectionPool()
    expect(await pool.request(browser.cluster.brokers["broker-a"], header, b"x"), "broker-a")
    await pool.close()

    (path,) = re.findall(r'href="(/topics/orders/messages/[^"]+)"', await browser.html("/topics/orders"))
    page = await browser.html(html.unescape(path))

    (again,) = re.findall(r'action="(/topics/orders/messages/[^"]+/again)"', page)
    assert "is sent again" in await browser.change(html.unescape(again))


async def test_name_servers_show_their_history_and_differences(browser: Browser) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    page = await browser.json("/name-servers")
    (server,) = page["servers"]
    assert (server["address"], server["healthy"], server["problem"]) == (browser.cluster.name_servers, True, None)
    assert len(server["digest"]) == 16
    assert page["drift"] == []
    assert any("orders" in (event["topics"] or "") for event in page["events"])
    assert all("orders" in event["topics"] for event in (await browser.json("/name-servers", q="orders"))["events"])
    changed = await browser.json("/name-servers", at="2020-01-01T00:00")
    assert any(row["what"] == "topic orders" for row in changed["changes"])
    for at in ("yesterday", "2999-01-01T00:00"):
        assert "at" in (await browser.json("/name-servers", status=400, at=at))["error"]


async def test_clients_are_listed_and_one_tells_of_its_queues(browser: Browser) -> None:
    async def handle(_message: StoredMessage) -> None:
        return None

    async with Producer("makers", browser.cluster.name_servers) as producer:
        await producer.send(Message("orders", b"x"))
        async with PushConsumer("billing", browser.cluster.name_servers, message_handler=handle) as consumer:
            consumer.subscribe("orders")
            while not (members := (await _group(browser, "billing")).get("members")):
                await asyncio.sleep(0.05)
            path = f"/groups/billing/members/{quote(members[0]['client_id'], safe='')}"
            while not (found := await browser.json(path))["queues"]:
                await asyncio.sleep(0.05)
            assert {queue["topic"] for queue in found["queues"]} >= {"orders"}
            assert found["subscriptions"]["orders"] == "*"
            assert "orbitmq/client/consume/" in (await browser.json(path, stacks=1))["stacks"]
            await browser.client.get("/doctor?now=1")
            page = await browser.json("/clients", q="billing")
            assert [row["group"] for row in page["consumers"]] == ["billing"]
            assert any(row["group"] == "makers" for row in (await browser.json("/clients"))["producers"])
    assert (await browser.client.get("/groups/billing/members/none")).status_code == 502


async def _group(browser: Browser, name: str) -> Any:
    return (await browser.client.get(f"/groups/{name}", headers={"accept": "application/json"})).json()


async def test_the_doctors_issues_stand_on_the_first_page_and_a_groups_lag_is_drawn(browser: Browser) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        for _ in range(5):
            await producer.send(Message("orders", b"unread"))
    await browser.change("/groups", group="billing")
    await browser.change("/groups/billing/reset", topic="orders", to="earliest")
    issues = (await browser.json("/doctor"))["issues"]
    assert any(issue["check"] == "single-replica" for issue in issues)
    assert (await browser.json("/"))["issues"][0] in issues
    watch = browser.app.state.watch
    later = {("lag", "billing"): 3, ("topic in", "orders"): 2.5, ("disk", watch.snapshot.brokers[0].address): 40.0}
    watch.history.add(watch.snapshot.taken_at_ms + 60_000, later)
    page = await browser.html("/groups/billing")
    assert "<title>3 messages, " in page
    lag = (await browser.json("/groups/billing"))["charts"][0]
    assert [point["value"] for point in lag["points"]] == [5, 3]
    watch.history.add(watch.snapshot.taken_at_ms + 120_000, later)
    assert "<title>2.5 messages a second, " in await browser.html("/topics/orders")
    assert "<title>40 % in use, " in await browser.html("/brokers/broker-a")
    assert all(queue["kept_since_ms"] for queue in (await browser.json("/groups/billing"))["queues"] if queue["end"])


async def test_users_and_rules_are_made_and_deleted_and_their_keys_are_not_in_the_audit_log(tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
    }
    root = ClientSecurity(Credentials("root", "a long secret"))
    async with LocalCluster(data_dir=tmp_path, settings=settings) as cluster, browsing(cluster, root) as browser:
        made = await browser.send("/users", user="otto", password="another secret", type="Normal")
        assert made.status_code == 303
        assert "another secret" not in str(browser.audit)
        await browser.change("/rules", user="otto", resource="Topic:orders*", actions="Pub, Sub", decision="Allow")
        page = await browser.json("/users")
        assert {(user["name"], user["type"]) for user in page["users"]} == {("root", "Super"), ("otto", "Normal")}
        (rule,) = page["rules"]
        assert (rule["user"], rule["resource"], rule["actions"]) == ("otto", "Topic:orders*", "Pub, Sub")
        bad = await browser.send("/rules", user="otto", resource="orders", actions="Pub", decision="Allow")
        assert (bad.status_code, "Topic:NAME" in bad.text) == (400, True)
        bad = await browser.send("/rules", user="otto", resource="Topic:a", actions="Fly", decision="Allow")
        assert "Fly" in bad.text
        await browser.change("/rules/otto/delete", resource="Topic:orders*")
        await browser.change("/users/otto/delete")
        page = await browser.json("/users")
        assert ([user["name"] for user in page["users"]], page["rules"]) == (["root"], [])


async def test_every_page_is_made_for_browsers_and_their_icon_is_served(browser: Browser) -> None:
    await bury(browser, "billing", "one")
    await browser.change("/groups", group="billing")
    (message,) = (await browser.json("/topics/%25DLQ%25billing"))["messages"]
    names = {"topic": "%25DLQ%25billing", "id": message["message_id"], "group": "billing", "broker": "broker-a"}
    paths = [path.format(**names) for path in PAGES if "client" not in path]
    for path in (*paths, "/name-servers?at=2020-01-01T00:00", "/messages?topic=orders&q=k"):
        assert "<h1>" in await browser.html(path)
    icon = await browser.client.get("/static/icon.svg")
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")


async def test_a_cluster_without_users_says_so(browser: Browser) -> None:
    assert (await browser.json("/users"))["users"] == []


async def test_every_page_is_html_too(browser: Browser) -> None:
    await bury(browser, "billing", "one")
    await browser.change("/groups", group="billing")
    async with Producer("makers", browser.cluster.name_servers) as producer:
        sent = await producer.send(Message("orders", b"x"))
    values = {"topic": "orders", "id": sent.message_id, "group": "billing", "broker": "broker-a", "client:path": "none"}
    for path in PAGES:
        filled = path
        for name, value in values.items():
            filled = filled.replace("{" + name + "}", value)
        page = await browser.html(filled, 502 if path.endswith("{client:path}") else 200)
        assert "<h1>" in page, path
    for query in (
        "/name-servers?at=2020-01-01",
        "/doctor?now=1&page=1",
        "/messages?topic=orders&queue=0",
        "/clients?q=x",
    ):
        assert "<h1>" in await browser.html(query)


async def test_an_error_of_the_dashboard_itself_is_a_page(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("orbitmq.dashboard.topics.kind_of", fail)
    transport = httpx.ASGITransport(browser.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/topics")
    assert (answer.status_code, "the dashboard has failed at this (ZeroDivisionError)" in answer.text) == (500, True)
