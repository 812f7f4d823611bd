from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from cases import each_case
from orbitmq.model.group import Heartbeat
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later, Reply
from orbitmq.store import Store
from orbitmq.wire.bodies.heartbeat import encode_heartbeat
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import HeartbeatRequest, PushReply, SendReply, SendReplyV2, SendResponse
from orbitmq.wire.messages.properties import parse_properties
from waiting import until

from ..conftest import Harness, send_header
from ..parts import Serve

TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = "MSG_TYPE\x01reply\x02CORRELATION_ID\x01id-1\x02TTL\x013000\x02REPLY_TO_CLIENT\x01asker\x02"


class Asker:
    """A producer that waits for replies, at the other end of a connection of its own.

    Args:
        code: what it answers to a reply; None: nothing.
    """

    def __init__(self, harness: Any, code: int | None = 0) -> None:
        self.code = code
        self.got: list[tuple[PushReply, bytes]] = []
        self._harness = harness
        handlers: Handlers[Asker] = Handlers()
        handlers.on(PushReply)(_take)
        self.pool = harness.connect(handlers=handlers, service=self)

    async def beat(self, client_id: str = "asker") -> None:
        body = encode_heartbeat(Heartbeat(client_id=client_id, producer_groups=("askers",)))
        answer = await self.pool.request(self._harness.broker.address, HeartbeatRequest(), body)
        assert answer.code == 0


def _take(asker: Asker, call: Call[PushReply]) -> Reply | Later:
    asker.got.append((call.header, bytes(call.command.body)))
    return LATER if asker.code is None else Reply(asker.code)


def reply_header(kind: type[SendReply] | type[SendReplyV2] = SendReplyV2, **settings: Any) -> Any:
    plain = send_header(**{"topic": TOPIC, "properties": PROPERTIES, **settings})
    return kind(**{field.name: getattr(plain, field.name) for field in fields(plain)})


def stored(harness: Any) -> int:
    count: int = harness.broker.service.store.max_offset(TOPIC, 0)
    return count


@pytest.mark.parametrize("kind", [SendReply, SendReplyV2])
async def test_a_reply_reaches_who_asked_and_the_reply_topic(harness: Harness, kind: type[SendReply]) -> None:
    asker = Asker(harness)
    await asker.beat()
    answer = await harness.ask(reply_header(kind, sys_flag=0x301, flag=7), b"zipped")
    assert answer.code == 0
    sent = decode_header(SendResponse, answer.ext_fields)
    assert (sent.queue_id, sent.queue_offset, sent.region_id, sent.trace_on) == (0, 0, "DefaultRegion", "true")
    ((pushed, body),) = asker.got
    assert body == b"zipped"
    assert (pushed.topic, pushed.producer_group, pushed.sys_flag, pushed.flag) == (TOPIC, "p", 0x301, 7)
    assert pushed.store_host == harness.broker.address
    assert pushed.born_host.startswith("127.0.0.1:")
    properties = parse_properties(pushed.properties or "")
    assert properties.pop("PUSH_REPLY_TIME") == str(pushed.stored_at_ms)
    assert properties == {
        **parse_properties(PROPERTIES), "MSG_REGION": "DefaultRegion", "TRACE_ON": "true",
    }  # fmt: skip
    _, (record,) = await harness.pull(TOPIC)
    assert (bytes(record.body), record.sys_flag, record.flag) == (b"zipped", 0x301, 7)
    assert parse_properties(record.properties)["CORRELATION_ID"] == "id-1"


async def test_a_reply_whose_client_has_left_is_stored_and_answered_with_the_reason(harness: Harness) -> None:
    answer = await harness.ask(reply_header(), b"late")
    assert (answer.code, answer.remark) == (1, "push reply message fail, channel of <asker> not found.")
    assert decode_header(SendResponse, answer.ext_fields).queue_offset == 0
    assert stored(harness) == 1


async def test_a_client_that_does_not_take_the_reply_makes_it_fail(harness: Harness) -> None:
    asker = Asker(harness, code=1)
    await asker.beat()
    answer = await harness.ask(reply_header())
    assert answer.code == 1
    assert answer.remark.startswith("push reply message to asker fail")


