"""Changes of a running cluster through forms: asked first, made once confirmed, written into the audit log."""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx
import pytest

from orbitmq import Message, Producer, PushConsumer, StoredMessage
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.admin.actions import ACTIONS, format_table
from orbitmq.audit import AuditRecord
from orbitmq.dashboard.app import CHANGES
from orbitmq.dashboard.sessions import Role
from orbitmq.testing import LocalCluster

from .conftest import Browser, browsing

pytestmark = pytest.mark.real


@pytest.fixture
def reading_only(tmp_path: Path) -> AbstractAsyncContextManager[Browser]:
    return _reading_only(tmp_path)


@asynccontextmanager
async def _reading_only(tmp_path: Path) -> AsyncIterator[Browser]:
    async with LocalCluster(data_dir=tmp_path) as cluster, browsing(cluster, is_read_only=True) as browser:
        yield browser


async def bodies(browser: Browser, topic: str) -> list[str]:
    return [message["body"] for message in (await browser.json(f"/topics/{topic}"))["messages"]]


async def test_a_topic_is_created_changed_and_deleted(browser: Browser) -> None:
    page = await browser.change("/topics", topic="orders", queues=4, perm=6, type="FIFO")
    assert "orders is made on broker-a" in page
    (found,) = (await browser.json("/topics/orders"))["settings"]
    assert (found["read"], found["write"], found["perm"]) == (4, 4, 6)
    assert found["attributes"] == {"message.type": "FIFO"}
    page = await browser.change("/topics/orders/change", read=4, write=2, perm=4)
    assert "orders is changed" in page
    (found,) = (await browser.json("/topics/orders"))["settings"]
    assert (found["read"], found["write"], found["perm"]) == (4, 2, 4)
    page = await browser.change("/topics/orders/delete")
    assert "orders is deleted from 1 brokers" in page
    assert (await browser.json("/topics", q="orders"))["topics"] == []
    created, changed, deleted = browser.audit
    assert [record.action for record in browser.audit] == ["create_topic", "change_topic", "delete_topic"]
    assert {record.who for record in browser.audit} == {"local"}
    assert created.target == {"topic": "orders", "queues": "4", "perm": "6", "type": "FIFO"}
    assert (changed.before["broker-a"]["perm"], changed.after["broker-a"]["perm"]) == (6, 4)
    assert deleted.before["broker-a"]["write"] == 2


async def test_a_question_says_what_is_lost_and_changes_nothing(browser: Browser) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        for _ in range(3):
            await producer.send(Message("orders", b"x"))
    question = (await browser.send("/topics/orders/delete")).text
    assert "Delete orders with its 3 messages?" in question
    assert len(await bodies(browser, "orders")) == 3
    question = (await browser.send("/topics/orders/change", read=2, write=8, perm=6)).text
    assert "It is refused while queues that go hold messages" in question
    question = (await browser.send("/topics/orders/change", read=4, write=4, perm=4)).text
    assert ">rw</td>" in question
    assert browser.audit == []


async def test_a_test_message_has_all_that_the_form_says_and_its_body_is_not_in_the_audit_log(browser: Browser) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    form = {"body": '{"n": 1}', "tag": "new", "keys": "k1 k2", "properties": "price=10\ncolour=red"}
    sent = await browser.send("/topics/orders/send", **form)
    assert sent.status_code == 303
    (message,) = (await browser.json("/topics/orders"))["messages"]
    assert (message["body"], message["tag"], message["keys"]) == ('{"n": 1}', "new", ["k1", "k2"])
    shown = (await browser.json(f"/topics/orders/messages/{message['message_id']}"))["message"]
    assert (shown["properties"]["price"], shown["properties"]["colour"]) == ("10", "red")
    record = browser.audit[-1]
    assert record.target == {"topic": "orders", "tag": "new", "keys": "k1 k2"}
    assert record.after["id"] == message["message_id"]


async def test_a_message_is_sent_again_as_a_new_one(browser: Browser) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        sent = await producer.send(Message("orders", b"once", keys=["k"]))
    page = await browser.change(f"/topics/orders/messages/{sent.message_id}/again")
    assert "sent again" in page
    assert await bodies(browser, "orders") == ["once", "once"]
    await browser.change("/topics", topic="others", queues=1)
    await browser.change(f"/topics/orders/messages/{sent.message_id}/again", to="others")
    assert await bodies(browser, "others") == ["once"]


