"""Requests and answers of etcd's JSON gateway. Pure.

Keys and values are base64, 64-bit numbers are texts, and fields that are zero are left out. An answer comes from outside: what is
not as it should be ends in an `EtcdError`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from orbitmq.errors import EtcdError

T = TypeVar("T")
_LONG = range(-(2**63), 2**64)
"""Ids of leases are signed, those of clusters are not."""
_DIGITS_MAX = 20


class KeyValue(NamedTuple):
    """A key and its value.

    Args:
        created: the revision of the put that made the key.
        modified: the revision of the last put.
        lease: the lease that the key ends with; 0: none.
    """

    key: bytes
    value: bytes
    created: int
    modified: int
    lease: int


class Found(NamedTuple):
    """The answer to a range. `has_more`: a limit cut it; `total`: of all keys of the range."""

    revision: int
    pairs: tuple[KeyValue, ...]
    has_more: bool
    total: int


class Ended(NamedTuple):
    """The answer to a transaction: whether its conditions held, and what the ranges of the branch taken have found."""

    revision: int
    has_held: bool
    found: tuple[Found, ...]


class Change(NamedTuple):
    """A put, or the deletion of a key: `pair` has the key and the revision alone then."""

    pair: KeyValue
    is_deletion: bool


class Told(NamedTuple):
    """A message of a watch. `is_over`: there will be no more, for the revision it began at is gone, or it is cancelled."""

    changes: tuple[Change, ...]
    is_over: bool


def range_end(prefix: bytes) -> bytes:
    """Return the key after all keys that begin with `prefix`, whose last byte is an ASCII character."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def get(key: bytes, **more: Any) -> dict[str, Any]:
    """Return a range of one key, or with `end` up to another; other arguments are fields of a RangeRequest."""
    end = more.pop("end", None)
    request = {"key": encode(key), **{name: _plain(value) for name, value in more.items()}}
    return request if end is None else request | {"range_end": encode(end)}


def put(key: bytes, value: bytes, lease: int = 0) -> dict[str, Any]:
    """Return a put."""
    return {"key": encode(key), "value": encode(value), "lease": str(lease)}


def is_created_at(key: bytes, revision: int) -> dict[str, Any]:
    """Return the condition that a key is still the one that was made at a revision; 0: that it is not there."""
    return {"key": encode(key), "target": "CREATE", "result": "EQUAL", "create_revision": str(revision)}


def is_modified_at(key: bytes, revision: int) -> dict[str, Any]:
    """Return the condition that a key was last put at a revision; 0: that it is not there."""
    return {"key": encode(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}


def transaction(
    conditions: list[dict[str, Any]], *, then: list[dict[str, Any]], otherwise: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a transaction of puts (`put`) and ranges (`get`)."""
    return {"compare": conditions, "success": [_operation(one) for one in then], "failure": [_operation(one) for one in otherwise]}  # fmt: skip


def watch(key: bytes, end: bytes, start_revision: int) -> dict[str, Any]:
    """Return the request of a watch that tells all changes from a revision on."""
    request = {"key": encode(key), "range_end": encode(end), "start_revision": str(start_revision)}
    return {"create_request": request}


def read_range(answer: Mapping[str, Any]) -> Found:
    """Read the answer to a range. Raises EtcdError."""
    return _read(_found, answer)


def read_transaction(answer: Mapping[str, Any]) -> Ended:
    """Read the answer to a transaction. Raises EtcdError."""
    return _read(_ended, answer)


def read_watch(answer: Mapping[str, Any]) -> Told:
    """Read a message of a watch. Raises EtcdError."""
    return _read(_told, answer)


def read_lease(answer: Mapping[str, Any]) -> tuple[int, int]:
    """Read the answer to a grant, or a message of keep-alives: the lease, and the seconds that it lasts; 0: it is gone.

    Raises EtcdError.
    """
    return _read(lambda plain: (_whole(plain["ID"]), _whole(plain.get("TTL", 0))), answer)


def read_cluster(answer: Mapping[str, Any]) -> int:
    """Read which cluster has answered; 0: it does not say. Raises EtcdError."""
    return _read(lambda plain: _whole(plain.get("header", {}).get("cluster_id", 0)), answer)


def encode(data: bytes) -> str:
    """Return bytes as the gateway takes them."""
    return base64.b64encode(data).decode()


def _operation(request: dict[str, Any]) -> dict[str, Any]:
    return {"request_put" if "value" in request else "request_range": request}


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool) else str(value)


def _read(read: Callable[[Any], T], answer: Mapping[str, Any]) -> T:
    try:
        return read(answer)
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise EtcdError(f"an answer of etcd that does not parse: {error!r:.200}") from None


def _found(answer: Any) -> Found:
    pairs = tuple(_pair(one) for one in answer.get("kvs", ()))
    return Found(
        _whole(answer["header"]["revision"]), pairs, bool(answer.get("more", False)), _whole(answer.get("count", 0))
    )


def _ended(answer: Any) -> Ended:
    ranges = [one["response_range"] for one in answer.get("responses", ()) if "response_range" in one]
    found = tuple(_found(one) for one in ranges)
    return Ended(_whole(answer["header"]["revision"]), bool(answer.get("succeeded", False)), found)


def _told(answer: Any) -> Told:
    changes = tuple(Change(_pair(one["kv"]), one.get("type", "PUT") == "DELETE") for one in answer.get("events", ()))
    is_over = bool(answer.get("canceled", False)) or _whole(answer.get("compact_revision", 0)) > 0
    return Told(changes, is_over)


def _pair(plain: Any) -> KeyValue:
    return KeyValue(
        base64.b64decode(plain["key"], validate=True),
        base64.b64decode(plain.get("value", ""), validate=True),
        _whole(plain.get("create_revision", 0)),
        _whole(plain["mod_revision"]),
        _whole(plain.get("lease", 0)),
    )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or len(str(value)) > _DIGITS_MAX or int(value) not in _LONG:
        raise ValueError(f"a 64-bit number is expected, not {value!r:.40}")
    return int(value)
