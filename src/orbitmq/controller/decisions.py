"""The rules of each command: a group before, the group afterwards and the answer; and the choice of a master. Pure.

Source: Java ReplicasInfoManager. Other than there, an id is never given twice and epochs never go back, not even in a
group that was cleaned away; only members are elected; cleaning the last of a sync set away lets no other member lead.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from orbitmq.codes import ResponseCode
from orbitmq.controller.commands import (
    AlterSyncSet,
    ApplyBrokerId,
    CleanBrokers,
    Command,
    ElectMaster,
    RegisterBroker,
)
from orbitmq.controller.values import GROUPS_MAX, REPLICAS_MAX, CommandResult, LiveMembers, Replica, ReplicaGroup


def decide(groups: Mapping[str, ReplicaGroup], command: Command) -> CommandResult:
    """Return what a command does to its group."""
    group = groups.get(command.name)
    if isinstance(command, ApplyBrokerId):
        if group is None and len(groups) >= GROUPS_MAX:
            return CommandResult(ResponseCode.CONTROLLER_INVALID_REQUEST, f"there are {GROUPS_MAX} broker-sets already")
        return _apply_broker_id(group or ReplicaGroup(cluster=command.cluster, name=command.name), command)
    if group is None or not group.replicas:
        return _unknown(command)
    if isinstance(command, RegisterBroker):
        return _register(group, command)
    if isinstance(command, ElectMaster):
        return _elect(group, command)
    if isinstance(command, AlterSyncSet):
        return _alter(group, command)
    return _clean(group, command)


def _unknown(command: Command) -> CommandResult:
    if isinstance(command, AlterSyncSet):
        return CommandResult(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "Broker metadata is not existed")
    if isinstance(command, CleanBrokers):
        remark = f"Broker {command.name} is not existed,clean broker data failure."
        return CommandResult(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark)
    if isinstance(command, ElectMaster):
        return CommandResult(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered")
    remark = f"Broker-set: {command.name} hasn't been registered in controller"
    return CommandResult(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark)


def _apply_broker_id(group: ReplicaGroup, command: ApplyBrokerId) -> CommandResult:
    if group.replicas and group.cluster != command.cluster:
        remark = f"Broker-set: {group.name} is of the cluster {group.cluster}, not of {command.cluster}"
        return CommandResult(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, group)
    member = group.replicas.get(command.broker_id)
    if member is not None and member.check_code == command.check_code:
        return CommandResult(group=group)
    if command.broker_id != group.next_id:
        remark = f"Fail to apply brokerId: {command.broker_id} in broker-set: {group.name}"
        return CommandResult(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, group)
    if len(group.replicas) >= REPLICAS_MAX:
        remark = f"Broker-set: {group.name} has {REPLICAS_MAX} members already"
        return CommandResult(ResponseCode.CONTROLLER_INVALID_REQUEST, remark, group)
    return _changed(
        group,
        cluster=command.cluster,
        next_id=group.next_id + 1,
        replicas={**group.replicas, command.broker_id: Replica(command.address, command.check_code)},
    )


def _register(group: ReplicaGroup, command: RegisterBroker) -> CommandResult:
    member = group.replicas.get(command.broker_id)
    if member is None:
        return _stranger(group, command.broker_id)
    if member.address == command.address:
        return CommandResult(group=group)
    return _changed(group, replicas={**group.replicas, command.broker_id: replace(member, address=command.address)})


def _elect(group: ReplicaGroup, command: ElectMaster) -> CommandResult:
    wanted = command.designated if command.designated is not None else command.asker
    if wanted is not None and wanted not in group.replicas:
        return _stranger(group, wanted)
    # A master that asks, and may lack what it acknowledged, leads on in another epoch or not at all.
    resigns = wanted is not None and wanted == group.master and not _is_complete(wanted, command.living)
    if not group.was_led and wanted is not None:
        elected: int | None = wanted  # there is no data yet that it could lack
    else:
        elected = elect(
            group,
            command.living,
            designated=command.designated,
            is_unclean=command.is_unclean,
            resigns=resigns,
            is_late=command.is_late,
        )
    if elected is None:
        return _no_master(group, command)
    if elected == group.master and not resigns:
        remark = f"The old master {elected} is still alive, not need to elect new master for broker {group.name}"
        return CommandResult(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, remark, group)
    return _changed(
        group,
        master=elected,
        master_epoch=group.master_epoch + 1,
        sync_set=_first_sync_set(group, elected, command.living),
        sync_set_epoch=group.sync_set_epoch + 1,
        was_led=True,
        elected_at_ms=command.now_ms,
    )


def _first_sync_set(group: ReplicaGroup, elected: int, living: LiveMembers) -> frozenset[int]:
    """Return the sync set of a new master.

    It stays until the master makes it smaller, so that the others may lead if it never begins: it may have died with the one
    before. Java's brokers take no such step, and begin alone.
    """
    takes_step = elected in living.alive and living.alive[elected].is_complete is not None
    return group.sync_set if takes_step and elected in group.sync_set else frozenset([elected])


def _no_master(group: ReplicaGroup, command: ElectMaster) -> CommandResult:
    here, why = group.sync_set & command.living.alive.keys(), ""
    if here and not any(_is_complete(broker_id, command.living) for broker_id in here):
        away = sorted(group.sync_set - here)
        why = f", {away} of the sync set are waited for: the logs of {sorted(here)} may be incomplete"
    if command.asker is not None or command.designated is not None:
        remark = f"Failed to elect a new master{why}"
        return CommandResult(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark, group)
    remark = f"Old master has down and failed to elect a new broker master{why}"
    # The sync set stays: a member of it that returns may lead.
    outcome = _without_master(group, command.now_ms) if group.master is not None else CommandResult(group=group)
    return outcome._replace(code=ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, remark=remark)


def _alter(group: ReplicaGroup, command: AlterSyncSet) -> CommandResult:
    code, remark = _check_sync_set(group, command)
    if code:
        return CommandResult(code, remark, group)
    return _changed(group, sync_set=command.sync_set, sync_set_epoch=group.sync_set_epoch + 1)


def _check_sync_set(group: ReplicaGroup, command: AlterSyncSet) -> tuple[int, str]:
    """Return why a set cannot be, in the order in which Java looks."""
    begin = "Rejecting alter syncStateSet request because the "
    if command.sync_set == group.sync_set:
        remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        return ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark
    if group.master is None or group.master != command.master:
        master = "null" if group.master is None else group.master
        return (
            ResponseCode.CONTROLLER_INVALID_MASTER,
            f"{begin}current leader is:{{{master}}}, not {{{command.master}}}",
        )
    if command.master_epoch != group.master_epoch:
        remark = f"{begin}current master epoch is:{{{group.master_epoch}}}, not {{{command.master_epoch}}}"
        return ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark
    if command.sync_set_epoch != group.sync_set_epoch:
        remark = f"{begin}current syncStateSet epoch is:{{{group.sync_set_epoch}}}, not {{{command.sync_set_epoch}}}"
        return ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark
    for broker_id in sorted(command.sync_set):
        if broker_id not in group.replicas:
            return ResponseCode.CONTROLLER_INVALID_REPLICAS, f"{begin}replicas {{{broker_id}}} don't exist"
        if broker_id not in command.living.alive:
            return ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, f"{begin}replicas {{{broker_id}}} don't alive"
    if group.master not in command.sync_set:
        remark = f"{begin}newSyncStateSet don't contains origin leader {{{group.master}}}"
        return ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, remark
    return ResponseCode.SUCCESS, ""


def _clean(group: ReplicaGroup, command: CleanBrokers) -> CommandResult:
    if not command.is_forced and (remark := _still_needed(group, command)):
        return CommandResult(ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, remark, group)
    gone = group.replicas.keys() if command.broker_ids is None else command.broker_ids
    left = {broker_id: member for broker_id, member in group.replicas.items() if broker_id not in gone}
    if len(left) == len(group.replicas):
        return CommandResult(group=group)
    after = replace(group, replicas=left, sync_set=group.sync_set - gone, was_led=group.was_led and bool(left))
    if after.sync_set != group.sync_set:
        after = replace(after, sync_set_epoch=group.sync_set_epoch + 1)
    if group.master in gone:
        return _without_master(after, command.now_ms)
    return CommandResult(group=after, is_change=True)


def _still_needed(group: ReplicaGroup, command: CleanBrokers) -> str:
    if command.broker_ids is None:
        return f"Broker {group.name} is still alive, clean up failure" if group.master is not None else ""
    for broker_id in sorted(command.broker_ids):
        if broker_id in command.living.alive:
            return f"Broker [{group.name},  {broker_id}] is still alive, clean up failure"
    return ""


def _without_master(group: ReplicaGroup, now_ms: int) -> CommandResult:
    return _changed(group, master=None, master_epoch=group.master_epoch + 1, elected_at_ms=now_ms)


def _stranger(group: ReplicaGroup, broker_id: int) -> CommandResult:
    remark = f"BrokerId: {broker_id} hasn't been registered in broker-set: {group.name}"
    return CommandResult(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, group)


def _changed(group: ReplicaGroup, **values: object) -> CommandResult:
    return CommandResult(group=replace(group, **values), is_change=True)  # type: ignore[arg-type]


def elect(
    group: ReplicaGroup,
    living: LiveMembers,
    *,
    designated: int | None = None,
    is_unclean: bool = False,
    resigns: bool = False,
    is_late: bool = False,
) -> int | None:
    """Return the id of the member that shall lead; the old master when it need not change, None when no member can.

    Args:
        designated: this one or none.
        is_unclean: when no member of the sync set can lead, another one may: it lacks confirmed messages.
        resigns: the master leads only if it is elected again.
        is_late: see `ElectMaster`.
    """
    master = group.master
    is_kept = not resigns and (master in living.alive or master in living.unheard) and designated in (None, master)
    if is_kept and master in group.sync_set:
        return master
    if designated is not None:
        trusted: Collection[int] = group.sync_set  # an administrator need not wait
    else:
        trusted = _trusted(group.sync_set, living, is_late=is_late)
    elected = _elect_among(trusted, living, designated)
    if elected is None and is_unclean:
        elected = master if is_kept and master in group.replicas else _elect_among(group.replicas, living, designated)
    return elected


def _trusted(members: Collection[int], living: LiveMembers, *, is_late: bool) -> Collection[int]:
    """Return the members of a sync set among which the longest log has all that is left of what was acknowledged."""
    complete = [broker_id for broker_id in members if _is_complete(broker_id, living)]
    if complete or is_late or all(broker_id in living.alive for broker_id in members):
        return complete or members
    return ()


def _is_complete(broker_id: int, living: LiveMembers) -> bool:
    return broker_id in living.alive and living.alive[broker_id].is_complete is not False


def _elect_among(members: Collection[int], living: LiveMembers, designated: int | None) -> int | None:
    alive = [broker_id for broker_id in members if broker_id in living.alive]
    if designated is not None:
        return designated if designated in alive else None
    return min(alive, key=lambda broker_id: _rank(broker_id, living), default=None)


def _rank(broker_id: int, living: LiveMembers) -> tuple[int, int, int, int]:
    standing = living.alive[broker_id]
    return -standing.epoch, -standing.max_offset, standing.priority, broker_id