async def test_a_client_consumes_a_message_directly(browser: Browser) -> None:
    seen: list[bytes] = []

    async def handle(message: StoredMessage) -> None:
        seen.append(message.body)

    async with Producer("makers", browser.cluster.name_servers) as producer:
        sent = await producer.send(Message("orders", b"one"))
        async with PushConsumer("billing", browser.cluster.name_servers, message_handler=handle) as consumer:
            consumer.subscribe("orders")
            path = f"/topics/orders/messages/{sent.message_id}"
            while "billing" not in (groups := (await browser.json(path))["groups"]):
                await asyncio.sleep(0.05)
            while not seen:
                await producer.send(Message("others", b"wait"))
            page = await browser.change(f"{path}/consume", group="billing", client=groups["billing"][0])
    assert "has consumed it: CR_SUCCESS" in page
    assert seen.count(b"one") == 2
    assert browser.audit[-1].after == "CR_SUCCESS"


async def test_a_group_is_reset_with_a_preview_cloned_and_deleted(browser: Browser) -> None:
    async with (
        Producer("makers", browser.cluster.name_servers) as producer,
        AdminClient(browser.cluster.name_servers) as admin,
    ):
        for _ in range(5):
            await producer.send(Message("orders", b"x"))
        assert "billing is made on broker-a" in await browser.change("/groups", group="billing", retries=3)
        await browser.change("/groups", group="orbitmq-dlq", retries=3)
        assert {row["group"]: row["kind"] for row in (await browser.json("/groups"))["groups"]}["orbitmq-dlq"] == "tool"
        await admin.reset_group("billing", "orders", ResetTo.latest())
        question = (await browser.send("/groups/billing/reset", topic="orders", to="earliest")).text
        assert "5 messages come again, 0 are skipped" in question
        assert sum(lag.lag for lag in (await admin.group_lag("billing", "orders")).values()) == 0
        await browser.change("/groups/billing/reset", topic="orders", to="earliest")
        assert sum(lag.lag for lag in (await admin.group_lag("billing", "orders")).values()) == 5
        question = (await browser.send("/groups/billing/reset", topic="orders", to="offset", at="9999")).text
        assert "0 messages come again, 5 are skipped" in question
        await browser.change("/groups/billing/clone", target="copy")
        assert "copy" in await admin.group_names()
        assert "billing is deleted" in await browser.change("/groups/billing/delete")
        assert "billing" not in await admin.group_names()
    record = next(record for record in browser.audit if record.action == "reset_group")
    assert sum(record.before.values()) - sum(record.after.values()) == 5


async def test_a_group_with_members_is_not_deleted(browser: Browser) -> None:
    async def handle(_message: StoredMessage) -> None:
        return None

    await browser.change("/topics", topic="orders", queues=1)
    async with PushConsumer("billing", browser.cluster.name_servers, message_handler=handle) as consumer:
        consumer.subscribe("orders")
        while (
            not (await browser.client.get("/groups/billing", headers={"accept": "application/json"}))
            .json()
            .get("members")
        ):
            pass
        refused = await browser.send("/groups/billing/delete")
    assert refused.status_code == 400
    assert "one without members: 1 are online" in refused.text


@pytest.mark.parametrize(
    ("path", "fields", "said"),
    [
        ("/topics", {"topic": "a b"}, "only letters, digits"),
        ("/topics", {"topic": "orders", "queues": "0"}, "a whole number from 1 to 1024"),
        ("/topics", {"topic": "orders", "queues": "x" * 50}, "a whole number from 1 to 1024"),
        ("/topics", {}, "topic"),
        ("/topics", {"topic": "orders", "cluster": "nowhere"}, "nowhere"),
        ("/groups/g/reset", {"topic": "orders", "to": "monday"}, "earliest, latest, time, ago, offset"),
        ("/groups/g/reset", {"topic": "orders", "to": "time", "at": "noon"}, "a time in UTC"),
        ("/groups/g/reset", {"topic": "orders", "to": "offset", "at": "-1"}, "a whole number"),
        ("/topics/none/messages/00/again", {}, "none"),
    ],
)
async def test_bad_fields_are_named_with_their_values_and_change_nothing(
    browser: Browser, path: str, fields: dict[str, str], said: str
) -> None:
    refused = await browser.send(path, **fields)
    assert refused.status_code in (400, 404)
    assert said in refused.text
    assert browser.audit == []


