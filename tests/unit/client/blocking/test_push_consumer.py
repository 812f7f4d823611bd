import pytest

from orbitmq.blocking import PushConsumer
from orbitmq.errors import InvalidArgument, InvalidExpression
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.route import MessageQueue


def test_a_script_consumes_what_it_subscribed_to(served):
    served.topic("orders", count=2)
    served.apply(lambda: served.a.put("orders", 0, b"1", tag="A"))
    served.apply(lambda: served.a.put("orders", 0, b"2", tag="B"))
    served.apply(lambda: served.a.put("orders", 1, b"3", tag="B"))
    found = []
    with PushConsumer("takers", served.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe("orders", tag="B")
        for batch in consumer:
            found += [message.body for message in batch]
            assert batch.commit()
            if len(found) == 2:
                break
        assert consumer.assignment == {MessageQueue("orders", "broker-a", number) for number in range(2)}
        consumer.commit_offsets()
        assert served.a.offsets["takers", "orders", 0] == 2
        consumer.unsubscribe("orders")
        while consumer.assignment:  # the time limit of tests ends one that waits for ever
            assert consumer.next_batch(timeout_ms=1) is None
    assert sorted(found) == [b"2", b"3"]


def test_a_batch_that_is_left_without_commit_comes_again(served):
    served.topic("orders", count=1)
    served.apply(served.a.put, "orders", 0, b"1")
    with PushConsumer("takers", served.name_servers, retry_delay_ms=1, ordered=True) as consumer:
        consumer.subscribe("orders")
        attempts = []
        for batch in consumer:
            attempts.append(batch.attempt)
            if batch.attempt == 2:
                assert batch.retry()
            if batch.attempt == 3:
                batch.defer()
                assert batch.commit()
                break
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize("name", ["handler", "message_handler"])
def test_a_handler_is_refused(name):
    with pytest.raises(InvalidArgument, match=name):
        PushConsumer("takers", "127.0.0.1:1", **{name: print})


def test_a_wrong_expression_is_an_error_of_the_script(served):
    with PushConsumer("takers", served.name_servers) as consumer:
        with pytest.raises(InvalidExpression, match="line 1, column 8"):
            consumer.subscribe("orders", sql="price >")
        consumer.subscribe("orders", sql="price > 10")
