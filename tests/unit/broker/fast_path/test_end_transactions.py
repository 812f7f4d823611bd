from __future__ import annotations

import asyncio
from typing import Any

from orbitmq.codes import RequestCode
from orbitmq.net.time_slices import TURN_COUNT
from orbitmq.wire.command import Command, SerializeType, encode_command
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendResponse
from orbitmq.wire.messages.message_id import parse_offset_message_id
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import iter_records
from unit.broker.fast_path.support import exchange, exchange_together

Fields = dict[str, str | None]

HALF = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K1", "TAGS": "a"}
IMMUNE = {**HALF, "CHECK_IMMUNITY_TIME_IN_SECONDS": "1"}
OTHERS = {**HALF, "A": "b"}

VARIANTS: list[tuple[dict[str, str], Fields]] = [
    (HALF, {}),
    (HALF, {"commitOrRollback": "12"}),
    (HALF, {"commitOrRollback": "0"}),
    (HALF, {"commitOrRollback": "4"}),
    (HALF, {"commitOrRollback": "x"}),
    (HALF, {"commitOrRollback": None}),
    (HALF, {"commitOrRollback": "99999999999"}),
    (HALF, {"producerGroup": "q"}),
    (HALF, {"producerGroup": ""}),
    (HALF, {"producerGroup": None}),
    (HALF, {"tranStateTableOffset": "-1"}),
    (HALF, {"tranStateTableOffset": "123456"}),
    (HALF, {"tranStateTableOffset": "99999999999999999999"}),
    (HALF, {"commitLogOffset": "0"}),
    (HALF, {"commitLogOffset": "-1"}),
    (HALF, {"commitLogOffset": "99999999"}),
    (HALF, {"fromTransactionCheck": "true"}),
    (HALF, {"fromTransactionCheck": None, "topic": None, "transactionId": None, "bname": None}),
    (HALF, {"msgId": None}),
    (HALF, {"another": "1"}),
    (IMMUNE, {}),
    (OTHERS, {}),
    (OTHERS, {"commitOrRollback": "12", "fromTransactionCheck": "TRUE"}),
]


def end_fields(sent: SendResponse, changes: Fields) -> dict[str, str]:
    _, place = parse_offset_message_id(sent.message_id)
    fields: Fields = {
        "topic": "t", "producerGroup": "p", "tranStateTableOffset": str(sent.queue_offset), "commitLogOffset": str(place),
        "commitOrRollback": "8", "fromTransactionCheck": "false", "msgId": "K1", "transactionId": "K1", "bname": "a",
    }  # fmt: skip
    return {name: value for name, value in (fields | changes).items() if value is not None}


def end_frame(fields: dict[str, str], opaque: int = 7, **settings: Any) -> bytes:
    return encode_command(Command(RequestCode.END_TRANSACTION, opaque, 0, None, fields, language="JAVA", **settings))


async def prepare(harness: Any, properties: dict[str, str], body: bytes = b"hello") -> SendResponse:
    settings = {"body": body, "queue_id": 1, "sys_flag": 4, "flag": 5}
    answer = await harness.send("t", properties=format_properties(properties).decode(), **settings)
    assert answer.code == 0, answer.remark
    return decode_header(SendResponse, answer.ext_fields)


async def test_the_fast_path_ends_transactions_as_the_slow_path_does(harness: Any) -> None:
    """Every variant goes both ways, each twice: the second finds what the first has ended."""

    service, fast_path = harness.broker.service, harness.broker.running.fast_path
    counts = service.sends.transactions.counts
    seen: list[list[Any]] = []
    for is_fast in (True, False):
        outcomes: list[Any] = []
        for properties, changes in VARIANTS:
            sent = await prepare(harness, properties)
            place = parse_offset_message_id(sent.message_id)[1]
            begin, before = (
                service.store.max_offset("t", 1),
                (counts.commits.get("t", 0), counts.rollbacks.get("t", 0)),
            )
            one = end_frame(end_fields(sent, changes))
            fast_path.is_open = is_fast
            answers = await asyncio.to_thread(exchange, harness.broker.address, [one, one])
            fast_path.is_open = True
            records = [
                (
                    one.flag, one.sys_flag, one.born_at_ms, one.born_host.ip, one.prepared_transaction_offset - place,
                    bytes(one.body), one.properties,
                )
                for one in iter_records(service.store.read("t", 1, begin, 9, 1 << 20).body)
            ]  # fmt: skip
            after = counts.commits.get("t", 0) - before[0], counts.rollbacks.get("t", 0) - before[1]
            outcomes.append(([one[:-1] for one in answers], records, after))
        outcomes.append(counts.open["t"])
        seen.append(outcomes)
    fast, long = seen
    assert fast[:-1] == long[:-1]
    assert long[-1] == 2 * fast[-1]
    assert sum(len(records) for _, records, _ in fast[:-1]) == 5


