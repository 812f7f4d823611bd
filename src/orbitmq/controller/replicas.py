"""The state machine that controllers replicate: broker groups by name. Pure.

The leader asks `decide` first, so that a command that changes nothing costs no entry of the log; `apply` decides again,
when the command's turn has come, and that outcome counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from orbitmq.controller import decisions
from orbitmq.controller.commands import (
    Command,
    boolean,
    broker_ids,
    decode_command,
    natural,
    number,
    optional,
    text,
)
from orbitmq.controller.values import GROUPS_MAX, REPLICAS_MAX, CommandResult, Replica, ReplicaGroup
from orbitmq.errors import UnreadableState

VERSION = 1
_READERS: Mapping[str, Callable[[Any], Any]] = {
    "cluster": text,
    "name": text,
    "next_id": natural,
    "master": optional(natural),
    "master_epoch": natural,
    "sync_set": broker_ids,
    "sync_set_epoch": natural,
    "was_led": boolean,
    "elected_at_ms": number,
}


class Replicas:
    """Every broker group, and the only code that changes one."""

    def __init__(self) -> None:
        self._groups: dict[str, ReplicaGroup] = {}

    @property
    def groups(self) -> Mapping[str, ReplicaGroup]:
        """The groups by name; those without members were cleaned away."""
        return self._groups

    def find(self, name: str) -> ReplicaGroup | None:
        """Return a group that has members; None when there is none."""
        group = self._groups.get(name)
        return group if group is not None and group.replicas else None

    def decide(self, command: Command) -> CommandResult:
        """Return the outcome that a command would have now."""
        return decisions.decide(self._groups, command)

    def apply(self, command: bytes) -> CommandResult:
        """Carry a command out. An empty one changes nothing.

        Raises:
            UnreadableState: it is none of this version; a node without it would differ from the others.
        """
        if not command:
            return CommandResult()
        outcome = self.decide(decode_command(command))
        if outcome.is_change and outcome.group is not None:
            self._groups[outcome.group.name] = outcome.group
        return outcome

    def put(self, group: ReplicaGroup) -> None:
        """Take over a group that was agreed upon elsewhere."""
        self._groups[group.name] = group

    def remove(self, name: str) -> None:
        """Forget a group, its ids and epochs included."""
        self._groups.pop(name, None)

    def snapshot(self) -> bytes:
        """Return the whole state; equal states have equal bytes."""
        groups = [_plain(self._groups[name]) for name in sorted(self._groups)]
        return orjson.dumps({"v": VERSION, "groups": groups}, option=orjson.OPT_SORT_KEYS)

    def restore(self, data: bytes) -> None:
        """Take over the state of a snapshot; when it cannot be read, the state stays as it was.

        Raises:
            UnreadableState: not a snapshot of this version, or a value outside of its limits.
        """
        try:
            document = orjson.loads(data)
            if document["v"] != VERSION:
                raise UnreadableState(f"a snapshot of version {document['v']!r:.20}, known is {VERSION}")
            if len(document["groups"]) > GROUPS_MAX:
                raise ValueError(f"more than {GROUPS_MAX} groups")
            groups = [_group(item) for item in document["groups"]]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableState(f"a snapshot that does not parse: {error!r:.200}") from None
        self._groups = {group.name: group for group in groups}


def encode_group(group: ReplicaGroup) -> bytes:
    """Encode one group; equal groups have equal bytes."""
    return orjson.dumps({"v": VERSION, "group": _plain(group)}, option=orjson.OPT_SORT_KEYS)


def decode_group(data: bytes) -> ReplicaGroup:
    """Decode one group.

    Raises:
        UnreadableState: not a group of this version, or a value outside of its limits.
    """
    try:
        document = orjson.loads(data)
        if document["v"] != VERSION:
            raise UnreadableState(f"a group of version {document['v']!r:.20}, known is {VERSION}")
        return _group(document["group"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableState(f"a group that does not parse: {error!r:.200}") from None


def _plain(group: ReplicaGroup) -> dict[str, Any]:
    document = {name: getattr(group, name) for name in _READERS}
    document["sync_set"] = sorted(group.sync_set)
    members = group.replicas
    document["replicas"] = {str(key): [members[key].address, members[key].check_code] for key in sorted(members)}
    return document


def _group(document: dict[str, Any]) -> ReplicaGroup:
    members = document["replicas"]
    if len(members) > REPLICAS_MAX:
        raise ValueError(f"more than {REPLICAS_MAX} members")
    replicas = {natural(int(key)): Replica(*map(text, values)) for key, values in members.items()}
    return ReplicaGroup(replicas=replicas, **{name: read(document[name]) for name, read in _READERS.items()})
