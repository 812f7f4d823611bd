"""Answers to brokers that ask how a transaction of the producer's group has ended (39).

Any member of the group may be asked, also about a message that another one sent, before this one was started.

Source: Java ClientRemotingProcessor.checkTransactionState, DefaultMQProducerImpl.checkTransactionState.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from orbitmq.client.session.owning_loop import BackgroundTasks
from orbitmq.client.transactions.decision import Decision, answer_header
from orbitmq.errors import CorruptRecord
from orbitmq.model.message import PropertyName, StoredMessage
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.handlers import Call, Handlers, Reply
from orbitmq.wire.headers.send import CheckTransactionState
from orbitmq.wire.messages.record import Record, parse_record
from orbitmq.wire.messages.stored_messages import to_stored_message

log = logging.getLogger(__name__)

Check = Callable[[StoredMessage], Decision | Awaitable[Decision]]
"""Says how the transaction of a message has ended. A plain function runs on a thread and may wait for a database."""

OnAnswer = Callable[[StoredMessage, str, str, Decision], None]
"""Takes a message, its id, the broker's address, and what the broker was told."""

CHECKS_MAX = 1_000
"""Questions that are looked into at the same time; what is asked beyond goes unanswered, and is asked again."""
COROUTINE_CHECKS_MAX = 50_000
"""The same where `check` is a coroutine, which takes no thread: a broker asks about all that is open in one go."""


class CheckAnswers:
    """Answers questions with what the user's function says; without one, another member of the group has to.

    Args:
        group: the producer group.
        check: None: nothing is answered.
        on_answer: is told of every answer.
    """

    def __init__(self, group: str, check: Check | None, *, on_answer: OnAnswer = lambda *_: None) -> None:
        self._group = group
        self._on_answer = on_answer
        self._check = check
        self._count_max = COROUTINE_CHECKS_MAX if inspect.iscoroutinefunction(check) else CHECKS_MAX
        self._tasks = BackgroundTasks()
        self._count = 0
        self._dropped_count = 0

    @property
    def is_answering(self) -> bool:
        """True when brokers get answers."""
        return self._check is not None

    def take(self, call: Call[CheckTransactionState]) -> None:
        """Look into a question in the background, and answer on the connection that it came on."""
        message = _message(call)
        check = self._check
        if message is None or message.properties.get(PropertyName.PRODUCER_GROUP) != self._group:
            log.warning("a broker asks about a transaction that is not of the group %s", self._group)
        elif check is None:
            log.debug("a broker asks about a transaction, and there is no `check` to answer")
        elif self._count >= self._count_max:
            self._dropped_count += 1
            if is_worth_a_line(self._dropped_count):
                log.warning("%d questions about transactions are left to later rounds", self._dropped_count)
        else:
            self._count += 1
            self._tasks.spawn(self._answer(call, check, message), "transaction check")

    async def close(self) -> None:
        """Leave the questions that are being looked into to other members of the group."""
        await self._tasks.close()

    async def _answer(self, call: Call[CheckTransactionState], check: Check, message: StoredMessage) -> None:
        try:
            decision = await _ask(check, message)
        except Exception:
            log.exception("whether the transaction of message %s is committed cannot be said now", message.message_id)
            decision = Decision.UNKNOWN
        finally:
            self._count -= 1
        message_id = message.message_id or call.header.message_id or ""
        call.connection.send_oneway(answer_header(self._group, call.header, message_id, decision))
        self._on_answer(message, message_id, call.connection.remote, decision)


async def _ask(check: Check, message: StoredMessage) -> Decision:
    if inspect.iscoroutinefunction(check):
        found = await check(message)
    else:
        found = await asyncio.to_thread(check, message)
        if inspect.isawaitable(found):
            found = await found
    if not isinstance(found, Decision):
        raise TypeError(f"`check` has returned {found!r}, not a Decision")
    return found


def _message(call: Call[CheckTransactionState]) -> StoredMessage | None:
    try:
        record = parse_record(call.command.body)
        return to_stored_message(record, call.header.broker_name or "") if isinstance(record, Record) else None
    except CorruptRecord as error:
        log.warning("a broker's question about a transaction cannot be read: %s", error)
        return None


handlers: Handlers[CheckAnswers] = Handlers()


@handlers.on(CheckTransactionState)
def check_transaction_state(answers: CheckAnswers, call: Call[CheckTransactionState]) -> Reply:
    """Look into how a transaction has ended; the answer is a request of its own, this reply is ignored."""
    answers.take(call)
    return Reply()