async def test_forms_of_other_pages_are_refused(browser: Browser) -> None:
    secret = await browser.secret()
    for fields, headers in (
        ({}, {}),
        ({"csrf": "x" * 43}, {}),
        ({"csrf": "ü"}, {}),
        ({"csrf": secret}, {"sec-fetch-site": "cross-site"}),
        ({"csrf": secret}, {"sec-fetch-site": "same-site"}),
    ):
        answer = await browser.client.post(
            "/topics", data={**fields, "topic": "evil", "confirmed": "yes"}, headers=headers
        )
        assert answer.status_code == 403, (fields, headers)
    assert (await browser.json("/topics", q="evil"))["topics"] == []
    assert browser.audit == []


async def test_what_is_not_a_form_is_refused(browser: Browser) -> None:
    many = await browser.client.post("/topics", content=b"&".join(b"a=1" for _ in range(101)))
    assert many.status_code == 400
    assert (await browser.client.post("/topics", content=b"\xff\xfe")).status_code in (400, 403)
    assert (await browser.client.get("/topics/orders/delete")).status_code == 405


async def test_a_dashboard_that_is_read_only_changes_nothing_and_shows_no_form(reading_only: Browser) -> None:
    page = await reading_only.html("/topics")
    assert 'method="post"' not in page
    assert "read-only" in page
    secret = (await reading_only.json("/topics")).get("csrf", "")
    answer = await reading_only.client.post("/topics", data={"topic": "orders", "csrf": secret, "confirmed": "yes"})
    assert answer.status_code == 403
    assert (await reading_only.json("/topics", q="orders"))["topics"] == []


async def test_a_change_that_fails_is_in_the_audit_log_with_its_reason(browser: Browser) -> None:
    failed = await browser.send("/topics/none/delete", confirmed="yes")
    assert failed.status_code == 404
    (record,) = browser.audit
    assert (record.action, record.target) == ("delete_topic", {"topic": "none"})
    assert "none" in (record.error or "")


async def test_a_question_that_is_confirmed_twice_is_made_once(browser: Browser) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        sent = await producer.send(Message("orders", b"one"))
    path = f"/topics/orders/messages/{sent.message_id}/again"
    once = re.search(r'name="once" value="([^"]+)"', (await browser.send(path)).text)
    assert once is not None

    answers = await asyncio.gather(*(browser.send(path, confirmed="yes", once=once[1]) for _ in range(2)))

    assert [answer.status_code for answer in answers] == [303, 303]
    assert await bodies(browser, "orders") == ["one", "one"]
    assert [record.action for record in browser.audit] == ["send_message_again"]


async def test_a_form_that_is_sent_twice_by_a_double_click_is_made_once(browser: Browser) -> None:
    await browser.change("/topics", topic="orders", queues=1)
    once = re.search(r'name="once" value="([^"]+)"', await browser.html("/topics/orders"))
    assert once is not None
    sent = [browser.send("/topics/orders/send", body="one", once=once[1]) for _ in range(2)]
    assert [answer.status_code for answer in await asyncio.gather(*sent)] == [303, 303]
    await browser.send("/topics/orders/send", body="two", once=once[1])  # typed on the same page
    assert sorted(await bodies(browser, "orders")) == ["one", "two"]


