"""Tools that read, over a running cluster: brokers, topics, routes, groups."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq import Message, Producer, PullConsumer
from orbitmq.admin import AdminClient
from orbitmq.errors import RequestTimeout
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig

from .conftest import Assistant

pytestmark = pytest.mark.real


async def send(assistant: Assistant, *messages: Message) -> list[str]:
    async with Producer("makers", assistant.cluster.name_servers) as producer:
        return [(await producer.send(message)).message_id for message in messages]


async def create(assistant: Assistant, *names: str) -> None:
    for name in names:
        await assistant.admin.create_topic(TopicConfig(topic=name, read_queue_count=2, write_queue_count=2))


async def consume(assistant: Assistant, group: str, topic: str, count: int) -> None:
    async with PullConsumer(group, assistant.cluster.name_servers) as consumer:
        consumer.assign(await consumer.queues(topic))
        read = 0
        while read < count:
            read += len(await consumer.poll())
        await consumer.commit()


async def test_clusters_tells_roles_addresses_and_rates(assistant: Assistant) -> None:
    answer = await assistant.ask("clusters")
    (broker,) = answer["brokers"]
    assert (broker["broker"], broker["role"]) == ("broker-a", "master")
    assert broker["address"] == assistant.cluster.brokers["broker-a"]
    assert {"in_per_s", "out_per_s", "disk_used", "version"} <= broker.keys()
    assert (answer["total"], answer["cut"]) == ({"brokers": 1}, False)


async def test_topics_are_searched_counted_and_paged(assistant: Assistant) -> None:
    await create(assistant, "orders-1", "orders-2", "payments")
    await send(assistant, Message("orders-1", b"1"))
    answer = await assistant.ask("topics", search="ORD", count=1)
    assert [(row["topic"], row["messages"], row["queues"]) for row in answer["topics"]] == [("orders-1", 1, 2)]
    assert (answer["cut"], answer["total"], answer["next_start"]) == (True, {"topics": 2}, 1)
    rest = await assistant.ask("topics", search="ORD", count=1, start=1)
    assert [row["topic"] for row in rest["topics"]] == ["orders-2"]
    assert rest["cut"] is False
    assert all(row["kind"] == "system" for row in (await assistant.ask("topics", kind="system"))["topics"])


async def test_topics_that_brokers_name_after_themselves_are_none_of_users(assistant: Assistant) -> None:
    await create(assistant, "orders")

    topics = (await assistant.ask("topics"))["topics"]

    assert [row["topic"] for row in topics] == ["orders"]
    assert (await assistant.ask("topic", topic="broker-a"))["kind"] == "system"


async def test_a_topic_shows_its_settings_and_queues(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"1"), Message("orders", b"2"))
    answer = await assistant.ask("topic", topic="orders")
    assert (answer["messages"], answer["kind"]) == (2, "user")
    assert [(row["broker"], row["read_queues"], row["perm"]) for row in answer["settings"]] == [("broker-a", 2, 6)]
    assert sum(row["max_offset"] for row in answer["queues"]) == 2


async def test_a_topic_that_there_is_not_is_an_error_that_names_it(assistant: Assistant) -> None:
    assert "nothing-here" in await assistant.refused("topic", topic="nothing-here")
    assert "nothing-here" in await assistant.refused("route", topic="nothing-here")


async def test_a_route_shows_addresses_and_queue_counts(assistant: Assistant) -> None:
    await create(assistant, "orders")
    answer = await assistant.ask("route", topic="orders")
    assert answer["brokers"][0]["addresses"] == {"0": assistant.cluster.brokers["broker-a"]}
    assert answer["queues"][0]["write_queue_count"] == 2


async def test_groups_and_a_group_show_the_lag(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"1"))
    await consume(assistant, "billing", "orders", 1)
    await send(assistant, Message("orders", b"2"), Message("orders", b"3"))
    answer = await assistant.ask("group", group="billing")
    assert answer["lag"] == sum(row["lag"] for row in answer["queues"]) == 2
    assert (answer["members"], answer["subscriptions"]) == ([], [])
    assert [(row["group"], row["lag"]) for row in (await assistant.ask("groups", search="BILL"))["groups"]] == [
        ("billing", 2)
    ]


async def test_a_group_that_there_is_not_is_an_error_that_names_it(assistant: Assistant) -> None:
    assert "no-such-group" in await assistant.refused("group", group="no-such-group")


async def test_a_topic_whose_broker_does_not_answer_is_a_problem_of_its_row(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(assistant, "orders")

    async def silent(_topic: str, **_: object) -> None:
        raise RequestTimeout("127.0.0.1:1 did not answer")

    monkeypatch.setattr(assistant.admin, "known_topic_stats", silent)
    (row,) = (await assistant.ask("topics", search="orders"))["topics"]
    assert (row["messages"], row["problem"]) == (None, "127.0.0.1:1 did not answer")


async def test_findings_are_the_doctors_issues_worst_first(assistant: Assistant) -> None:
    answer = await assistant.ask("findings")
    assert answer["asked"]["brokers"] == 1
    assert "single-replica" in {issue["check"] for issue in answer["issues"]}
    order = ["error", "warning", "info"]
    ranks = [order.index(issue["severity"]) for issue in answer["issues"]]
    assert ranks == sorted(ranks)
    assert all(issue["severity"] == "error" for issue in (await assistant.ask("findings", severity="error"))["issues"])


async def test_the_lag_of_a_group_without_offsets_is_unknown(assistant: Assistant) -> None:
    await assistant.admin.create_group(GroupConfig(group="billing"))
    assert (await assistant.ask("group", group="billing"))["lag"] is None
    assert [row["lag"] for row in (await assistant.ask("groups", search="billing"))["groups"]] == [None]


async def test_a_broker_that_was_lost_is_named_by_tools_that_show_or_change_nothing_of_it(
    assistant: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = {"broker-x": "it is gone"}

    async def missing(_admin: AdminClient, _topic: str = "") -> dict[str, str]:
        return lost

    await assistant.admin.create_topic(TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1))
    for name in ("missing_masters", "missing_masters_of"):
        monkeypatch.setattr(AdminClient, name, missing)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("clusters", {}),
        ("messages_by_time", {"topic": "orders", "begin": 0}),
        ("dead_letters", {"group": "billing"}),
        ("change_topic", {"topic": "orders", "perm": 6}),
        ("change_topic", {"topic": "orders", "perm": 6, "dry_run": False}),
        ("delete_topic", {"topic": "orders"}),
    ]
    answers = [(tool, (await assistant.ask(tool, **arguments)).get("silent")) for tool, arguments in asked]
    assert answers == [(tool, lost) for tool, _ in asked]
    by_time = await assistant.ask("messages_by_time", topic="orders", begin=0)
    assert (by_time["is_complete"], by_time["total"]) == (False, {"messages": None})
    only = await assistant.ask("messages_by_time", topic="orders", begin=0, broker="broker-a")
    assert (only["is_complete"], only["silent"]) == (True, {})
