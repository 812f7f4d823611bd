from __future__ import annotations

import errno

from cases import each_case
from orbitmq.broker.sending.answers import NOT_DURABLE, SendAnswers
from orbitmq.ha.replica_acks import ReplicaAckResult, Waiter
from orbitmq.net.dispatch.handlers import LATER
from orbitmq.store import Draft, FlushMode, Store
from orbitmq.testing.fake_disk import FakeDisk
from orbitmq.wire.headers import SendResponse

from ..conftest import send_header
from ..parts import HOST, FakePeer, call, memory_store


def answers_of(store: Store, *, trace_on: bool = False) -> SendAnswers:
    return SendAnswers(store, host=HOST, region_id="r", trace_on=trace_on)


@each_case((True, "true"), (False, "false"))
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


class Slaves:
    """Slaves that say what they are told to say."""

    def __init__(self, now: ReplicaAckResult | None) -> None:
        self.now = now
        self.waiters: list[Waiter] = []

    def wait(self, end: int, waiter: Waiter) -> ReplicaAckResult | None:
        if self.now is None:
            self.waiters.append(waiter)
        return self.now


def with_slaves(store: Store, slaves: Slaves) -> SendAnswers:
    return SendAnswers(store, host=HOST, region_id="r", trace_on=False, wait_replicated=slaves.wait)


def test_a_send_whose_slaves_have_it_is_answered_immediately() -> None:
    store = memory_store()
    end = store.append(Draft("t", 0, b"x")).end
    assert (
        with_slaves(store, Slaves(ReplicaAckResult.DONE)).when_durable(call(send_header()), 0, "id", 0, end)
        is not LATER
    )


@each_case(
    (ReplicaAckResult.DONE, 0, True),
    (ReplicaAckResult.LATE, 12, True),
    (ReplicaAckResult.NO_SLAVE, 11, True),
    (ReplicaAckResult.DONE, 0, False),
    (ReplicaAckResult.LATE, 12, False),
    (ReplicaAckResult.NO_SLAVE, 11, False),
)
def test_a_send_is_answered_with_what_its_slaves_say(
    ack_result: ReplicaAckResult, code: int, comes_later: bool
) -> None:
    store, peer, slaves = memory_store(), FakePeer(), Slaves(None if comes_later else ack_result)
    end = store.append(Draft("t", 0, b"x")).end
    reply = with_slaves(store, slaves).when_durable(call(send_header(), peer=peer), 0, "id", 0, end)
    for waiter in slaves.waiters:
        assert peer.replies == []
        waiter(ack_result)
    replies = peer.replies if reply is LATER else [reply]
    assert [reply.code for reply in replies] == [code]
    assert replies[0].header is not None, "it says where the message lies all the same"
    assert (replies[0].remark is None) == (code == 0)


def test_a_send_waits_for_disk_and_slaves() -> None:
    store, peer, slaves = memory_store(FakeDisk(), flush=FlushMode.SYNC), FakePeer(), Slaves(None)
    end = store.append(Draft("t", 0, b"x")).end
    assert with_slaves(store, slaves).when_durable(call(send_header(), peer=peer), 0, "id", 0, end) is LATER
    assert store.durable_offset == end
    assert peer.replies == []
    slaves.waiters[0](ReplicaAckResult.DONE)
    assert [reply.code for reply in peer.replies] == [0]


@each_case(*ReplicaAckResult)
def test_slaves_make_up_for_no_disk(ack_result: ReplicaAckResult) -> None:
    disk, peer = FakeDisk(), FakePeer()
    store = memory_store(disk, flush=FlushMode.SYNC)
    end = store.append(Draft("t", 0, b"x")).end
    disk.failures["sync"] = OSError(errno.EIO, "Input/output error")
    assert with_slaves(store, Slaves(ack_result)).when_durable(call(send_header(), peer=peer), 0, "id", 0, end) is LATER
    assert peer.replies == [NOT_DURABLE]