async def test_a_change_that_fails_with_an_unexpected_error_is_in_the_audit_log(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(AdminClient, "delete_topic", fail)
    with pytest.raises(ZeroDivisionError):
        await browser.send("/topics/orders/delete", confirmed="yes", once="x")
    (record,) = browser.audit
    assert (record.action, record.error) == ("delete_topic", "ZeroDivisionError")


class Full:
    """An audit log on a disk that is full."""

    def write(self, record: AuditRecord) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_change_that_cannot_be_recorded_is_made_and_says_so(browser: Browser) -> None:
    browser.app.state.audit = Full()

    page = await browser.change("/topics", topic="orders", queues=1)
    failed = await browser.send("/topics/none/delete", confirmed="yes")

    assert "orders is made on broker-a; the change is not in the audit log: [Errno 28] No space left" in page
    assert failed.status_code == 404


async def test_programs_change_things_with_the_secret_and_get_json(browser: Browser) -> None:
    headers = {"accept": "application/json", "x-csrf-token": await browser.secret()}
    answer: httpx.Response = await browser.client.post(
        "/topics", data={"topic": "orders", "queues": "2", "confirmed": "yes"}, headers=headers
    )
    assert answer.status_code == 200
    assert answer.json()["done"] == "orders is made on broker-a"
    assert answer.json()["after"]["broker-a"]["read"] == 2


async def test_secrets_of_a_broker_that_shows_them_are_masked(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = (
        b'initAuthenticationUser={"username"\\:"root","password"\\:"pw-1"}\nbrokerName=broker-a\ntlsKeyPassword=pw-2\n'
    )
    monkeypatch.setattr("orbitmq.broker.handlers.settings.format_settings", lambda _settings: shown)  # as Java's does
    await browser.app.state.watch.look()
    page = await browser.html("/brokers/broker-a")
    (broker,) = browser.app.state.watch.snapshot.brokers
    async with AdminClient(browser.cluster.name_servers) as admin:
        settings = await admin.broker_settings(broker.address)
        with_secrets = await admin.broker_settings(broker.address, with_secrets=True)
    assert "pw-" not in f"{page} {broker.settings} {settings}"
    assert settings["initAuthenticationUser"] == "******"
    assert with_secrets["tlsKeyPassword"] == "pw-2"


@pytest.mark.parametrize(
    ("path", "fields", "status", "said"),
    [
        (
            "/groups/CID_RMQ_SYS_TRANS/reset",
            {"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "to": "latest"},
            400,
            "keep for itself",
        ),
        ("/groups/billing/clone", {"target": "CID_RMQ_SYS_REVIVE_GROUP"}, 400, "keep for itself"),
        ("/topics/%25DLQ%25billing/delete", {}, 400, "delete it with the group"),
        ("/topics/RMQ_SYS_TRANS_HALF_TOPIC/send", {"body": "x"}, 400, "keep for itself"),
        ("/topics/NEW/send", {"body": "x"}, 404, "NEW"),
        ("/topics/orders/messages/{id}/again", {"to": "NEW"}, 404, "NEW"),
        ("/topics/orders/messages/{id}/again", {"to": "%RETRY%billing"}, 400, "fill this one"),
    ],
)
async def test_what_the_system_owns_and_what_is_not_there_is_refused(
    browser: Browser, path: str, fields: dict[str, str], status: int, said: str
) -> None:
    async with Producer("makers", browser.cluster.name_servers) as producer:
        sent = await producer.send(Message("orders", b"one"))
    for confirmed in ("", "yes"):
        refused = await browser.send(path.format(id=sent.message_id), confirmed=confirmed, **fields)
        assert (refused.status_code, said in refused.text) == (status, True), refused.text
    assert (await browser.json("/topics", q="NEW"))["topics"] == []


async def test_each_change_is_made_by_its_role_alone_and_is_asked_as_the_table_says(browser: Browser) -> None:
    session = browser.app.state.everyone
    secret = await browser.secret()
    assert {change.action for change in CHANGES} == ACTIONS.keys()
    for change in CHANGES:
        path = change.path.format(topic="t", group="g", id="00", broker="b", user="u")
        for role in Role:
            for session.is_super in (True, False):
                session.role = role
                answer = await browser.client.post(path, data={"csrf": secret})
                is_allowed = role.may(Role(change.rules.role)) and (session.is_super or change.rules.rule is not None)
                assert (answer.status_code != 403) is is_allowed, (change.action, role, session.is_super)
        assert (change.ask is not None) is change.rules.is_asked, change.action
    assert {record.action for record in browser.audit} <= {
        name for name, action in ACTIONS.items() if not action.is_asked
    }, "without a confirmation"


def test_the_page_has_the_table() -> None:
    page = Path(__file__).parents[3] / "docs" / "howto" / "dashboard.md"
    assert format_table() in page.read_text(), "python -m orbitmq.admin.actions"
