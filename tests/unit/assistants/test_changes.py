"""Tools that change a cluster: a dry run changes nothing, and the change is what it said."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from orbitmq import Message
from orbitmq.admin import QueueReset
from orbitmq.errors import OffsetsNotSet
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, TopicConfig

from .conftest import Assistant
from .test_reading import consume, create, send

pytestmark = pytest.mark.real


async def change(assistant: Assistant, tool: str, **arguments: Any) -> Any:
    """Return the answer of a change, whose dry run said the same before."""
    would = await assistant.ask(tool, **arguments)
    assert (would["dry_run"], would["done"]) == (True, False)
    assert assistant.audit.kept == []
    did = await assistant.ask(tool, dry_run=False, **arguments)
    assert (did["dry_run"], did["done"], did["did"]) == (False, True, would["would"])
    assert did["before"] == would["before"]
    (record,) = assistant.audit.kept
    assert (record.who, record.action, record.error) == ("ann, by a test", tool, None)
    return would, did


async def test_a_topic_is_created_as_its_dry_run_said(assistant: Assistant) -> None:
    attributes = {"+message.type": "FIFO"}
    would, did = await change(
        assistant, "create_topic", topic="orders", read_queues=3, write_queues=2, attributes=attributes
    )
    assert would["after"] == did["after"]
    assert [(row["broker"], row["read_queues"], row["write_queues"]) for row in did["after"]] == [("broker-a", 3, 2)]
    assert (await assistant.admin.topic_configs("orders"))["broker-a"].read_queue_count == 3
    assert assistant.audit.kept[0].target["topic"] == "orders"


async def test_a_dry_run_creates_nothing(assistant: Assistant) -> None:
    await assistant.ask("create_topic", topic="orders")
    assert "orders" not in await assistant.admin.topic_list()
    assert "orders" in await assistant.refused("topic", topic="orders")


@pytest.mark.parametrize("tool", ["create_topic", "change_topic"])
async def test_an_attribute_without_a_sign_is_refused(assistant: Assistant, tool: str) -> None:
    assert "message.type" in await assistant.refused(tool, topic="orders", attributes={"message.type": "FIFO"})


async def test_a_topic_that_exists_is_not_created(assistant: Assistant) -> None:
    await create(assistant, "orders")
    assert "exists" in await assistant.refused("create_topic", topic="orders")


async def test_a_topic_is_changed_in_what_is_given_alone(assistant: Assistant) -> None:
    await create(assistant, "orders")
    would, did = await change(assistant, "change_topic", topic="orders", perm=4)
    assert (did["before"][0]["perm"], did["after"][0]["perm"]) == (6, 4)
    assert did["after"][0]["read_queues"] == 2
    assert would["after"] == did["after"]
    assert "nothing to change" in await assistant.refused("change_topic", topic="orders")


async def test_a_topic_is_deleted_after_its_messages_were_counted(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"1"))
    would, _ = await change(assistant, "delete_topic", topic="orders")
    assert would["would"] == "delete the topic orders with 1 messages from broker-a"
    assert "orders" in await assistant.refused("topic", topic="orders")


@pytest.mark.parametrize("tool", ["create_topic", "change_topic", "delete_topic"])
async def test_a_topic_of_rocketmq_itself_is_refused(assistant: Assistant, tool: str) -> None:
    assert "keep for itself" in await assistant.refused(tool, topic="RMQ_SYS_TRACE_TOPIC")
    assert "letters, digits" in await assistant.refused(tool, topic="no name")


@pytest.mark.parametrize("topic", ["broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"])
@pytest.mark.parametrize("tool", ["change_topic", "delete_topic"])
async def test_a_topic_that_is_named_after_a_server_is_refused(assistant: Assistant, tool: str, topic: str) -> None:
    assert "keep for itself" in await assistant.refused(tool, topic=topic)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("reset_group", {"group": "billing", "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "to": "latest"}),
        ("reset_group", {"group": "CID_RMQ_SYS_TRANS", "topic": "orders", "to": "latest"}),
        ("clone_group", {"source": "billing", "target": "CID_RMQ_SYS_TRANS"}),
        ("clone_group", {"source": "billing", "target": "CID_RMQ_SYS_REVIVE_GROUP"}),
        ("clone_group", {"source": "billing", "target": "other", "topic": "RMQ_SYS_TRANS_HALF_TOPIC"}),
        ("resend_dead_letters", {"group": "billing", "topic": "rmq_sys_ORBITMQ_DELETIONS"}),
    ],
)
async def test_offsets_and_letters_of_rocketmq_itself_are_refused(
    assistant: Assistant, tool: str, arguments: dict[str, Any]
) -> None:
    await create(assistant, "orders")
    assert "keep for itself" in await assistant.refused(tool, **arguments)


async def test_dead_letters_are_not_deleted_as_a_topic_and_go_to_no_topic_that_is_not_there(
    assistant: Assistant,
) -> None:
    topic = DLQ_PREFIX + "billing"
    await assistant.admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
    await send(assistant, Message(topic, b"x", properties={"DLQ_ORIGIN_TOPIC": "gone"}))
    assert "delete it with the group" in await assistant.refused("delete_topic", topic=topic, dry_run=False)
    assert "new" in await assistant.refused("resend_dead_letters", group="billing", topic="new", dry_run=False)
    assert "a topic that exists" in await assistant.refused("resend_dead_letters", group="billing", dry_run=False)
    assert not {"new", "gone"} & set(await assistant.admin.topic_list())


async def test_a_dead_letter_whose_sender_names_a_topic_of_rocketmq_itself_is_not_sent(assistant: Assistant) -> None:
    topic = DLQ_PREFIX + "billing"
    await assistant.admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
    await send(assistant, Message(topic, b"orders", properties={"DLQ_ORIGIN_TOPIC": "RMQ_SYS_TRACE_TOPIC"}))
    would = await assistant.ask("resend_dead_letters", group="billing")
    assert "keep for itself" in would["after"][0]["content"]["problem"], would
    assert "keep for itself" in await assistant.refused("resend_dead_letters", group="billing", dry_run=False)


async def test_a_group_is_reset_to_where_the_dry_run_said(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, *(Message("orders", b"1") for _ in range(4)))
    await consume(assistant, "billing", "orders", 4)
    would, did = await change(assistant, "reset_group", group="billing", topic="orders", to="earliest")
    assert "4 messages come again, 0 are skipped" in would["would"]
    assert [row["offset"] for row in did["after"]] == [0, 0]
    assert sum(row["offset"] for row in did["before"]) == 4
    assert (await assistant.ask("group", group="billing"))["lag"] == 4


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"to": "time"}, "at: None"),
        ({"to": "offset"}, "offset: None"),
        ({"to": "latest", "offset": 1}, "offset: '1'"),
        ({"to": "earliest", "at": 1}, "at: '1'"),
    ],
)
async def test_a_reset_takes_what_its_kind_needs_and_nothing_else(
    assistant: Assistant, arguments: dict, refusal: str
) -> None:
    assert refusal in await assistant.refused("reset_group", group="billing", topic="orders", **arguments)


async def test_a_group_is_reset_to_a_time_or_an_offset(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, *(Message("orders", b"1") for _ in range(4)))
    await consume(assistant, "billing", "orders", 4)
    answer = await assistant.ask("reset_group", group="billing", topic="orders", to="time", at="2020-01-01T00:00:00Z")
    assert [row["offset"] for row in answer["after"]] == [0, 0]
    answer = await assistant.ask("reset_group", group="billing", topic="orders", to="offset", offset=1, queue_id=0)
    assert [row["offset"] for row in answer["after"]] == [1]


async def test_queues_that_were_not_set_are_told_after_those_that_were(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = QueueReset(MessageQueue("orders", "broker-a", 0), 4, 0)

    async def half(*_arguments: object, dry_run: bool = False, **_others: object) -> list[QueueReset]:
        if dry_run:
            return [change, change]
        raise OffsetsNotSet("1 of 2 queues are set", [change])

    monkeypatch.setattr(assistant.admin, "reset_group", half)
    did = await assistant.ask("reset_group", group="billing", topic="orders", to="earliest", dry_run=False)
    assert [row.get("offset") for row in did["after"]] == [0, None]
    assert did["after"][1] == assistant.audit.kept[0].after[1] == {"problem": "1 of 2 queues are set"}


async def test_a_dry_run_of_a_clone_makes_no_group(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"1"))
    await consume(assistant, "billing", "orders", 1)
    await assistant.ask("clone_group", source="billing", target="other")
    assert "other" not in await assistant.admin.group_names()
    _, did = await change(assistant, "clone_group", source="billing", target="other")
    assert sum(row["offset"] for row in did["after"]) == 1
    assert "other" in await assistant.admin.group_names()
    assert "another group" in await assistant.refused("clone_group", source="billing", target="billing")


async def test_dead_letters_are_sent_again_once(assistant: Assistant) -> None:
    await create(assistant, "orders")
    topic = DLQ_PREFIX + "billing"
    await assistant.admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
    await send(assistant, *(Message(topic, b"bad", properties={"DLQ_ORIGIN_TOPIC": "orders"}) for _ in range(2)))
    _, did = await change(assistant, "resend_dead_letters", group="billing")
    assert [row["content"]["topic"] for row in did["after"]] == ["orders", "orders"]
    assert (await assistant.ask("topic", topic="orders"))["messages"] == 2
    assert (await assistant.ask("resend_dead_letters", group="billing"))["after"] == []


async def test_a_dead_letter_that_cannot_be_sent_again_is_told_and_holds_up_no_other(assistant: Assistant) -> None:
    await create(assistant, "orders")
    topic = DLQ_PREFIX + "billing"
    await assistant.admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
    await send(assistant, Message(topic, b"lost"), Message(topic, b"bad", properties={"DLQ_ORIGIN_TOPIC": "orders"}))
    would = await assistant.ask("resend_dead_letters", group="billing")
    assert ["problem" in row["content"] for row in would["after"]] == [True, False]
    did = await assistant.ask("resend_dead_letters", group="billing", dry_run=False)
    assert [row["content"].get("topic") for row in did["after"]] == ["orders", None]
    assert "no origin topic" in did["after"][1]["content"]["problem"]
    (record,) = assistant.audit.kept
    assert len(record.after) == 2


@pytest.mark.parametrize(
    ("body", "form", "content"),
    [("hé", "text", "hé".encode()), (base64.b64encode(b"\xff\0").decode(), "base64", b"\xff\0")],
)
async def test_a_message_is_sent_and_the_audit_log_keeps_its_length_alone(
    assistant: Assistant, body: str, form: str, content: bytes
) -> None:
    await create(assistant, "orders")
    _, did = await change(
        assistant, "send_message", topic="orders", body=body, body_format=form, tag="new", keys=["k1"]
    )
    (row,) = did["after"]
    found = await assistant.admin.message_by_id("orders", row["message_id"])
    assert (found.body, found.tag, found.keys) == (content, "new", ("k1",))
    assert assistant.audit.kept[0].target["body"] == f"{len(body)} characters"


async def test_a_message_to_a_topic_that_there_is_not_makes_none(assistant: Assistant) -> None:
    assert "nothing-here" in await assistant.refused("send_message", topic="nothing-here", body="x", dry_run=False)
    assert "nothing-here" not in await assistant.admin.topic_list()
    await create(assistant, "orders")
    assert (await assistant.refused("send_message", topic="orders", body="é", body_format="base64")).startswith("body:")