async def test_decisions_in_one_read_go_the_fast_path_up_to_one_that_is_refused(harness: Any) -> None:
    fast_path, connection = (
        harness.broker.running.fast_path,
        next(iter(harness.broker.running.server.connections), None),
    )
    sent = [await prepare(harness, HALF) for _ in range(4)]
    connection = next(iter(harness.broker.running.server.connections))
    frames = [end_frame(end_fields(one, {}), number) for number, one in enumerate(sent)]
    frames[1] = end_frame(end_fields(sent[1], {"commitOrRollback": "12"}), 1)
    data = b"".join([*frames[:2], frames[0], *frames[2:]])
    answers: list[bytes] = []
    requests = harness.broker.running.server.counters.requests
    assert fast_path.answer(data, answers, connection) == len(frames[0] + frames[1])
    assert (len(answers), requests[RequestCode.END_TRANSACTION]) == (2, 2)
    assert fast_path.answer(frames[0], answers, connection) == 0
    assert fast_path.answer(frames[2][:-1], answers, connection) == 0
    counts = harness.broker.service.sends.transactions.counts
    assert (counts.open, counts.commits, counts.rollbacks) == ({"t": 2}, {"t": 1}, {"t": 1})
    got = await asyncio.to_thread(exchange_together, harness.broker.address, [frames[2], frames[0], frames[3]])
    assert [(one.code, one.opaque) for one in got] == [(0, 2), (1, 0), (0, 3)]


async def test_a_read_ends_no_more_transactions_than_a_turn_has_room_for(harness: Any) -> None:
    """The rest waits for its connection's next turns, and is answered in its order."""

    fast_path, connection = (
        harness.broker.running.fast_path,
        next(iter(harness.broker.running.server.connections), None),
    )
    sent = [await prepare(harness, HALF) for _ in range(TURN_COUNT + 2)]
    connection = next(iter(harness.broker.running.server.connections))
    frames = [end_frame(end_fields(one, {}), number) for number, one in enumerate(sent)]
    answers: list[bytes] = []
    assert fast_path.answer(b"".join(frames), answers, connection) == sum(map(len, frames[:TURN_COUNT]))
    assert len(answers) == TURN_COUNT
    got = await asyncio.to_thread(exchange_together, harness.broker.address, frames)
    assert [(one.code, one.opaque) for one in got] == [(int(n < TURN_COUNT), n) for n in range(len(frames))]


async def test_a_read_commits_no_more_bytes_than_a_turn_has_room_for(harness: Any) -> None:
    fast_path = harness.broker.running.fast_path
    sent = [await prepare(harness, HALF, body=bytes(600_000)) for _ in range(3)]
    connection = next(iter(harness.broker.running.server.connections))
    frames = [end_frame(end_fields(one, {}), number) for number, one in enumerate(sent)]
    assert fast_path.answer(b"".join(frames), [], connection) == len(frames[0] + frames[1])


async def test_an_unforeseen_failure_is_answered_by_the_slow_path(harness: Any) -> None:
    sent = [await prepare(harness, HALF) for _ in range(2)]
    frames = [end_frame(end_fields(one, {}), number) for number, one in enumerate(sent)]
    transactions = harness.broker.service.sends.transactions
    end, left = transactions.end, [1]

    def fail(*arguments: Any) -> Any:
        if not left[0]:
            raise RuntimeError("odd")
        left[0] -= 1
        return end(*arguments)

    transactions.end = fail
    got = await asyncio.to_thread(exchange_together, harness.broker.address, frames)
    assert [(one.code, one.remark) for one in got] == [(0, None), (1, "RuntimeError: odd")]


async def test_a_binary_header_is_left_to_the_slow_path(harness: Any) -> None:
    sent = await prepare(harness, HALF)
    one = end_frame(end_fields(sent, {}), serialize_type=SerializeType.ROCKETMQ)
    assert harness.broker.running.fast_path.answer(one, [], next(iter(harness.broker.running.server.connections))) == 0
    (answer,) = await asyncio.to_thread(exchange, harness.broker.address, [one])
    assert (answer.code, answer.serialize_type) == (0, SerializeType.ROCKETMQ)
