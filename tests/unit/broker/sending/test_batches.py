"""Large batches through the broker's port; small ones are among the tests of the handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.handlers.send import send_batch
from orbitmq.broker.sending.batches import PART_COUNT
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendBatch, SendResponse
from orbitmq.wire.messages.batch import encode_batch
from orbitmq.wire.messages.message_id import parse_offset_message_id
from waiting import until

from ..conftest import send_header
from ..parts import FakePeer, Serve, call

LARGE = 3 * PART_COUNT + 5
FIELDS: dict[str, Any] = {
    "producer_group": "p", "topic": "t", "default_topic": "TBW102", "default_topic_queue_nums": 4,
    "queue_id": 0, "sys_flag": 0, "born_at_ms": 1, "flag": 0, "properties": "", "batch": True,
}  # fmt: skip


@pytest.fixture
def strict(serve: Serve) -> Any:
    return serve(max_message_size=100)


def batch_of(count: int, *, last: bytes = b"") -> bytes:
    return encode_batch([(0, b"%d" % number, b"") for number in range(count - 1)] + [(0, last, b"")])


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("count", [PART_COUNT, PART_COUNT + 1, LARGE])
async def test_a_batch_of_any_size_is_stored_in_order_and_the_answer_names_every_message(
    serve: Serve, count: int, flush: str
) -> None:

    async with serve(flush_disk_type=flush) as harness:
        answer = await harness.ask(SendBatch(**FIELDS), batch_of(count))
        response = decode_header(SendResponse, answer.ext_fields)
        offsets = [parse_offset_message_id(one)[1] for one in response.message_id.split(",")]
        store = harness.broker.service.store
        assert (response.queue_offset, len(offsets), store.max_offset("t", 0)) == (0, count, count)
        for number in (0, 1, PART_COUNT - 2, count - 2):
            message = store.message_at("t", 0, number)
            assert (bytes(message.body), message.physical_offset) == (b"%d" % number, offsets[number])
        assert harness.broker.service.monitoring.stats.put_count == count


class CountingPeer(FakePeer):
    """Notes how much is stored after each step of a request's work."""

    def __init__(self, stored: Callable[[], int]) -> None:
        super().__init__()
        self.stored = stored
        self.counts: list[int] = []

    def work_on(self, work: Iterator[None]) -> None:
        for _ in work:
            self.counts.append(self.stored())


async def test_a_large_batch_is_checked_and_stored_in_small_steps(harness: Any) -> None:
    assert await harness.code(send_header()) == 0
    service = harness.broker.service
    peer = CountingPeer(lambda: service.store.max_offset("t", 0) - 1)
    assert send_batch(service.sends.sending, call(SendBatch(**FIELDS), batch_of(LARGE), peer=peer)) is LATER
    assert peer.counts.count(0) > LARGE // 300, "all is checked first"
    assert sorted(set(peer.counts)) == [0, PART_COUNT, 2 * PART_COUNT, 3 * PART_COUNT, LARGE]
    assert [reply.code for reply in peer.replies] == [0]


@each_case(
    (batch_of(LARGE)[:-1], 1),
    (batch_of(LARGE, last=b"x" * 200), 13),
    (batch_of(LARGE) + encode_batch([(0, b"", b"a\x01" + bytes(512))]), 1),
    (batch_of(LARGE) + encode_batch([(0, b"", b"DELAY\x013\x02")]), 13),
)
async def test_one_bad_message_at_the_end_refuses_all_of_a_large_batch(body: bytes, code: int, strict: Any) -> None:
    store, before = strict.broker.service.store, strict.broker.service.store.max_offset("t", 0)
    assert await strict.code(SendBatch(**FIELDS), body) == code
    assert store.max_offset("t", 0) == before
    assert await strict.code(SendBatch(**FIELDS), batch_of(LARGE)) == 0


async def test_large_batches_are_stored_one_after_another_and_beyond_the_limit_they_are_refused(serve: Serve) -> None:
    async with serve(large_batches_max=2) as harness:
        clients = [harness.connect() for _ in range(4)]
        address = harness.broker.address
        for client in clients:
            assert (await client.request(address, send_header(), timeout_ms=20_000)).code == 0
        asked = [
            asyncio.ensure_future(client.request(address, SendBatch(**FIELDS), batch_of(LARGE), timeout_ms=20_000))
            for client in clients
        ]
        answers = await asyncio.gather(*asked)
        assert sorted(answer.code for answer in answers) == [0, 0, 2, 2]
        firsts = [decode_header(SendResponse, one.ext_fields).queue_offset for one in answers if not one.code]
        assert sorted(firsts) == [4, 4 + LARGE], "none came between the messages of another"


async def test_a_topic_that_is_deleted_meanwhile_does_not_come_back_with_the_rest_of_a_batch(harness: Any) -> None:
    assert await harness.code(send_header()) == 0
    service = harness.broker.service
    sent = asyncio.ensure_future(harness.ask(SendBatch(**FIELDS), batch_of(LARGE)))
    await until(lambda: service.monitoring.stats.put_count > PART_COUNT)
    service.tables.topics.delete("t", 0, lambda: service.store.delete_topic("t"))
    assert (await sent).code == 17
    assert service.store.queue_ids("t") == []


async def test_a_disk_without_room_for_all_of_a_large_batch_takes_none_of_it(harness: Any) -> None:
    assert await harness.code(send_header()) == 0
    store = harness.broker.service.store
    end = store.max_physical_offset

    def make_room(topic: str, count: int, size: int) -> None:
        if count < LARGE:
            return make(topic, count, size)
        assert (topic, count) == ("t", LARGE)
        assert size > LARGE
        store._change(full="the disk is full")
        return make(topic, count, size)

    make, store.make_room = store.make_room, make_room
    answer = await harness.ask(SendBatch(**FIELDS), batch_of(LARGE))
    assert (answer.code, answer.remark) == (14, "the disk is full")
    assert store.max_physical_offset == end
