"""Claims about batches whose ends are traced: everything is passed on, and told message by message."""

from typing import Any, cast

from cases import each_case
from orbitmq.client.consume.batch import Batch
from orbitmq.client.trace.settlers import TracedSettler
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.traces import ConsumeReturnType
from unit.client.messages import stored


class FakeQueue:
    """A Settler that notes what it is told."""

    is_over = True

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def note(*arguments):
            self.calls.append((name, *arguments))
            return True

        return note


class FakeTracer:
    """Notes what it is told; gives no request id where nothing is to be traced."""

    def __init__(self, request_id):
        self.request_id = request_id
        self.ends = []

    def begun(self, messages):
        self.messages = list(messages)
        return self.request_id

    def ended(self, messages, request_id, outcome, cost_ms):
        assert cost_ms >= 0
        self.ends.append(([message.queue_offset for message in messages], request_id, outcome))


def traced(request_id="R"):
    queue, tracer = FakeQueue(), FakeTracer(request_id)
    settler = TracedSettler(queue, cast(Any, tracer))
    batch = Batch(MessageQueue("t", "a", 0), [stored(7), stored(8), stored(9)], settler)
    settler.begun(batch)
    return batch, settler, queue, tracer


def test_every_message_is_told_as_it_ended():
    batch, settler, queue, tracer = traced()
    assert [message.queue_offset for message in tracer.messages] == [7, 8, 9]
    assert settler.is_over
    batch.ack(batch[1])
    batch.retry(batch[0])
    batch.commit()
    assert tracer.ends == [
        ([8], "R", ConsumeReturnType.SUCCESS),
        ([7], "R", ConsumeReturnType.FAILED),
        ([9], "R", ConsumeReturnType.SUCCESS),
    ]
    assert [name for name, *_ in queue.calls] == ["begun", "done", "failed", "done", "batch_ended"]


@each_case("suspend", "reject")
def test_what_is_suspended_or_given_up_has_failed(how):
    batch, _, queue, tracer = traced()
    assert getattr(batch, how)()
    assert tracer.ends == [([7, 8, 9], "R", ConsumeReturnType.FAILED)]
    assert queue.calls[1][0] in ("suspended", "rejected")


def test_nothing_is_told_of_a_batch_that_is_not_traced():
    batch, _, queue, tracer = traced(request_id=None)
    batch.commit()
    assert tracer.ends == []
    assert [name for name, *_ in queue.calls] == ["begun", "done", "batch_ended"]
