"""Requests about users and their rules (ACL 2.0); bodies are in `wire.bodies.access`."""

from __future__ import annotations

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
class CreateUser:
    """Make a user; the body says its password and type."""

    username: str | None = None


@request(RequestCode.AUTH_UPDATE_USER)
class UpdateUser:
    """Change what the body names of a user."""

    username: str | None = None


@request(RequestCode.AUTH_DELETE_USER)
class DeleteUser:
    """Delete a user and its rules."""

    username: str | None = None


@request(RequestCode.AUTH_GET_USER)
class GetUser:
    """One user, with its password; no body when there is none."""

    username: str | None = None


@request(RequestCode.AUTH_LIST_USER)
class ListUsers:
    """All users, or those whose names contain a text."""

    filter: str | None = None


@request(RequestCode.AUTH_CREATE_ACL)
class CreateAcl:
    """Add rules to a subject's, or replace those about the same resources."""

    subject: str | None = None


@request(RequestCode.AUTH_UPDATE_ACL)
class UpdateAcl:
    """The same as CreateAcl."""

    subject: str | None = None


@request(RequestCode.AUTH_DELETE_ACL)
class DeleteAcl:
    """Delete a subject's rules, or the one about a resource."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


@request(RequestCode.AUTH_GET_ACL)
class GetAcl:
    """A subject's rules; no body when it has none."""

    subject: str | None = None


@request(RequestCode.AUTH_LIST_ACL)
class ListAcls:
    """The rules of all subjects, or of those that contain a text, and of them those about resources that do."""

    subject_filter: str | None = None
    resource_filter: str | None = None
