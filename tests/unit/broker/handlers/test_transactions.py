from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.handlers.transactions import end_transaction, resume_check_half_message
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, StoreBusy, StoreUnavailable
from orbitmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import EndTransaction, ResumeCheckHalfMessage, SendResponse
from orbitmq.wire.messages.message_id import offset_message_id, parse_offset_message_id
from orbitmq.wire.messages.properties import format_properties

from ..parts import HOST, FakePeer, Registries, Serve, broker_of, call

HALF = format_properties({"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "K1", "TAGS": "a"}).decode()


def end_header(sent: SendResponse, decision: int = 8, **fields: Any) -> EndTransaction:
    _, physical_offset = parse_offset_message_id(sent.message_id)
    settings: dict[str, Any] = {
        "producer_group": "p", "tran_state_table_offset": sent.queue_offset, "commit_log_offset": physical_offset,
        "commit_or_rollback": decision, "message_id": "K1",
    }  # fmt: skip
    return EndTransaction(**settings | fields)


async def prepare(harness: Any, **fields: Any) -> SendResponse:
    answer = await harness.send(body=b"x", properties=HALF, queue_id=2, sys_flag=4, **fields)
    assert answer.code == 0, answer.remark
    return decode_header(SendResponse, answer.ext_fields)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_transaction_is_committed_or_rolled_back_over_the_wire(serve: Serve, flush: str) -> None:
    async with serve(flush_disk_type=flush) as harness:
        first, second = await prepare(harness), await prepare(harness)
        assert (first.queue_id, first.queue_offset, first.transaction_id) == (2, 0, "K1")
        assert (await harness.pull(queue_id=2))[1] == []
        assert await harness.code(end_header(first, 0)) == 0
        assert (await harness.pull(queue_id=2))[1] == []
        assert await harness.code(end_header(second, 12)) == 0
        assert await harness.code(end_header(first)) == 0
        _, records = await harness.pull(queue_id=2)
        assert [bytes(record.body) for record in records] == [b"x"]
        assert (await harness.ask(end_header(first))).remark == "the transaction has ended before, or was discarded"
        counts = harness.broker.service.sends.transactions.counts
        assert (counts.open, counts.commits, counts.rollbacks) == ({"t": 0}, {"t": 1}, {"t": 1})


async def test_a_decision_that_is_none_is_refused(harness: Any) -> None:
    sent = await prepare(harness)
    for decision in (4, 1, -8, 2**31 - 1):
        answer = await harness.ask(end_header(sent, decision))
        assert (answer.code, answer.remark) == (
            1,
            f"commitOrRollback field wrong: {decision}, 0, 8 or 12 is allowed",
        )


async def test_half_messages_are_refused_where_the_broker_takes_none(serve: Serve) -> None:
    async with serve(reject_transaction_message=True) as harness:
        answer = await harness.send(properties=HALF)
        assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] sending transaction message is forbidden")


@each_case(
    (HALF + "DELAY\x013\x02", "cannot be delayed, it has DELAY"), ("TRAN_MSG\x01true\x02", "needs the property PGROUP")
)
async def test_a_half_message_that_could_never_be_right_is_refused(properties: str, remark: str, harness: Any) -> None:
    answer = await harness.send(properties=properties)
    assert answer.code == 13
    assert remark in answer.remark


async def test_a_message_that_comes_back_delayed_is_no_half_message(harness: Any) -> None:
    answer = await harness.send(properties=HALF + "DELAY\x011\x02", reconsume_times=1)
    assert answer.code == 0
    assert harness.broker.service.store.max_offset(HALF_TOPIC, 0) == 0


@each_case(4, 8, 12)
async def test_bits_of_a_transaction_alone_make_no_half_message(sys_flag: int, harness: Any) -> None:
    answer = await harness.send(sys_flag=sys_flag)
    assert answer.code == 13
    assert "TRAN_MSG is not true" in answer.remark


async def test_what_is_open_is_open_after_a_restart(serve: Serve) -> None:
    sent: list[SendResponse] = []

    async with serve() as harness:
        sent.append(await prepare(harness))
    async with serve() as harness:
        assert harness.broker.service.sends.transactions.counts.open == {"t": 1}
        assert await harness.code(end_header(sent[0])) == 0
        assert len((await harness.pull(queue_id=2))[1]) == 1


class Ends:
    """Transactions that are asked to end one."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def end(self, header: object, now_ms: int) -> Any:
        raise self.error

    def resume(self, physical_offset: int, now_ms: int) -> Any:
        raise self.error


@each_case(
    (StoreUnavailable("full"), 14),
    (StoreBusy("busy"), 2),
    (InvalidArgument("message", "9 bytes", "less"), 13),
    (Rejected(604, "late"), 604),
)
def test_what_the_store_refuses_is_told_as_for_sends(error: Exception, code: int) -> None:
    broker = broker_of(Registries(), sends_transactions=Ends(error), sends_sending=SimpleNamespace(answers=None))
    sent = SendResponse(message_id=offset_message_id(HOST, 5), queue_id=0, queue_offset=0)
    with pytest.raises(Rejected) as refused:
        end_transaction(broker, call(end_header(sent)))
    assert refused.value.code == code


async def test_a_message_that_was_given_up_is_resumed_by_its_id(serve: Serve) -> None:
    async with serve(transaction_check_max=1) as harness:
        await prepare(harness)
        service = harness.broker.service
        transactions, store = service.sends.transactions, service.store
        for _ in range(2):
            transactions.begin_round()
            transactions.check_some(harness.broker._clock() + 10**7, lambda renewed: None)
        (given_up,) = (await harness.pull(GIVEN_UP_TOPIC))[1]
        message_id = offset_message_id(service.address.host, given_up.physical_offset)
        assert await harness.code(ResumeCheckHalfMessage(message_id=message_id)) == 0
        half = store.message_at(HALF_TOPIC, 0, store.max_offset(HALF_TOPIC, 0) - 1)
        assert b"TRANSACTION_CHECK_TIMES\x010\x02" in half.properties
        for wrong in (None, "", "x", offset_message_id(HOST, half.physical_offset)):
            assert await harness.code(ResumeCheckHalfMessage(message_id=wrong)) == 1


@each_case((StoreUnavailable("full"), 14), (StoreBusy("busy"), 2))
def test_nothing_is_resumed_while_the_store_takes_nothing(error: Exception, code: int) -> None:
    broker = broker_of(Registries(), sends_transactions=Ends(error), sends_sending=SimpleNamespace(answers=None))
    with pytest.raises(Rejected) as refused:
        resume_check_half_message(broker, call(ResumeCheckHalfMessage(message_id=offset_message_id(HOST, 5))))
    assert refused.value.code == code


@each_case(
    (ResponseCode.SUCCESS, 0),
    (ResponseCode.SERVICE_NOT_AVAILABLE, 14),
    (ResponseCode.FLUSH_DISK_TIMEOUT, 14),
    (ResponseCode.FLUSH_SLAVE_TIMEOUT, 14),
)
def test_an_end_is_answered_when_it_is_as_safe_as_a_send(safety: ResponseCode, code: int) -> None:
    class Waiting:
        def wait_safe(self, end: int, safe: Any) -> bool:
            safe(safety)
            return False

    class Ended:
        def end(self, header: object, now_ms: int) -> Any:
            return type("Result", (), {"end": 9})()

    sent = SendResponse(message_id=offset_message_id(HOST, 5), queue_id=0, queue_offset=0)
    broker = broker_of(Registries(), sends_transactions=Ended(), sends_sending=SimpleNamespace(answers=Waiting()))
    asked = call(end_header(sent), peer=(peer := FakePeer()))
    assert end_transaction(broker, asked) is LATER
    assert [reply.code for reply in peer.replies] == [code]
