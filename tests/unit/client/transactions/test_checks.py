import asyncio
import threading
from typing import cast

import pytest

from orbitmq.client.transactions import checks
from orbitmq.client.transactions.checks import CheckAnswers, check_transaction_state
from orbitmq.client.transactions.decision import Decision
from orbitmq.net.dispatch.handlers import Call
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.command import Command
from orbitmq.wire.headers import CheckTransactionState
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import format_record
from waiting import until

QUESTION = CheckTransactionState(
    topic="h", tran_state_table_offset=3, commit_log_offset=77, message_id="K1", transaction_id="K1", broker_name="a"
)


class Broker:
    """A connection that remembers the answers."""

    def __init__(self):
        self.answers = []

    def send_oneway(self, header, body=b"", *, code=None):
        self.answers.append(header)


def ask(answers, broker, body=b"x", group="g", **properties):
    made = format_properties({"PGROUP": group, "UNIQ_KEY": "K1", **properties})
    record = format_record(topic="t", body=body, properties=made, queue_id=2)
    check_transaction_state(answers, Call(QUESTION, Command(39, body=record), cast(Peer, broker), now_ms=0))


def decisions(broker):
    return [answer.commit_or_rollback for answer in broker.answers]


async def test_what_check_says_of_the_message_is_answered():
    broker, seen = Broker(), []

    def check(message):
        seen.append((message.body, message.topic, message.message_id, message.broker_name, threading.current_thread()))
        return Decision.COMMIT

    answers = CheckAnswers("g", check)
    assert answers.is_answering
    ask(answers, broker)
    await until(lambda: broker.answers)
    ((body, topic, message_id, broker_name, thread),) = seen
    assert (body, topic, message_id, broker_name) == (b"x", "t", "K1", "a")
    assert thread is not threading.main_thread()
    (answer,) = broker.answers
    assert (answer.commit_or_rollback, answer.from_transaction_check, answer.message_id) == (8, True, "K1")
    assert (answer.tran_state_table_offset, answer.commit_log_offset, answer.producer_group) == (3, 77, "g")


async def test_check_may_be_a_coroutine_or_return_one():
    broker = Broker()

    async def check(message):
        return Decision.ROLLBACK

    for each in (check, lambda message: check(message)):
        ask(CheckAnswers("g", each), broker)
    await until(lambda: len(broker.answers) == 2)
    assert decisions(broker) == [12, 12]


@pytest.mark.parametrize("outcome", [RuntimeError("the database is down"), None, True])
async def test_a_check_that_fails_leaves_the_transaction_open(outcome, caplog):
    broker = Broker()

    def check(message):
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    ask(CheckAnswers("g", check), broker)
    await until(lambda: broker.answers)
    assert decisions(broker) == [0]
    assert "cannot be said now" in caplog.text


async def test_what_is_not_the_groups_or_cannot_be_read_is_not_answered(caplog):
    broker = Broker()
    answers = CheckAnswers("g", lambda message: Decision.COMMIT)
    ask(answers, broker, group="another")
    for body in (b"", b"no record", format_record(topic="t", body=b"x", properties=b"\xff\xff\xff\x02")):
        check_transaction_state(answers, Call(QUESTION, Command(39, body=body), cast(Peer, broker), now_ms=0))
    ask(CheckAnswers("g", None), broker)
    await asyncio.sleep(0)
    assert not broker.answers
    assert not answers._tasks._tasks
    assert not CheckAnswers("g", None).is_answering
    assert "cannot be read" in caplog.text


async def test_only_so_many_questions_are_looked_into_at_the_same_time(monkeypatch):
    monkeypatch.setattr(checks, "COROUTINE_CHECKS_MAX", 2)
    broker, may_go = Broker(), asyncio.Event()

    async def check(message):
        await may_go.wait()
        return Decision.COMMIT

    answers = CheckAnswers("g", check)
    for _ in range(5):
        ask(answers, broker)
    may_go.set()
    await until(lambda: len(broker.answers) == 2)
    ask(answers, broker)
    await until(lambda: len(broker.answers) == 3)
    assert answers._dropped_count == 3


async def test_fewer_are_looked_into_at_the_same_time_where_each_takes_a_thread(monkeypatch):
    monkeypatch.setattr(checks, "CHECKS_MAX", 2)
    broker, may_go = Broker(), threading.Event()

    def check(message):
        may_go.wait()
        return Decision.COMMIT

    answers = CheckAnswers("g", check)
    for _ in range(5):
        ask(answers, broker)
    may_go.set()
    await until(lambda: len(broker.answers) == 2)
    assert answers._dropped_count == 3


async def test_closing_leaves_questions_unanswered():
    broker = Broker()

    async def check(message):
        await asyncio.Event().wait()
        return Decision.COMMIT

    answers = CheckAnswers("g", check)
    ask(answers, broker)
    await answers.close()
    assert not broker.answers
