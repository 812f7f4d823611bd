from __future__ import annotations

from collections.abc import Callable

from orbitmq.broker.groups.members import GroupMembers, HeartbeatSource
from orbitmq.broker.groups.membership import Membership
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.clock import Clock
from orbitmq.model.group import ConsumerInfo, Heartbeat, MessageModel
from orbitmq.model.route import MessageQueue
from orbitmq.wire.headers import NotifyConsumerIdsChanged

from ..parts import FakePeer

NOTICE = NotifyConsumerIdsChanged(consumer_group="g")


def membership_of(
    *peers: FakePeer,
    clock: Clock = lambda: 0,
    is_notifying: bool = True,
    locks: QueueLocks | None = None,
    call_later: Callable[[float, Callable[[], None]], object] = lambda _delay_s, call: call(),
) -> Membership:
    """Let each peer be a member of group g since time 0, and forget what they heard; no time passes between two changes."""
    membership = Membership(
        GroupMembers(),
        silence_ms=100,
        clock=clock,
        is_notifying=is_notifying,
        locks=locks or QueueLocks(60_000, 5_000),
        call_later=call_later,
    )
    for number, peer in enumerate(peers):
        beat(membership, f"c{number}", peer)
    for peer in peers:
        peer.heard.clear()
    return membership


def beat(membership: Membership, client_id: str, peer: FakePeer) -> None:
    heartbeat = Heartbeat(client_id=client_id, consumers=(ConsumerInfo(group="g"),), producer_groups=("p",))
    membership.heartbeat(heartbeat, HeartbeatSource(peer))


def test_all_members_hear_of_one_that_joins_and_of_none_that_renews() -> None:
    old, new = FakePeer(), FakePeer()
    membership = membership_of(old)
    beat(membership, "new", new)
    assert (old.heard, new.heard) == ([NOTICE], [NOTICE])
    beat(membership, "new", new)
    assert (old.heard, new.heard) == ([NOTICE], [NOTICE])


def test_those_who_stay_hear_of_one_that_leaves_in_any_way() -> None:
    stays, says, breaks = FakePeer(), FakePeer(), FakePeer()
    membership = membership_of(stays, says, breaks)
    membership.unregister("c1", None, "g", says)
    assert (len(stays.heard), len(says.heard)) == (1, 0)
    membership.drop_connection(breaks)
    assert stays.heard == [NOTICE] * 2
    assert membership.members.consumer_ids("g") == ["c0"]


def test_a_client_that_is_silent_for_too_long_has_left() -> None:
    silent, alive = FakePeer(), FakePeer()
    now_ms = 0
    membership = membership_of(silent, alive, clock=lambda: now_ms)
    now_ms = 50
    beat(membership, "c1", alive)
    now_ms = 99
    membership.expire()
    assert alive.heard == []
    now_ms = 100
    membership.expire()
    assert alive.heard == [NOTICE]
    assert membership.members.consumer_ids("g") == ["c1"]


def test_no_client_is_notified_where_notices_are_off() -> None:
    first, second = FakePeer(), FakePeer()
    membership = membership_of(first, second, is_notifying=False)
    membership.unregister("c0", None, "g", first)
    assert second.heard == []


def test_members_of_a_broadcasting_group_are_not_told_of_one_another() -> None:
    membership, peers = membership_of(), [FakePeer() for _ in range(20)]
    for number, peer in enumerate(peers):
        info = ConsumerInfo(group="g", message_model=MessageModel.BROADCASTING)
        membership.heartbeat(Heartbeat(client_id=f"c{number}", consumers=(info,)), HeartbeatSource(peer))
    membership.unregister("c0", None, "g", peers[0])
    assert [notice for peer in peers for notice in peer.heard] == []


def test_changes_of_one_interval_are_told_together() -> None:
    due: list[Callable[[], None]] = []
    peers = [FakePeer() for _ in range(20)]
    membership = membership_of(call_later=lambda _delay_s, call: due.append(call))
    for number, peer in enumerate(peers):
        beat(membership, f"c{number}", peer)
    assert sum(len(peer.heard) for peer in peers) == 1
    due.pop(0)()
    assert [len(peer.heard) for peer in peers] == [2] + [1] * 19
    due.pop(0)()
    assert due == []
    assert sum(len(peer.heard) for peer in peers) == 21


def test_the_locks_of_a_client_whose_connection_closes_are_free_after_a_grace_that_its_return_ends() -> None:
    now_ms, locks, queue = 0, QueueLocks(60_000, 5_000), MessageQueue("orders", "a", 0)
    holder, waiter = FakePeer(), FakePeer()
    membership = membership_of(holder, waiter, clock=lambda: now_ms, locks=locks)
    assert locks.lock("g", "c0", [queue], 0) == [queue]

    membership.drop_connection(holder)
    now_ms = 4_999
    assert locks.lock("g", "c1", [queue], now_ms) == []
    beat(membership, "c0", holder)
    assert locks.lock("g", "c1", [queue], 6_000) == []

    membership.drop_connection(holder)
    assert locks.lock("g", "c1", [queue], now_ms + 5_000) == [queue]
    assert locks.lock("g", "c0", [queue], now_ms + 5_001) == []
