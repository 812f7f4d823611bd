"""The commands that change broker groups, and their bytes in the log that controllers replicate. Pure.

A command carries all that its outcome depends on besides the state itself: living members, settings, the time. Its bytes
are a JSON object with the version of its form: {"v":1,"type":"ElectMaster", ...}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.controller.values import REPLICAS_MAX, TEXT_SIZE_MAX, LiveMembers, Standing
from orbitmq.errors import Rejected, UnreadableState

VERSION = 1
SIZE_MAX = 64 * 1024
"""Bytes of a command."""
_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyBrokerId:
    """A broker takes the next id of its group; the first one makes the group."""

    cluster: str
    name: str
    broker_id: int
    address: str
    check_code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A member tells its address."""

    name: str
    broker_id: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectMaster:
    """A request for a master: by a member, an administrator (`designated`), or the controller itself (neither).

    Args:
        is_unclean: a member outside of the sync set may lead.
        is_late: members of the sync set that are away were waited for long enough.
    """

    name: str
    asker: int | None = None
    designated: int | None = None
    is_unclean: bool = False
    is_late: bool = False
    living: LiveMembers
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSyncSet:
    """A master proposes another sync set: epochs are those that it knows."""

    name: str
    master: int
    master_epoch: int
    sync_set: frozenset[int]
    sync_set_epoch: int
    living: LiveMembers


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanBrokers:
    """An administrator removes members, or (`broker_ids` is None) the whole group.

    Args:
        is_forced: members that are alive, or lead, as well.
    """

    name: str
    broker_ids: frozenset[int] | None = None
    is_forced: bool = False
    living: LiveMembers
    now_ms: int


Command = ApplyBrokerId | RegisterBroker | ElectMaster | AlterSyncSet | CleanBrokers


def encode_command(command: Command) -> bytes:
    """Encode a command.

    Raises:
        Rejected: a value is longer than any may be.
    """
    document = {"v": VERSION, "type": type(command).__name__}
    document |= {name: _plain(getattr(command, name)) for name in command.__dataclass_fields__}
    try:
        data = orjson.dumps(document)
        decode_command(data)
    except (TypeError, UnreadableState) as error:  # nothing goes into the log that another node could not read
        raise Rejected(ResponseCode.CONTROLLER_INVALID_REQUEST, str(error)) from None
    return data


def decode_command(data: bytes) -> Command:
    """Decode a command.

    Raises:
        UnreadableState: not a command of this version, or a value outside of its limits.
    """
    if len(data) > SIZE_MAX:
        raise UnreadableState(f"a command of {len(data)} bytes, limit {SIZE_MAX}")
    try:
        document = orjson.loads(data)
        if document["v"] != VERSION:
            raise UnreadableState(f"a command of version {document['v']!r:.20}, known is {VERSION}")
        cls, readers = _TYPES[document["type"]]
        return cls(**{name: read(document[name]) for name, read in readers.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableState(f"a command that does not parse: {error!r:.200}") from None


def text(value: Any) -> str:
    """Return `value` when it is a text of a name's or an address's size."""
    if not isinstance(value, str) or not 0 < len(value.encode()) <= TEXT_SIZE_MAX:
        raise ValueError(f"a text of 1 to {TEXT_SIZE_MAX} bytes is expected, not {value!r:.80}")
    return value


def number(value: Any) -> int:
    """Return `value` when it is a 64-bit integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value not in _LONG:
        raise ValueError(f"a 64-bit integer is expected, not {value!r:.80}")
    return value


def natural(value: Any) -> int:
    """Return `value` when it is a 64-bit integer and not negative."""
    if number(value) < 0:
        raise ValueError(f"a number from 0 on is expected, not {value}")
    return int(value)


def boolean(value: Any) -> bool:
    """Return `value` when it is true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"true or false is expected, not {value!r:.80}")
    return value


def broker_ids(value: Any) -> frozenset[int]:
    """Return `value` as a set when it is a list of not too many ids."""
    if not isinstance(value, list) or len(value) > REPLICAS_MAX:
        raise ValueError(f"a list of at most {REPLICAS_MAX} ids is expected, not {value!r:.80}")
    return frozenset(map(natural, value))


def optional(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a reader that takes null, too."""
    return lambda value: None if value is None else read(value)


def _living(value: Any) -> LiveMembers:
    alive, unheard = value
    if not isinstance(alive, dict) or len(alive) > REPLICAS_MAX:
        raise ValueError(f"at most {REPLICAS_MAX} living members are expected")
    standings = {natural(int(key)): _standing(*values) for key, values in alive.items()}
    return LiveMembers(standings, broker_ids(unheard))


def _standing(epoch: Any, max_offset: Any, priority: Any, is_complete: Any) -> Standing:
    return Standing(number(epoch), number(max_offset), number(priority), optional(boolean)(is_complete))


def _plain(value: Any) -> Any:
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, LiveMembers):
        return [{str(key): list(value.alive[key]) for key in sorted(value.alive)}, sorted(value.unheard)]
    return value


_TYPES: Mapping[str, tuple[type[Command], Mapping[str, Callable[[Any], Any]]]] = {
    "ApplyBrokerId": (
        ApplyBrokerId,
        {"cluster": text, "name": text, "broker_id": natural, "address": text, "check_code": text},
    ),
    "RegisterBroker": (RegisterBroker, {"name": text, "broker_id": natural, "address": text}),
    "ElectMaster": (
        ElectMaster,
        {
            "name": text,
            "asker": optional(natural),
            "designated": optional(natural),
            "is_unclean": boolean,
            "is_late": boolean,
            "living": _living,
            "now_ms": number,
        },
    ),
    "AlterSyncSet": (
        AlterSyncSet,
        {
            "name": text,
            "master": natural,
            "master_epoch": number,
            "sync_set": broker_ids,
            "sync_set_epoch": number,
            "living": _living,
        },
    ),
    "CleanBrokers": (
        CleanBrokers,
        {
            "name": text,
            "broker_ids": optional(broker_ids),
            "is_forced": boolean,
            "living": _living,
            "now_ms": number,
        },
    ),
}
