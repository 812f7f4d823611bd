import subprocess
import sys
import threading

import pytest

from orbitmq.blocking import Producer, PushConsumer
from orbitmq.errors import ClientError, InvalidArgument, NoNameServer, RouteNotFound
from orbitmq.model.message import Message


def test_errors_are_raised_where_the_caller_is(served):
    with Producer("makers", served.name_servers) as producer, pytest.raises(RouteNotFound, match="orders"):
        producer.send(Message("orders", b"x"))
    with pytest.raises(InvalidArgument):
        Producer("no group", served.name_servers)
    with pytest.raises(ClientError, match="closed"):
        producer.send(Message("orders", b"x"))


def test_a_failed_start_leaves_no_thread_behind(served):
    served.call(served.name_server.stop())
    before = threading.active_count()
    consumer = PushConsumer("takers", served.name_servers)
    with pytest.raises(NoNameServer), consumer:
        pass
    assert threading.active_count() == before


def test_a_client_that_cannot_be_made_leaves_no_thread_behind():
    before = threading.active_count()
    with pytest.raises(InvalidArgument):
        Producer("no group", "127.0.0.1:1")
    assert threading.active_count() == before


def test_a_closed_client_leaves_no_thread_behind(served):
    before = threading.active_count()
    with Producer("makers", served.name_servers):
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_closing_twice_does_nothing(served):
    with Producer("makers", served.name_servers) as producer:
        producer.close()
    producer.close()


def test_name_servers_may_be_changed(served):
    served.topic("orders")
    with Producer("makers", "127.0.0.1:1") as producer:
        producer.use_name_servers(served.name_servers)
        assert producer.send(Message("orders", b"x")).queue_offset == 0


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
        loop = consumer._loop_thread._loop
        loop.call_soon_threadsafe(loop.call_later, 0.05, os.kill, os.getpid(), signal.SIGINT)
        consumer._loop_thread.call(wait())
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
