import threading

import pytest

from orbitmq import Decision, Message
from orbitmq.blocking import TransactionProducer
from orbitmq.wire.headers import EndTransaction


def ends(served):
    return [request.commit_or_rollback for request in served.a.requests if type(request) is EndTransaction]


@pytest.mark.parametrize(
    ("act", "value"),
    [
        (lambda transaction: None, 8),
        (lambda transaction: transaction.rollback(), 12),
        (lambda transaction: transaction.decide(Decision.ROLLBACK), 12),
    ],
)
def test_the_end_of_the_block_tells_the_decision(served, act, value):
    served.topic("orders", count=1)
    with TransactionProducer("makers", served.name_servers) as producer:
        with producer.transaction(Message("orders", b"x")) as transaction:
            assert transaction.sent.queue_offset == 0
            act(transaction)
        assert ends(served) == [value]


def test_an_exception_rolls_back(served):
    served.topic("orders", count=1)
    with TransactionProducer("makers", served.name_servers) as producer:

        def fail():
            with producer.transaction(Message("orders", b"x")) as transaction:
                transaction.unknown()
                raise ValueError("mine")

        with pytest.raises(ValueError, match="mine"):
            fail()
        assert ends(served) == [12]


@pytest.mark.parametrize(("outcome", "value"), [(Decision.COMMIT, 8), (Decision.ROLLBACK, 12)])
def test_execute_runs_where_it_was_called(served, outcome, value):
    served.topic("orders", count=1)
    threads = []

    def execute(message):
        threads.append(threading.current_thread())
        return outcome

    with TransactionProducer("makers", served.name_servers) as producer:
        result = producer.send_in_transaction(Message("orders", b"x"), execute)
        assert ends(served) == [value]
    assert result.decision is outcome
    assert threads == [threading.current_thread()]


def test_an_execute_that_fails_leaves_the_transaction_open(served, caplog):
    served.topic("orders", count=1)

    def execute(message):
        raise RuntimeError("the database is down")

    with TransactionProducer("makers", served.name_servers) as producer:
        assert producer.send_in_transaction(Message("orders", b"x"), execute).decision is Decision.UNKNOWN
    assert "stays open" in caplog.text
