from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cases import each_case
from orbitmq.codes import RequestCode
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.messages.record import iter_records
from orbitmq.wire.pop.revive_log import decode_ack
from unit.broker.handlers.support import pop

from ..parts import Serve
from .support import exchange, exchange_together

Fields = dict[str, str | None]

VARIANTS: list[list[Fields]] = [
    [{}, {}, {}, {}],
    [{}, {"number": "0"}, {}, {}],
    [{}, {"number": "0"}],
    [{}, {"topic": "none"}, {}],
    [{}, {"consumerGroup": "other"}, {}],
    [{}, {"consumerGroup": None}, {}],
    [{}, {"queueId": "9"}, {}],
    [{}, {"queueId": "-1"}, {}],
    [{}, {"queueId": "x"}, {}],
    [{}, {"queueId": "00"}, {}],
    [{}, {"offset": "999"}, {}],
    [{}, {"offset": "-1"}, {}],
    [{}, {"offset": "+1"}, {}],
    [{}, {"offset": "٣"}, {}],
    [{}, {"offset": None}, {}],
    [{}, {"offset": "9" * 19}, {}],
    [{}, {"extraInfo": ""}, {}],
    [{}, {"extraInfo": None}, {}],
    [{}, {"extraInfo": "0 1 60000 3 0 a 0 1"}, {}],
    [{}, {"extraInfo": "0 1 60000 3 0 other 0 1"}, {}],
    [{}, {"extraInfo": "0 1 60000 3 7 a 0 1"}, {}],
    [{}, {"extraInfo": "0 1 60000 3 0 a"}, {}],
    [{}, {"extraInfo": "0 1 60000 999 0 a 0 1", "offset": "1"}, {}],
    [{"extraInfo": "x 1 60000 3 0 a 0 1", "offset": "1"}, {}],
    [{"bname": None}, {"bname": "other"}, {"another": "1"}],
    [{}, {"offset": "999", "both": "999"}, {}],
    [{}, {"offset": "999999", "both": "999999"}, {}],
]


def ack_frames(handles: list[str], group: str, variant: list[Fields], code: int = 200051) -> list[bytes]:
    frames = []
    for opaque, changes in enumerate(variant):
        handle = handles[int(changes.get("number") or opaque)]
        if changes.get("both"):
            handle = f"{handle.rpartition(' ')[0]} {changes['both']}"
        fields: Fields = {
            "consumerGroup": group, "topic": "t", "queueId": "0", "extraInfo": handle, "offset": handle.split(" ")[-1],
            "bname": "a",
        }  # fmt: skip
        sent = {name: value for name, value in (fields | changes).items() if value is not None}
        sent.pop("number", None)
        frames.append(encode_command(Command(code, opaque, 0, None, sent, language="JAVA")))
    return frames


async def popped(harness: Any, group: str, count: int = 5) -> list[str]:
    """Return handles of messages that were popped just now."""
    await harness.make_group(group)
    return [one.properties["POP_CK"] for one in await pop(harness, consumer_group=group, queue_id=0, count_max=count)]


def remark_of(answer: Command, group: str) -> str:
    return (answer.remark or "").replace(group, "GROUP")


async def test_the_fast_path_notes_acks_as_the_slow_path_does(harness: Any) -> None:
    """Every variant takes the fast path in one read, and the slow path one by one; answers and what is left must agree."""

    for _ in range(5):
        await harness.send("t", queue_id=0)
    fast_path, checkpoints = (
        harness.broker.running.fast_path,
        harness.broker.service.delivery.pop.revive_log.checkpoints,
    )
    seen: list[list[Any]] = []
    for is_fast in (True, False):
        outcomes: list[Any] = []
        for number, variant in enumerate(VARIANTS):
            group = f"{'fast' if is_fast else 'long'}{number}"
            frames = ack_frames(await popped(harness, group), group, variant)
            fast_path.is_open = is_fast
            send = exchange_together if is_fast else exchange
            answers = await asyncio.to_thread(send, harness.broker.address, frames)
            fast_path.is_open = True
            answered = sorted((one.opaque, one.code, one.ext_fields, remark_of(one, group)) for one in answers)
            found = [one for key, one in checkpoints._by_key.items() if key.group == group]
            left = [one.offsets_left for one in found]
            outcomes.append((answered, left, checkpoints.in_flight.get(("t", group, 0))))
        seen.append(outcomes)
    for variant, fast, long in zip(VARIANTS, *seen, strict=True):
        assert fast == long, variant


