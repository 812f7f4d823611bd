"""Requests of sends, and their permits: bounded, first come first served, and none is lost."""

from __future__ import annotations

import asyncio
import random
import zlib
from datetime import UTC, datetime, timedelta

import pytest

from cases import each_case
from orbitmq.client.send.permits import Permits
from orbitmq.client.send.request import SendKind, encode_message, request_properties, send_header
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import Message, ReplyTo, SysFlag
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import SendMessageV2, SendReplyV2
from orbitmq.wire.messages.properties import parse_properties
from unit.client.messages import encoded

QUEUE = MessageQueue("t", "a", 3)


def test_a_messages_fields_become_properties():
    found = encoded(tag="new", keys=["k1", "k2"], delay_level=3, sharding_key="s", properties={"own": "value"}, flag=9)
    assert parse_properties(found.properties) == {
        "own": "value", "KEYS": "k1 k2", "TAGS": "new", "DELAY": "3", "__SHARDINGKEY": "s", "UNIQ_KEY": "ID",
        "WAIT": "true",
    }  # fmt: skip
    assert (found.flag, found.sys_flag, found.body) == (9, 0, b"x")


@each_case((5_123_000, "5123"), (5_123_001, "5124"), (-1, "0"), (-1_001, "-1"))
def test_a_message_asks_for_no_time_before_the_one_that_its_sender_named(microseconds, deliver_ms):
    deliver_at = datetime.fromtimestamp(0, UTC) + timedelta(days=20_000, microseconds=microseconds)
    found = parse_properties(encoded(deliver_at=deliver_at).properties)
    assert int(found["TIMER_DELIVER_MS"]) == 20_000 * 86_400_000 + int(deliver_ms)


def test_a_body_that_compression_would_enlarge_travels_as_it_is():
    body = random.Random(1).randbytes(10_000)
    found = encode_message(Message("orders", body), "id", 4_096)
    assert (found.body, found.sys_flag) == (body, 0)


def test_a_body_over_the_limit_is_compressed_and_marked():
    found = encoded(b"y" * 101)
    assert found.sys_flag == SysFlag.COMPRESSED | SysFlag.COMPRESSION_ZLIB
    assert zlib.decompress(found.body) == b"y" * 101
    assert encoded(b"y" * 100).sys_flag == 0


@each_case("KEYS", "UNIQ_KEY", "TRAN_MSG")
def test_a_property_that_rocketmq_uses_itself_is_refused(name):
    with pytest.raises(InvalidArgument, match=name):
        encoded(properties={name: "x"})


def test_a_tag_that_is_an_expression_is_refused():
    with pytest.raises(InvalidArgument, match="one tag"):
        encoded(tag="A || B")


def test_the_header_names_group_queue_and_template():
    header = send_header(encoded(), "g", QUEUE, 1_000, 4)
    assert (header.producer_group, header.topic, header.queue_id, header.born_at_ms) == ("g", "t", 3, 1_000)
    assert (header.default_topic, header.default_topic_queue_nums, header.batch) == ("TBW102", 4, False)
    assert (header.sys_flag, header.flag, header.reconsume_times, header.unit_mode) == (0, 0, 0, False)


def test_a_request_names_itself_who_waits_and_how_long() -> None:
    request = request_properties("id-1", "asker", 3_000)
    found = encode_message(Message("t", b"", properties={"a": "b"}), "ID", 100, request)
    properties = parse_properties(found.properties)
    assert found.kind is SendKind.REQUEST
    assert (properties["CORRELATION_ID"], properties["REPLY_TO_CLIENT"], properties["TTL"]) == ("id-1", "asker", "3000")
    assert (properties["a"], "MSG_TYPE" in properties) == ("b", False)
    assert type(send_header(found, "g", MessageQueue("t", "b", 0), 0, 4)) is SendMessageV2


def test_a_reply_names_its_request_and_travels_under_its_own_code() -> None:
    for ttl in ("3000", None):
        found = encoded(b"", in_reply_to=ReplyTo("id-1", "asker", ttl, "broker-a"))
        properties = parse_properties(found.properties)
        assert found.kind is SendKind.REPLY
        assert (properties["MSG_TYPE"], properties["CORRELATION_ID"]) == ("reply", "id-1")
        assert (properties["REPLY_TO_CLIENT"], properties.get("TTL")) == ("asker", ttl)
        assert type(send_header(found, "g", MessageQueue("t", "b", 0), 0, 4)) is SendReplyV2


@each_case("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE")
def test_what_makes_a_request_is_not_for_users_to_set(name: str) -> None:
    with pytest.raises(InvalidArgument):
        encoded(b"", properties={name: "x"})


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Visitors:
    """Takes places by name, and notes who has one."""

    def __init__(self, places: Permits) -> None:
        self.inside: list[str] = []
        self._places = places

    def come(self, name: str, *, has_begun: bool = False) -> asyncio.Task[None]:
        async def take() -> None:
            await self._places.take(has_begun=has_begun)
            self.inside.append(name)

        return asyncio.create_task(take())


async def test_no_more_are_inside_than_there_are_places() -> None:
    places = Permits(2)
    visitors = Visitors(places)
    tasks = [visitors.come(name) for name in "abcd"]
    await turns()
    assert visitors.inside == ["a", "b"]
    places.leave()
    places.leave()
    await asyncio.gather(*tasks)
    assert visitors.inside == ["a", "b", "c", "d"]


async def test_who_has_begun_comes_before_who_has_not() -> None:
    places = Permits(1)
    visitors = Visitors(places)
    tasks = [visitors.come("a")]
    await turns()
    tasks += [
        visitors.come("b"),
        visitors.come("c"),
        visitors.come("d", has_begun=True),
        visitors.come("e", has_begun=True),
    ]
    await turns()
    for _ in range(4):
        places.leave()
        await turns()
    await asyncio.gather(*tasks)
    assert visitors.inside == ["a", "d", "e", "b", "c"]


@pytest.mark.parametrize("is_its_turn", [False, True])
async def test_who_gives_up_keeps_no_place(is_its_turn: bool) -> None:
    places = Permits(1)
    visitors = Visitors(places)
    first = visitors.come("a")
    given_up, last = visitors.come("b"), visitors.come("c")
    await turns()
    if is_its_turn:
        places.leave()  # it is b's turn, and b has not noticed it
        given_up.cancel()
    else:
        given_up.cancel()
        await turns()
        places.leave()
    await asyncio.gather(first, last)
    assert visitors.inside == ["a", "c"]
    places.leave()
    await places.take(has_begun=False)  # it is free again
    assert given_up.cancelled()
