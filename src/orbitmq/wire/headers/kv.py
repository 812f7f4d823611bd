"""Requests to the NameServer's key-value store, and its answers."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import header, request

__all__ = ["DeleteKvConfig", "GetKvConfig", "GetKvConfigResponse", "GetKvListByNamespace", "PutKvConfig"]


@request(RequestCode.PUT_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class PutKvConfig:
    """Set one value."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


@request(RequestCode.GET_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvConfig:
    """Read one value."""

    namespace: str
    key: str


@header
@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvConfigResponse:
    """The value, None when there is none."""

    value: str | None = None


@request(RequestCode.DELETE_KV_CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteKvConfig:
    """Delete one value."""

    namespace: str
    key: str


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetKvListByNamespace:
    """All values of a namespace."""

    namespace: str
