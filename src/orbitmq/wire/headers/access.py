"""Requests about users and their rules (ACL 2.0); bodies are in `wire.bodies.access`."""

from __future__ import annotations

from dataclasses import dataclass

from orbitmq.codes import RequestCode
from orbitmq.wire.header import request

__all__ = [
    "CreateAcl",
    "CreateUser",
    "DeleteAcl",
    "DeleteUser",
    "GetAcl",
    "GetUser",
    "ListAcls",
    "ListUsers",
    "UpdateAcl",
    "UpdateUser",
]


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


@request(RequestCode.AUTH_CREATE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAcl:
    """Add rules to a subject's, or replace those about the same resources."""

    subject: str | None = None


@request(RequestCode.AUTH_UPDATE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAcl:
    """The same as CreateAcl."""

    subject: str | None = None


@request(RequestCode.AUTH_DELETE_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcl:
    """Delete a subject's rules, or the one about a resource."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@request(RequestCode.AUTH_GET_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class GetAcl:
    """A subject's rules; no body when it has none."""

    subject: str | None = None


@request(RequestCode.AUTH_LIST_ACL)
@dataclass(frozen=True, slots=True, kw_only=True)
class ListAcls:
    """The rules of all subjects, or of those that contain a text, and of them those about resources that do."""

    subject_filter: str | None = None
    resource_filter: str | None = None