async def test_acks_of_one_checkpoint_become_one_record_which_a_start_reads(serve: Serve) -> None:
    async with serve() as harness:
        for _ in range(5):
            await harness.send("t", queue_id=0)
        handles = [await popped(harness, group) for group in ("g", "h")]
        connection = next(iter(harness.broker.running.server.connections))
        frames = ack_frames(handles[0], "g", [{}, {}, {}, {"number": "0"}]) + ack_frames(handles[1], "h", [{}])
        answers: list[bytes] = []
        data = b"".join(frames)
        assert harness.broker.running.fast_path.answer(data + frames[0][:-1], answers, connection) == len(data)
        assert len(answers) == 5
        assert harness.broker.running.server.counters.requests[RequestCode.ACK_MESSAGE] == 5
        log, store = harness.broker.service.delivery.pop.revive_log, harness.broker.service.store
        assert log.ack_count == 2
        acks = [
            decode_ack(one.body, "a").offsets
            for queue_id in range(8)
            for one in iter_records(store.read(log.topic, queue_id, 0, 100, 1 << 20).body)
            if b"TAGS\x01bAck\x02" in one.properties or b"TAGS\x01ack\x02" in one.properties
        ]
        assert sorted(acks) == [(0,), (0, 1, 2)]
    async with serve() as harness:
        left = {
            key.group: one.offsets_left
            for key, one in harness.broker.service.delivery.pop.revive_log.checkpoints._by_key.items()
        }
        assert left == {"g": [3, 4], "h": [1, 2, 3, 4]}


async def test_a_read_notes_no_more_checkpoints_than_a_turn_has_room_for(harness: Any) -> None:
    """The rest waits for its connection's next turns."""

    for _ in range(TURN_COUNT + 2):
        await harness.send("t", queue_id=0)
    handles = [handle for _ in range(TURN_COUNT + 2) for handle in await popped(harness, "g", count=1)]
    connection = next(iter(harness.broker.running.server.connections))
    frames = ack_frames(handles, "g", [{}] * len(handles))
    fast_path, log = harness.broker.running.fast_path, harness.broker.service.delivery.pop.revive_log
    assert fast_path.answer(b"".join(frames), [], connection) == sum(map(len, frames[:TURN_COUNT]))
    assert log.checkpoints.count == 2
    got = await asyncio.to_thread(exchange_together, harness.broker.address, frames)
    assert [(one.code, one.opaque) for one in got] == [(0, number) for number in range(len(frames))]
    assert log.checkpoints.count == 0


async def test_an_unforeseen_failure_is_answered_by_the_slow_path(harness: Any) -> None:
    await harness.send("t", queue_id=0)
    await harness.send("t", queue_id=0)
    (good,) = ack_frames(await popped(harness, "g", 1), "g", [{}])
    (bad,) = ack_frames(await popped(harness, "g", 1), "g", [{}])
    log = harness.broker.service.delivery.pop.revive_log
    acknowledge, left = log.acknowledge, [1]

    def fail(*arguments: Any) -> Any:
        if not left[0]:
            raise RuntimeError("odd")
        left[0] -= 1
        return acknowledge(*arguments)

    log.acknowledge = fail
    got = await asyncio.to_thread(exchange_together, harness.broker.address, [good, bad])
    assert [answer.code for answer in got] == [0, 1]
    assert got[1].remark == "RuntimeError: odd"


async def test_acks_whose_answer_fails_after_they_were_noted_are_noted_once(
    harness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.send("t", queue_id=0)
    (frame,) = ack_frames(await popped(harness, "g", 1), "g", [{}])
    service = harness.broker.service
    log = service.delivery.pop.revive_log
    acknowledge, calls = log.acknowledge, []

    def noting(*given: Any) -> Any:
        calls.append(given)
        return acknowledge(*given)

    def fails(*_: Any) -> Any:
        raise RuntimeError("odd")

    monkeypatch.setattr(log, "acknowledge", noting)
    monkeypatch.setattr(type(service.monitoring.stats), "acknowledged", fails)
    (answer,) = await asyncio.to_thread(exchange_together, harness.broker.address, [frame])
    assert (answer.code, answer.remark, len(calls)) == (1, "RuntimeError: odd", 1)


@each_case(200050, 200052)
async def test_other_codes_that_begin_alike_are_left_to_the_slow_path(code: int, harness: Any) -> None:
    await harness.send("t", queue_id=0)
    connection = next(iter(harness.broker.running.server.connections))
    (one,) = ack_frames(await popped(harness, "g"), "g", [{}], code)
    assert harness.broker.running.fast_path.answer(one, [], connection) == 0
