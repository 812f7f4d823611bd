from __future__ import annotations

import errno

import pytest

from orbitmq.broker.sending.answers import NOT_DURABLE, SendAnswers
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.store import Draft, FlushMode, Store
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.headers import SendResponse

from ..conftest import send_header
from ..parts import HOST, FakePeer, call, memory_store


def answers_of(store: Store, *, trace_on: bool = False) -> SendAnswers:
    return SendAnswers(store, host=HOST, region_id="r", trace_on=trace_on)


@pytest.mark.parametrize(("trace_on", "text"), [(True, "true"), (False, "false")])
def test_an_answer_names_each_message_the_queue_and_the_first_offset(trace_on: bool, text: str) -> None:
    store = memory_store()
    store.append(Draft("t", 2, b"before"))
    results = [store.append(Draft("t", 2, b"x")) for _ in range(2)]
    reply = answers_of(store, trace_on=trace_on).when_durable(call(send_header()), 2, "id,id", 1, results[-1].end)
    assert reply is not LATER
    assert reply.header == SendResponse(message_id="id,id", queue_id=2, queue_offset=1, region_id="r", trace_on=text)


def test_in_sync_flush_the_answer_comes_with_the_sync_of_the_last_message() -> None:
    disk, peer = FakeDisk(), FakePeer()
    store = memory_store(disk, flush=FlushMode.SYNC)
    results = [store.append(Draft("t", 0, b"x")) for _ in range(2)]
    assert answers_of(store).when_durable(call(send_header(), peer=peer), 0, "id", 0, results[-1].end) is LATER
    assert [reply.code for reply in peer.replies] == [0]
    assert store.durable_offset == results[-1].end


def test_a_sync_that_failed_is_never_answered_with_success() -> None:
    disk, peer = FakeDisk(), FakePeer()
    store = memory_store(disk, flush=FlushMode.SYNC)
    results = [store.append(Draft("t", 0, b"x"))]
    disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
    assert answers_of(store).when_durable(call(send_header(), peer=peer), 0, "id", 0, results[-1].end) is LATER
    assert peer.replies == [NOT_DURABLE]
    assert NOT_DURABLE.code == 14
