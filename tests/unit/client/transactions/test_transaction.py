import asyncio

import pytest

from orbitmq.client.send.result import SendResult, SendStatus
from orbitmq.client.transactions.decision import Decision
from orbitmq.client.transactions.transaction import Transaction
from orbitmq.errors import ClientError, ConnectionFailed
from orbitmq.model.message import Message
from orbitmq.model.route import MessageQueue

MESSAGE = Message("t", b"x")
SENT = SendResult("K1", "", MessageQueue("t", "a", 0), 3, SendStatus.SEND_OK)


class Ends:
    """What a broker was told."""

    def __init__(self, failure=None):
        self.log = []
        self.failure = failure

    def begin(self):
        return Transaction(MESSAGE, self.prepare, self.end)

    async def prepare(self, message):
        self.log.append(("prepared", message))
        return SENT

    async def end(self, message, sent, decision):
        self.log.append((decision, message, sent))
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(
    ("act", "decision"),
    [
        (lambda transaction: None, Decision.COMMIT),
        (lambda transaction: transaction.rollback(), Decision.ROLLBACK),
        (lambda transaction: transaction.unknown(), Decision.UNKNOWN),
        (lambda transaction: transaction.decide(Decision.ROLLBACK), Decision.ROLLBACK),
    ],
)
async def test_the_end_of_the_block_tells_the_decision(act, decision):
    ends = Ends()
    async with ends.begin() as transaction:
        assert ends.log == [("prepared", MESSAGE)]
        assert transaction.sent is SENT
        act(transaction)
    assert ends.log[1:] == [(decision, MESSAGE, SENT)]


@pytest.mark.parametrize("failure", [None, ConnectionFailed("the broker is gone")])
@pytest.mark.parametrize("error", [ValueError("my own"), asyncio.CancelledError(), KeyboardInterrupt()])
async def test_an_exception_rolls_back_and_is_seen(error, failure):
    ends = Ends(failure)

    async def fail():
        async with ends.begin() as transaction:
            transaction.unknown()
            raise error

    with pytest.raises(type(error)):
        await fail()
    assert ends.log[1:] == [(Decision.ROLLBACK, MESSAGE, SENT)]


async def test_a_commit_that_fails_is_told():
    ends = Ends(ConnectionFailed("the broker is gone"))
    with pytest.raises(ConnectionFailed):
        async with ends.begin():
            pass


async def test_a_transaction_is_for_one_block():
    transaction = Ends().begin()
    with pytest.raises(ClientError, match="has not begun"):
        transaction.sent  # noqa: B018 - it raises
    async with transaction:
        pass
    with pytest.raises(ClientError, match="begins once"):
        async with transaction:
            pass
