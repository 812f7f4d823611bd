import asyncio
import subprocess
import sys
import threading

import pytest

from orbitmq import blocking
from orbitmq.client.loop_thread import BackgroundLoop
from orbitmq.errors import ClientError, InvalidArgument, NoNameServer, RouteNotFound, SendFailed
from orbitmq.model.group import ConsumeFrom
from orbitmq.model.message import Message
from unit.client.fakes import FakeCluster


@pytest.fixture
def served():
    """A fake cluster on a loop of its own, and a way to change it there."""
    background = BackgroundLoop("fake cluster")
    cluster = background.call(FakeCluster().__aenter__())
    cluster.apply = background.apply
    yield cluster
    background.call(cluster.__aexit__())
    background.stop()


def test_a_script_sends_and_consumes_without_a_loop(served):
    served.topic("orders", count=2)
    with blocking.Producer("makers", served.name_servers) as producer:
        sent = producer.send(Message("orders", b"1", tag="A"), key="42")
        assert sent.queue in producer.queues("orders")
        assert len(producer.send_batch([Message("orders", b"2")])) == 1
        producer.send_oneway(Message("orders", b"3"))
        assert producer.send_all((Message("orders", str(n).encode()) for n in range(4, 50)), key=lambda _: "k") == 46
    found = []
    with blocking.PushConsumer("takers", served.name_servers, consume_from=ConsumeFrom.FIRST) as consumer:
        consumer.subscribe("orders")
        for batch in consumer:
            assert len(batch) == len(list(batch))
            assert batch[0].topic == "orders"
            assert "orders" in repr(batch)
            found += [int(message.body) for message in batch]
            assert batch.commit()
            if len(found) == 49:
                break
        assert consumer.assignment
        consumer.commit_offsets()
        consumer.unsubscribe("orders")
        assert consumer.next_batch(timeout_ms=1) is None
    assert sorted(found) == list(range(1, 50))


def test_a_batch_that_is_left_without_commit_comes_again(served):
    served.topic("orders", count=1)
    served.a.put("orders", 0, b"1")
    with blocking.PushConsumer("takers", served.name_servers, retry_delay_ms=1) as consumer:
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


def test_a_script_reads_queues_of_its_choice(served):
    served.topic("orders", count=1)
    served.a.put("orders", 0, b"1", b"2", stored_at_ms=5)
    with blocking.PullConsumer("auditors", served.name_servers) as consumer:
        (queue,) = consumer.queues("orders")
        consumer.assign([queue])
        assert consumer.assignment == {queue}
        assert [message.body for message in consumer.poll(5_000)] == [b"1", b"2"]
        assert consumer.position(queue) == 2
        consumer.commit()
        assert consumer.committed(queue) == 2
        assert consumer.offsets([queue]) == {queue: (0, 2)}
        assert consumer.seek_to_begin(queue) == 0
        assert consumer.seek_to_end(queue) == 2
        assert consumer.seek_to_timestamp(queue, 5) == 0
        consumer.seek(queue, 1)
        assert [message.body for message in consumer.poll(5_000)] == [b"2"]


def test_errors_are_raised_where_the_caller_is(served):
    with blocking.Producer("makers", served.name_servers) as producer, pytest.raises(RouteNotFound, match="orders"):
        producer.send(Message("orders", b"x"))
    with pytest.raises(InvalidArgument):
        blocking.Producer("no group", served.name_servers)
    with pytest.raises(InvalidArgument, match="handler"):
        blocking.PushConsumer("takers", served.name_servers, handler=print)
    with pytest.raises(ClientError, match="closed"):
        producer.send(Message("orders", b"x"))


def test_a_failed_start_leaves_no_thread_behind(served):
    served.apply(lambda: asyncio.ensure_future(served.name_server.stop()))
    before = threading.active_count()
    consumer = blocking.PushConsumer("takers", served.name_servers)
    with pytest.raises(NoNameServer), consumer:
        pass
    assert threading.active_count() == before


def test_what_send_all_could_not_send_is_told(served):
    served.topic("orders", perm=6)
    served.apply(lambda: asyncio.ensure_future(served.a.stop()))
    with blocking.Producer("makers", served.name_servers, retries=0) as producer, pytest.raises(SendFailed):
        producer.send_all([Message("orders", b"x")])


def test_an_interrupt_ends_the_wait_and_leaves_the_client_usable(served):
    served.topic("orders", count=1)
    script = """
import asyncio, os, signal, sys
from orbitmq.blocking import PushConsumer
cancelled = []
async def wait():
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        cancelled.append("cancelled")
        raise
with PushConsumer("takers", sys.argv[1]) as consumer:
    consumer.subscribe("orders")
    print("waiting", flush=True)
    sys.stdin.readline()
    try:
        # From the loop's thread, while this one waits.
        loop = consumer._background._loop
        loop.call_soon_threadsafe(loop.call_later, 0.05, os.kill, os.getpid(), signal.SIGINT)
        consumer._background.call(wait())
    except KeyboardInterrupt:
        print("interrupted", consumer.next_batch(timeout_ms=1), cancelled, flush=True)
print("closed")
"""
    with subprocess.Popen(
        [sys.executable, "-c", script, served.name_servers[0]],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "waiting\n"
        out, err = process.communicate("go\n")
    assert out == "interrupted None ['cancelled']\nclosed\n", err
    assert process.returncode == 0, err


def test_importing_the_package_loads_no_client():
    script = "import sys, orbitmq; print([name for name in sys.modules if name.startswith('orbitmq.')])"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "[]\n"


def test_every_public_name_is_there():
    import orbitmq

    assert {getattr(orbitmq, name).__name__ for name in orbitmq.__all__} == set(orbitmq.__all__)
    assert set(orbitmq.__all__) <= set(dir(orbitmq))
    with pytest.raises(AttributeError, match="Consumer"):
        orbitmq.Consumer  # noqa: B018
