"""The choice of a group's next master among its living members. Pure.

Source: Java DefaultElectPolicy. Other than there, offsets are compared whole and not by a 32-bit difference, of equal
members always the one with the lowest id wins, and a master that was not heard yet because this controller has just
started counts as its group's master still.
"""

from __future__ import annotations

from collections.abc import Collection

from orbitmq.controller.replicas.values import Group, Living


def elect(group: Group, living: Living, *, designated: int | None = None, is_unclean: bool = False) -> int | None:
    """Return the id of the member that shall lead; the old master when it need not change, None when nobody can.

    Args:
        designated: this one or nobody.
        is_unclean: when no member of the sync set can lead, another one may: it lacks confirmed messages.
    """
    elected = _elect_among(group.sync_set, group, living, designated)
    if elected is None and is_unclean:
        elected = _elect_among(group.replicas, group, living, designated)
    return elected


def _elect_among(members: Collection[int], group: Group, living: Living, designated: int | None) -> int | None:
    master = group.master
    is_kept = master in living.alive or master in living.unheard
    if master in members and is_kept and designated in (None, master):
        return master
    alive = [broker_id for broker_id in members if broker_id in living.alive]
    if designated is not None:
        return designated if designated in alive else None
    return min(alive, key=lambda broker_id: _rank(broker_id, living), default=None)


def _rank(broker_id: int, living: Living) -> tuple[int, int, int, int]:
    standing = living.alive[broker_id]
    return -standing.epoch, -standing.max_offset, standing.priority, broker_id
