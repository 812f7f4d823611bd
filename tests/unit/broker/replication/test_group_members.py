"""Which members of a controlled group are missing, since when, and how bad that is."""

from __future__ import annotations

from cases import each_case
from orbitmq.broker.replication.group_members import SETTLED_MS, GroupMembers
from orbitmq.wire.bodies.controller import BrokerMember

T = 1_700_000_000_000


def told(*alive: int, count: int = 3) -> list[BrokerMember]:
    return [BrokerMember("a", member, f"h{member}:1", member in alive) for member in range(1, count + 1)]


def after(*looks: tuple[int, list[BrokerMember]], needed: int = 1) -> GroupMembers:
    members = GroupMembers(needed)
    for at_ms, found in looks:
        members.told(found, T + at_ms)
    return members


def test_a_missing_member_is_named_with_its_address_and_since_when() -> None:
    members = after((0, told(1, 2)), (60_000, told(1, 2)))
    assert members.issue is not None
    assert members.issue.startswith(
        "no sign of member 3 (h3:1) since 2023-11-14 22:13:20 UTC: 2 of 3 are there; start it"
    )
    assert members.lacking == 0


def test_a_restart_is_no_issue() -> None:
    assert after((0, told(1, 2)), (SETTLED_MS - 1, told(1, 2))).issue is None
    assert after((0, told(1, 2)), (1_000, told(1, 2, 3)), (1_000 + SETTLED_MS, told(1, 2, 3))).issue is None


def test_a_member_that_begins_and_dies_again_is_missing_since_the_first_time() -> None:
    members = after((0, told(1, 2)), (5_000, told(1, 2, 3)), (6_000, told(1, 2)), (20_000, told(1, 2)))
    assert [member.since_ms for member in members.missing] == [T]


def test_a_member_that_was_removed_is_not_missed() -> None:
    assert after((0, told(1, 2)), (60_000, told(1, 2, count=2))).issue is None


@each_case(((1, 2), 2, 0), ((1, 2), 3, 1), ((1,), 1, 1), ((1, 2, 3), 4, 0))
def test_too_few_for_min_in_sync_replicas_or_one_alone_is_worse(
    alive: tuple[int, ...], needed: int, lacking: int
) -> None:
    members = after((0, told(*alive)), (60_000, told(*alive)), needed=needed)
    assert members.lacking == lacking
    assert ("are needed" in (members.issue or "")) is bool(lacking)
