"""Every change of the dashboard as users make it in a real Chromium: the form, the question, its confirmation, the notice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from e2e.chromium import ENTER, TAB, Chromium
from e2e.shop import serving_dashboard
from orbitmq import Message, Producer, PushConsumer, StoredMessage
from orbitmq.admin import AdminClient, ResetTo
from orbitmq.dashboard.app import CHANGES
from orbitmq.dashboard.sessions import Role
from orbitmq.dashboard.users import LocalLogins, LocalUser, format_user
from orbitmq.model.topic import TopicConfig
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.signature import Credentials

pytestmark = pytest.mark.proof

FORM = "details[open] form"
FOCUSED = "const one = document.activeElement; return [...(one.labels ?? [])].map((l) => l.textContent).join('') || one.innerText"
ACL = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
}


class User(Chromium):
    """A user of one dashboard in front of a browser."""

    url: str
    name_servers: str

    async def visit(self, path: str) -> None:
        """Open a page of the dashboard."""
        await self.open(self.url.rstrip("/") + path)

    async def confirm(self, question: str, button: str, notice: str) -> None:
        """Read the question, press its button, and read the notice of the page that comes."""
        assert question in await self.text("h1")
        await self.follow(button, "main")
        assert notice in await self.text(".notice")


@pytest.fixture
def user(tmp_path: Path) -> AbstractAsyncContextManager[User]:
    return _user(tmp_path)


@asynccontextmanager
async def _user(tmp_path: Path) -> AsyncIterator[User]:
    async with (
        LocalCluster(data_dir=tmp_path / "data") as cluster,
        serving_dashboard(cluster.name_servers) as dashboard,
        User(tmp_path / "home") as user,
    ):
        user.url = dashboard.url
        user.name_servers = cluster.name_servers
        yield user
        assert await user.complaints() == []


async def make(user: User, *topics: str, groups: tuple[str, ...] = ()) -> None:
    async with AdminClient(user.name_servers) as admin:
        for topic in topics:
            await admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
        for group in groups:
            await admin.create_group(GroupConfig(group=group))


async def send(user: User, topic: str, *bodies: bytes, **options: object) -> None:
    async with Producer("makers", user.name_servers) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **options))  # type: ignore[arg-type]


async def test_a_topic_is_created_changed_and_deleted(user: User) -> None:
    await user.visit("/topics")
    await user.click("Create a topic")
    await user.fill("Name", "orders", FORM)
    await user.fill("Queues", "4", FORM)
    await user.choose("Messages", "FIFO", FORM)
    await user.follow("Create", FORM)
    await user.confirm("Create orders?", "Create", "orders is made on broker-a")
    assert "4 queues, 0 messages" in await user.text()
    await user.click("Change its settings")
    await user.fill("Write queues", "2", FORM)
    await user.choose("Permission", "read", FORM)
    await user.follow("Change", FORM)
    assert await user.text("main tbody") == "broker-a\twrite\t4\t2\nbroker-a\tperm\trw\tr"
    await user.confirm("Change orders?", "Change", "orders is changed")
    await user.click("Change its settings")
    await user.follow("Delete the topic", "main")
    await user.confirm("Delete orders with its 0 messages?", "Delete", "orders is deleted from 1 brokers")
    await user.fill("Name contains", "orders")
    await user.follow("Search")
    assert "No topic has such a name." in await user.text()


async def test_a_test_message_is_sent_sent_again_and_consumed_by_a_client(user: User) -> None:
    handled: list[bytes] = []

    async def handle(message: StoredMessage) -> None:
        handled.append(message.body)

    await make(user, "orders", groups=("billing",))
    await user.visit("/topics/orders")
    await user.click("Send a test message")
    await user.fill("Tag", "new", FORM)
    await user.fill("Keys", "k1 k2", FORM)
    await user.fill("Properties", "price=10\ncolour=red", FORM)
    await user.fill("Body", '{"order": 1}', FORM)
    await user.follow("Send", FORM)
    assert "is sent to orders" in await user.text(".notice")
    await user.follow('{"order": 1}')
    assert "colour\tred" in await user.text()
    await user.click("Send again")
    await user.follow("Send again", FORM)
    await user.confirm("Send this message to orders as a new one?", "Send again", "is sent again")
    assert "2 messages" in await user.text()
    async with PushConsumer("billing", user.name_servers, message_handler=handle) as consumer:
        consumer.subscribe("orders", tag="other")
        await user.follow('{"order": 1}')
        here = await user.run("return location.pathname")
        while "Let a client of billing consume it" not in await user.text():
            await user.visit(here)
        await user.click("Let a client of billing consume it")
        await user.follow("Consume", FORM)
        await user.confirm("consume this message now?", "Consume", "has consumed it: CR_SUCCESS")
    assert handled == [b'{"order": 1}']


async def test_a_group_is_created_reset_with_a_preview_cloned_and_deleted(user: User) -> None:
    await make(user, "orders")
    await send(user, "orders", *[b"x"] * 5)
    await user.visit("/groups")
    await user.click("Create a group")
    await user.fill("Name", "billing", FORM)
    await user.fill("Retries", "3", FORM)
    await user.tick("in order", FORM)
    await user.follow("Create", FORM)
    assert await user.text("main tbody") == "broker-a\t3\tyes"
    await user.confirm("Create the group billing?", "Create", "billing is made on broker-a")
    async with AdminClient(user.name_servers) as admin:
        await admin.reset_group("billing", "orders", ResetTo.latest())
    await user.visit("/groups/billing")
    await user.click("Reset or clone offsets")
    await user.choose("Topic", "orders", FORM)
    await user.choose("To", "an offset", FORM)
    await user.fill("At", "2", FORM)
    await user.follow("Preview", FORM)
    assert await user.text("main tbody") == "orders broker-a 0\t5\t2\t3\t0"
    await user.confirm("3 messages come again, 0 are skipped", "Reset", "the offsets of billing are reset in 1 queues")
    assert "3 messages to come" in await user.text()
    await user.click("Reset or clone offsets")
    await user.fill("Clone to the group", "copy", "details[open]")
    await user.follow("Preview", "details[open] form[action$=clone]")
    await user.confirm("Let copy go on where billing is?", "Clone", "copy goes on where billing is, in 1 queues")
    assert "3 messages to come" in await user.text()
    await user.click("Delete the group")
    await user.tick("with the topics", FORM)
    await user.follow("Delete", FORM)
    await user.confirm("Delete the group copy with its offsets?", "Delete", "copy is deleted from 1 brokers")


async def test_one_dead_letter_and_all_are_sent_again(user: User) -> None:
    await make(user, "orders", "%DLQ%billing")
    origin = {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "1"}
    await send(user, "%DLQ%billing", b"one", b"two", b"three", properties=origin)
    await user.visit("/dead-letters")
    await user.follow("billing", "main")
    await user.fill("Topic, keys or body", "TWO")
    await user.follow("Filter")
    assert "1 of the 3" in await user.text()
    await user.follow("Send", "main")
    await user.confirm("Send the dead letter", "Send again", "1 dead letters of billing are sent again")
    await user.follow("Send all again")
    await user.confirm("Send 3 dead letters of billing", "Send all again", "3 dead letters of billing are sent again")
    await user.visit("/topics/orders")
    assert "4 messages" in await user.text()


async def test_a_setting_of_a_broker_is_changed_and_its_write_permission_taken_and_given(user: User) -> None:
    await make(user, "orders")
    await user.visit("/")
    await user.follow("broker-a", "main")
    await user.fill("New value of fileReservedTime", "99")
    await user.follow("Change", "form:has(input[value=fileReservedTime])")
    assert await user.text("main tbody") == "fileReservedTime\t72\t99"
    await user.confirm("Change fileReservedTime of broker-a?", "Change", "fileReservedTime of broker-a is 99")
    await user.follow("Take its write permission")
    await user.confirm("Take the write permission of broker-a?", "Take it", "broker-a is not written to any more")
    await user.follow("Let it be written to again")
    await user.confirm("Let producers write to broker-a again?", "Allow writing", "broker-a can be written to")


async def test_users_and_rules_are_created_and_deleted_on_a_cluster_with_acl(tmp_path: Path) -> None:
    root = ClientSecurity(Credentials("root", "a long secret"))
    async with (
        LocalCluster(data_dir=tmp_path / "data", settings=ACL) as cluster,
        serving_dashboard(cluster.name_servers, root) as dashboard,
        User(tmp_path / "home") as user,
    ):
        user.url = dashboard.url
        await user.visit("/users")
        await user.click("Create a user")
        await user.fill("Name", "otto", FORM)
        await user.fill("Secret key", "another secret", FORM)
        await user.follow("Create", FORM)
        assert "otto is a user of broker-a" in await user.text(".notice")
        await user.click("Allow or deny something")
        await user.fill("User", "otto", FORM)
        await user.fill("Resource", "Topic:orders*", FORM)
        await user.fill("Actions", "Pub, Sub", FORM)
        await user.follow("Preview", FORM)
        await user.follow("Cancel")
        assert await user.text("h1") == "Users and rules"
        assert "There is no rule." in await user.text()
        await user.click("Allow or deny something")
        await user.fill("User", "otto", FORM)
        await user.fill("Resource", "Topic:orders*", FORM)
        await user.fill("Actions", "Pub, Sub", FORM)
        await user.choose("Decision", "Deny", FORM)
        await user.follow("Preview", FORM)
        await user.confirm("Deny this to otto?", "Deny", "otto has the rule on broker-a")
        await user.follow("Delete the rule of otto about Topic:orders*")
        await user.confirm("Delete the rule of otto about Topic:orders*?", "Delete", "otto has no rule")
        await user.follow("Delete otto")
        await user.follow("Cancel")
        assert await user.text("h1") == "Users and rules"
        await user.follow("Delete otto")
        await user.confirm("Delete the user otto with its rules?", "Delete", "otto is not a user of broker-a any more")
        assert await user.complaints() == []


async def test_a_user_logs_in_to_the_page_it_wanted_may_do_what_its_role_may_and_logs_out(tmp_path: Path) -> None:
    lines = [format_user(name, role, "a password").split() for name, role in (("rita", "reader"), ("anna", "admin"))]  # type: ignore[arg-type]
    logins = LocalLogins({name: LocalUser(Role(role), hashed) for name, role, hashed in lines})
    async with (
        LocalCluster(data_dir=tmp_path / "data") as cluster,
        serving_dashboard(cluster.name_servers, logins=logins) as dashboard,
        User(tmp_path / "home") as user,
    ):
        user.url, user.name_servers = dashboard.url, cluster.name_servers
        await make(user, "%RETRY%beta")
        for name, may_change in (("rita", False), ("anna", True)):
            await user.visit("/topics/%25RETRY%25beta?a=b")
            assert await user.text("h1") == "Log in"
            assert "Topics" not in await user.text("header")
            await user.fill("Name", name)
            await user.fill("Password", "a password")
            await user.follow("Log in")
            assert await user.text("h1") == "%RETRY%beta"
            assert name in await user.text("header")
            assert ("Delete the topic" in await user.run("return document.body.textContent")) == may_change
            await user.follow("Log out")
            assert await user.text("h1") == "Log in"
        assert await user.complaints() == []


async def test_a_topic_whose_name_looks_like_an_escape_is_changed_or_left_alone_by_cancel(user: User) -> None:
    await make(user, "%RETRY%beta")
    await user.visit("/topics/%25RETRY%25beta")
    for button, heading in (("Cancel", "%RETRY%beta"), ("Delete", "Topics")):
        await user.click("Change its settings")
        await user.follow("Delete the topic")
        assert await user.text("h1") == "Delete %RETRY%beta with its 0 messages?"
        await user.follow(button, "main")
        assert await user.text("h1") == heading


async def test_a_topic_is_created_with_the_keyboard_alone(user: User) -> None:
    async def tab_to(text: str) -> None:
        while (await user.run(FOCUSED)).strip() != text:
            await user.keys(TAB)

    await user.visit("/")
    await user.keys(TAB)
    assert (await user.run(FOCUSED)).strip() == "Skip to the content"
    await tab_to("Topics")
    await press_enter(user)
    await tab_to("Create a topic")
    await user.keys(ENTER)
    await tab_to("Name")
    await user.keys("orders")
    await tab_to("Create")
    await press_enter(user)
    assert await user.text("h1") == "Create orders?"
    await tab_to("Create")
    await press_enter(user)
    assert "orders is made on broker-a" in await user.text(".notice")


async def press_enter(user: User) -> None:
    """Press Enter on what leads to another page, and wait for it."""
    await user.run("document.isLeft = true")
    await user.keys(ENTER)
    await user.arrive()


async def test_a_field_that_is_refused_is_named_and_back_leads_to_the_filled_form(user: User) -> None:
    await user.visit("/topics")
    await user.click("Create a topic")
    await user.fill("Name", "orders", FORM)
    await user.fill("Cluster", "nowhere", FORM)
    await user.follow("Create", FORM)
    assert "nowhere" in await user.text("[role=alert]")
    complaints = await user.complaints()
    assert all("400" in said for said in complaints)
    await user.run("document.isLeft = true; history.back()")
    await user.arrive()
    assert await user.run("return document.querySelector('[name=topic]').value") == "orders"


def test_every_change_of_the_dashboard_is_made_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    words = {
        "create_topic": "Create a topic", "change_topic": "Change its settings", "delete_topic": "Delete the topic",
        "create_group": "Create a group", "delete_group": "Delete the group", "reset_group": "Reset", "clone_group": "Clone",
        "send_message": "Send a test message", "send_message_again": "is sent again", "consume_directly": "Consume",
        "resend_dead_letters": "Send all again", "change_setting": "New value of", "set_write_permission": "Take it",
        "create_user": "Create a user", "delete_user": "is not a user", "add_rule": "Preview", "delete_rule": "has no rule",
    }  # fmt: skip
    assert {change.action for change in CHANGES} == words.keys()
    assert [action for action, word in words.items() if text.count(word) < 2] == []
