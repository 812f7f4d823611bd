"""Requests about users; bodies are in `wire.bodies.access.users`."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import request

__all__ = ["CreateUser", "DeleteUser", "GetUser", "ListUsers", "UpdateUser"]


@request(RequestCode.AUTH_CREATE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUser:
    """Make a user; the body says its password and type."""

    username: str | None = None


@request(RequestCode.AUTH_UPDATE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateUser:
    """Change what the body names of a user."""

    username: str | None = None


@request(RequestCode.AUTH_DELETE_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUser:
    """Delete a user and its rules."""

    username: str | None = None


@request(RequestCode.AUTH_GET_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetUser:
    """One user, with its password; no body when there is none."""

    username: str | None = None


@request(RequestCode.AUTH_LIST_USER)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListUsers:
    """All users, or those whose names contain a text."""

    filter: str | None = None