async def test_a_reply_without_a_requester_is_refused_as_java_refuses_it(harness: Harness) -> None:
    answer = await harness.ask(reply_header(properties="CORRELATION_ID\x01id\x02"))
    assert (answer.code, answer.remark) == (1, "reply message properties[REPLY_TO_CLIENT] is null")


async def test_without_the_setting_replies_are_pushed_and_not_stored(serve: Serve) -> None:
    async with serve(store_reply_message_enable=False) as harness:
        asker = Asker(harness)
        await asker.beat()
        sent = await harness.answer(reply_header(), SendResponse)
        assert (sent.message_id, sent.queue_offset, len(asker.got), stored(harness)) == ("0", 0, 1, 0)
        answer = await harness.ask(reply_header(properties=PROPERTIES.replace("asker", "nobody")))
        assert answer.code == 1
        assert answer.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


async def test_a_store_that_takes_nothing_does_not_keep_a_reply_from_who_asked(harness: Harness) -> None:
    asker = Asker(harness)
    await asker.beat()
    harness.broker.service.store._change(fault="the disk is gone")
    sent = await harness.answer(reply_header(), SendResponse)
    assert (sent.message_id, len(asker.got)) == ("0", 1)


async def test_in_sync_flush_a_reply_is_answered_when_it_is_on_the_disk(serve: Serve) -> None:
    async with serve(flush_disk_type="SYNC_FLUSH") as harness:
        asker = Asker(harness)
        await asker.beat()
        assert (await harness.answer(reply_header(), SendResponse)).message_id != "0"
        store = harness.broker.service.store
        assert store.durable_offset == store.max_physical_offset


@pytest.mark.parametrize("is_durable", [False, None])
async def test_a_reply_that_the_disk_has_not_kept_is_answered_without_its_place(
    serve: Serve, is_durable: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait_durable(store: Store, end: int, waiter: Callable[[bool | None], None]) -> bool:
        waiter(is_durable)
        return False

    async with serve() as harness:
        asker = Asker(harness)
        await asker.beat()
        monkeypatch.setattr(Store, "wait_durable", wait_durable)
        assert (await harness.answer(reply_header(), SendResponse)).message_id == "0"
        monkeypatch.undo()


@each_case(
    ({"topic": "SELF_TEST_TOPIC"}, 16),
    ({"topic": "no such"}, 29),
    ({"topic": "new", "default_topic": "no-template"}, 17),
    ({"queue_id": 5}, 29),
    ({"sys_flag": 4}, 13),
    ({"sys_flag": 0x80}, 13),
    ({"properties": PROPERTIES + "TRAN_MSG\x01true\x02"}, 13),
    ({"properties": PROPERTIES + "A\x01" + "b" * 32_650 + "\x02"}, 13),
)
async def test_what_cannot_be_stored_is_refused_before_it_is_announced(
    settings: dict[str, Any], code: int, harness: Harness
) -> None:

    asker = Asker(harness)
    await asker.beat()
    assert await harness.code(reply_header(**settings)) == code
    assert asker.got == []


async def test_a_client_that_never_confirms_fills_its_own_share_and_frees_it_when_it_leaves(serve: Serve) -> None:
    async with serve(reply_pushes_max=4) as harness:
        asker = Asker(harness, code=None)
        await asker.beat()
        pushes = harness.broker.service.sends.reply_pushes
        first = asyncio.ensure_future(harness.ask(reply_header(), b"x"))
        await until(lambda: asker.got)
        assert pushes.count == 1
        answer = await harness.ask(reply_header())
        assert (answer.code, "replyPushesMax" in answer.remark) == (2, True)
        await asker.pool.close()
        assert (await first).code == 1
        assert (pushes.count, pushes.size) == (0, 0)


async def test_a_one_way_reply_is_pushed_and_not_answered(harness: Harness) -> None:
    asker = Asker(harness)
    await asker.beat()
    await harness.pool.oneway(harness.broker.address, reply_header(), b"x")
    assert (await harness.ask(reply_header(), b"y")).code == 0
    assert [body for _, body in asker.got] == [b"x", b"y"]
