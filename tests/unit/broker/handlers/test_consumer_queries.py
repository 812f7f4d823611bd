"""Questions that are passed on to consumers, and the answers that come back."""

from __future__ import annotations

from typing import Any

import orjson

from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.route import MessageQueue
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.bodies.offsets import decode_clients_offsets, encode_client_offsets
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ConsumeMessageDirectly,
    GetClientOffsets,
    GetClientsOffsets,
    GetRunningInfo,
    HeartbeatRequest,
    SendResponse,
)
from orbitmq.wire.messages.record import iter_records
from unit.broker.conftest import Harness

QUEUE = MessageQueue("t", "a", 0)


class Client:
    """A consumer that answers as it was told to."""

    handlers: Handlers[Client] = Handlers()

    def __init__(self, offsets: bytes = b"") -> None:
        self.offsets = offsets
        self.heard: list[Call[Any]] = []


@Client.handlers.on(GetRunningInfo, ConsumeMessageDirectly)
def _echo(client: Client, call: Call[Any]) -> Reply:
    client.heard.append(call)
    return Reply(body=call.command.body or b"running")


@Client.handlers.on(GetClientOffsets)
def _offsets(client: Client, call: Call[GetClientOffsets]) -> Reply:
    return Reply(body=client.offsets)


async def join(harness: Any, client: Client, client_id: str) -> None:
    pool = harness.connect(handlers=Client.handlers, service=client)
    beat = encode_heartbeat(Heartbeat(client_id=client_id, consumers=(ConsumerInfo(group="g"),)))
    await pool.request(harness.broker.address, HeartbeatRequest(), beat)


async def test_a_consumer_says_itself_what_it_does(harness: Harness) -> None:
    client = Client()
    await join(harness, client, "c")
    answer = await harness.ask(GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True))
    assert answer.body == b"running"
    assert client.heard[0].header.jstack_enable
    assert await harness.code(GetRunningInfo(consumer_group="g", client_id="d")) == 1


async def test_a_consumer_gets_one_message_with_what_the_broker_knows_of_it(harness: Harness) -> None:
    client = Client()
    await join(harness, client, "c")
    sent = decode_header(SendResponse, (await harness.send(body=b"again")).ext_fields)
    asked = ConsumeMessageDirectly(consumer_group="g", client_id="c", message_id=sent.message_id, topic="t")
    answer = await harness.ask(asked)
    (record,) = iter_records(answer.body)
    assert bytes(record.body) == b"again"
    header = client.heard[0].header
    assert (header.broker_name, header.topic_sys_flag, header.group_sys_flag) == ("a", 0, 0)
    for strange in ("none", "", None, "7F000001000000000000000000FFFFFF"):
        refused = ConsumeMessageDirectly(consumer_group="g", client_id="c", message_id=strange)
        assert await harness.code(refused) == 1


async def test_all_consumers_of_a_group_say_where_they_are(harness: Harness) -> None:
    await join(harness, Client(encode_client_offsets({QUEUE: 7})), "c1")
    await join(harness, Client(orjson.dumps({"messageQueueTable": {"no queue": 1}})), "c2")
    await join(harness, Client(b" " * 200_000), "c3")
    await join(harness, Client(encode_client_offsets({})), "c4")
    answer = await harness.ask(GetClientsOffsets(group="g", topic="t"))
    assert decode_clients_offsets(answer.body) == {"c1": {QUEUE: 7}, "c4": {}}
    answer = await harness.ask(GetClientsOffsets(group="g", topic="t", client_id="c2"))
    assert decode_clients_offsets(answer.body) == {}
    assert await harness.code(GetClientsOffsets(group="nobody", topic="t")) == 1
