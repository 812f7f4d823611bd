"""Tools that read messages: by id, by key, by time, journeys and dead letters."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from orbitmq import Message, Producer
from orbitmq.admin.messages import FoundMessages
from orbitmq.assistants.answers import encode, time_text
from orbitmq.assistants.messages import messages_by_key
from orbitmq.model.topic import DLQ_PREFIX, TopicConfig

from .conftest import Assistant
from .test_message_rows import stored
from .test_reading import create, send

pytestmark = pytest.mark.real


async def test_a_message_is_found_by_its_id_and_its_body_comes_only_when_asked_for(assistant: Assistant) -> None:
    await create(assistant, "orders")
    (sent,) = await send(assistant, Message("orders", b'{"n": 1}', keys=["k1"]))
    while (found := await assistant.ask("messages_by_key", topic="orders", key="k1"))["messages"] == []:
        pass  # keys are indexed in the background
    (message,) = (await assistant.ask("message", topic="orders", message_id=sent))["messages"]
    assert message["content"]["keys"] == found["messages"][0]["content"]["keys"] == "k1"
    assert "body" not in message["content"]
    answer = await assistant.ask("message", topic="orders", message_id=sent, with_body=True)
    assert answer["messages"][0]["content"]["body"] == '{"n": 1}'
    assert "untrusted" in answer["notice"]


async def test_a_message_that_there_is_not_is_an_error(assistant: Assistant) -> None:
    await create(assistant, "orders")
    assert "has no message" in await assistant.refused("message", topic="orders", message_id="0" * 32)


async def test_more_messages_of_a_key_than_asked_for_are_said(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, *(Message("orders", b"x", keys=["k"]) for _ in range(3)))
    while len((answer := await assistant.ask("messages_by_key", topic="orders", key="k"))["messages"]) < 3:
        pass  # keys are indexed in the background
    assert (answer["cut"], answer["total"]) == (False, {"messages": 3})
    answer = await assistant.ask("messages_by_key", topic="orders", key="k", count=2)
    assert (answer["cut"], answer["total"], len(answer["messages"])) == (True, {"messages": None}, 2)
    assert answer["next_end"] <= answer["messages"][0]["stored_at"]
    assert await assistant.ask("messages_by_key", topic="orders", key="k", end=answer["next_end"])


async def test_a_silent_broker_is_named_and_the_others_messages_are_given() -> None:
    class Admin:
        async def messages_by_key(self, *_: object, **__: object) -> FoundMessages:
            return FoundMessages([stored(b"x")], {"broker-b": "no answer"})

    answer = await messages_by_key(SimpleNamespace(admin=Admin()), "orders", "k")  # type: ignore[arg-type]
    document = json.loads(encode(answer))
    assert (len(document["messages"]), document["silent"]) == (1, {"broker-b": "no answer"})
    assert (document["cut"], document["total"]) == (True, {"messages": None})


async def test_messages_of_a_time_come_oldest_first_and_go_on_where_they_were_cut(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, *(Message("orders", str(number).encode()) for number in range(10)))
    answer = await assistant.ask("messages_by_time", topic="orders", begin=0, count=4, with_body=True)
    assert len(answer["messages"]) == 4
    assert answer["messages"] == sorted(answer["messages"], key=lambda row: row["stored_at"])
    assert (answer["total"], answer["cut"], answer["is_complete"]) == ({"messages": 10}, True, True)
    seen, place = [], {"begin": 0}
    while True:
        answer = await assistant.ask("messages_by_time", topic="orders", count=3, **place)
        seen += [(row["queue_id"], row["queue_offset"]) for row in answer["messages"]]
        if not answer["cut"]:
            break
        place = {"begin": answer["next_begin"], "start": answer["next_start"]}
    assert len(seen) == len(set(seen)) == 10


async def test_messages_of_a_time_are_those_of_its_bounds(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"first"))
    (first,) = (await assistant.ask("messages_by_time", topic="orders", begin=0))["messages"]
    while True:
        await send(assistant, Message("orders", b"later"))
        later = (await assistant.ask("messages_by_time", topic="orders", begin=0))["messages"]
        if later[-1]["stored_at"] > first["stored_at"]:
            break
    end = first["stored_at"]
    answer = await assistant.ask("messages_by_time", topic="orders", begin=end, end=end)
    assert all(row["stored_at"] == end for row in answer["messages"])
    assert 1 <= len(answer["messages"]) < len(later)
    answer = await assistant.ask("messages_by_time", topic="orders", begin=0, end=1)
    assert (answer["messages"], answer["total"], answer["cut"]) == ([], {"messages": 0}, False)
    answer = await assistant.ask("messages_by_time", topic="orders", begin=0, queue_id=first["queue_id"])
    assert {row["queue_id"] for row in answer["messages"]} == {first["queue_id"]}


async def test_a_time_that_ends_before_it_begins_and_a_queue_that_there_is_not_are_named(assistant: Assistant) -> None:
    await create(assistant, "orders")
    assert (await assistant.refused("messages_by_time", topic="orders", begin=2, end=1)).startswith("end: ")
    assert "no such queue" in await assistant.refused("messages_by_time", topic="orders", begin=0, queue_id=77)


async def test_reading_leaves_no_group_with_offsets(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, Message("orders", b"1"))
    await assistant.ask("messages_by_time", topic="orders", begin=0)
    lags = await assistant.admin.group_lag("orbitmq-assistants", "orders")
    assert all(lag.committed == 0 for lag in lags.values())


async def test_a_journey_tells_the_steps_of_clients_that_trace(assistant: Assistant) -> None:
    await create(assistant, "orders")
    async with Producer("makers", assistant.cluster.name_servers, trace=True) as producer:
        sent = await producer.send(Message("orders", b"1"))
    while not (steps := await _steps(assistant, sent.message_id)):
        pass  # traces are indexed in the background
    assert steps[0]["step"] == "sent"
    assert (steps[0]["content"]["group"], steps[0]["content"]["topic"]) == ("makers", "orders")


async def _steps(assistant: Assistant, message_id: str) -> list:
    return (await assistant.ask("journey", message_id=message_id))["steps"]


async def test_dead_letters_are_listed_from_a_place_on(assistant: Assistant) -> None:
    assert (await assistant.ask("dead_letters", group="billing"))["dead_letters"] == []
    topic = DLQ_PREFIX + "billing"
    await assistant.admin.create_topic(TopicConfig(topic=topic, read_queue_count=1, write_queue_count=1))
    await send(assistant, *(Message(topic, b"bad", properties={"DLQ_ORIGIN_TOPIC": "orders"}) for _ in range(3)))
    answer = await assistant.ask("dead_letters", group="billing", count=2, with_body=True)
    assert (answer["total"], answer["cut"]) == ({"dead_letters": 3}, True)
    assert [row["content"]["origin_topic"] for row in answer["dead_letters"]] == ["orders", "orders"]
    assert answer["dead_letters"][0]["content"]["body"] == "bad"
    rest = await assistant.ask("dead_letters", group="billing", start=answer["next_start"])
    assert (len(rest["dead_letters"]), rest["cut"]) == (1, False)
    assert "place" in await assistant.refused("dead_letters", group="billing", start="here")


async def test_an_answer_of_the_largest_bodies_is_bounded(assistant: Assistant) -> None:
    await create(assistant, "orders")
    await send(assistant, *(Message("orders", b'"' * 100_000) for _ in range(20)))
    answer = await assistant.ask("messages_by_time", topic="orders", begin=0, with_body=True, body_size_max=16 * 1024)
    assert answer["cut"] is True
    assert 0 < len(answer["messages"]) < 20
    assert answer["total"] == {"messages": 20}
    assert time_text(0) is None
