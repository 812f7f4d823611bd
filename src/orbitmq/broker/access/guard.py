"""The guard at a broker's door: whose request it is, and whether that user may have what it asks for.

It is asked before a handler, and before anything but the frame and its fields is parsed. A decision is remembered until a user or
a rule changes, so a request that is like an earlier one costs its signature and one lookup.

Source: Java AuthenticationPipeline, AuthorizationPipeline, DefaultAuthenticationHandler, UserAuthorizationHandler.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection
from functools import lru_cache

from orbitmq.broker.access.decisions import objection, plain_address
from orbitmq.broker.access.directory import NAME_LENGTH_MAX, Directory
from orbitmq.broker.access.requirements import RequestView, TopicAt, requirements_of
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import OrbitError, Rejected
from orbitmq.model.access import Need, User, UserStatus, UserType
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer
from orbitmq.wire.command import Command
from orbitmq.wire.signature import ACCESS_KEY, is_signed_by

log = logging.getLogger(__name__)

REMEMBERED_MAX = 10_000
"""Decisions that are remembered; then all are forgotten, and made again as they are asked for."""

DENIALS = ("signature", "rule")
"""What refused requests lack, as metrics say it."""

_UNIQUE_KEY_QUERY = "_UNIQUE_KEY_QUERY"
"""A field that clients before 4.9.4 add after they have signed."""
_NO_USER = User("", "no user has this secret")


class Guard:
    """Decides whether a broker serves a request.

    Args:
        cluster: the broker's, the resource of whatever concerns all of it.
        is_authorizing: False: every user who signs may do everything.
        unsigned: request codes that need no signature.
        unruled: request codes that need no rule.
        is_trusted: tells whether an address is let in without a look (globalWhiteRemoteAddresses).
        topic_at: finds the topic of a message in the log.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        cluster: str,
        is_authorizing: bool,
        unsigned: Collection[int] = (),
        unruled: Collection[int] = (),
        is_trusted: Callable[[str], bool] | None = None,
        topic_at: TopicAt = lambda _: None,
    ) -> None:
        self._directory = directory
        self._cluster = cluster
        self._is_authorizing = is_authorizing
        self._unsigned = frozenset(unsigned)
        self._unruled = frozenset(unruled)
        self._is_trusted = is_trusted
        self._topic_at = topic_at
        self._decisions: dict[tuple[str, str, Need], str | None] = {}
        self.denials: Counter[str] = Counter()
        """Refused requests, by what was missing: one of DENIALS."""

    def replace_directory(self, directory: Directory) -> None:
        """Let these users in from now on, by these rules."""
        self._directory = directory
        self._decisions.clear()

    def admit(self, command: Command, peer: Peer) -> None:
        """Let a request pass.

        Raises:
            Rejected: it is not signed by a user, or the user may not have what it asks for.
        """
        if self._is_trusted is not None and self._is_trusted(host_of(peer)):
            return
        user = self.signer(command, peer)
        if not self._is_authorizing or command.code in self._unruled:
            return
        if user is None:
            raise self._denied(
                command, peer, "signature", "Authorization failed. Please verify your access rights and try again."
            )
        if user.type is not UserType.SUPER:
            self._check_rules(command, peer, user)

    def signer(self, command: Command, peer: Peer) -> User | None:
        """Return the user who has signed a request; None where it is not signed, and need not be.

        Raises:
            Rejected: it is not signed by a user who may sign.
        """
        fields = command.ext_fields or {}
        name = fields.get(ACCESS_KEY)
        user = self._directory.users.get(name) if name else None
        # An unknown user costs the same as a known one: the time of an answer tells no names.
        is_signed = bool(name) and _is_signed(command, (user or _NO_USER).password)
        if user is not None and is_signed and user.status is UserStatus.ENABLE:
            return user
        if command.code in self._unsigned:
            return None
        if not name:
            remark = "username cannot be null."
        elif user is None:
            remark = f"User:{name:.255} is not found."
        elif user.status is not UserStatus.ENABLE:
            remark = f"User:{name} is disabled."
        else:
            remark = "check signature failed."
        raise self._denied(command, peer, "signature", remark)

    def _check_rules(self, command: Command, peer: Peer, user: User) -> None:
        asking = RequestView(command.ext_fields or {}, command.body, self._cluster, self._topic_at)
        try:
            needs = requirements_of(command.code, asking)
        except (OrbitError, RecursionError):
            raise self._denied(command, peer, "rule", "parse authorization context error.") from None
        if needs is None:
            remark = f"User:{user.name} has no permission for request {command.code}, which is for super users."
            raise self._denied(command, peer, "rule", remark)
        source_ip = host_of(peer)
        for need in needs:
            reason = self._decide(user.name, source_ip, need)
            if reason is not None:
                remark = (
                    f"User:{user.name} has no permission to access {need.resource!s:.300} from {source_ip}, {reason}"
                )
                raise self._denied(command, peer, "rule", remark)

    def _decide(self, name: str, source_ip: str, need: Need) -> str | None:
        key = (name, source_ip, need)
        try:
            return self._decisions[key]
        except KeyError:
            pass
        reason = objection(need, self._directory.acls.get(name), source_ip)
        if len(need.resource.name or "") > NAME_LENGTH_MAX:
            return reason  # no such topic or group: 10,000 of 200 KiB would fill the memory
        if len(self._decisions) >= REMEMBERED_MAX:
            self._decisions.clear()
        self._decisions[key] = reason
        return reason

    def _denied(self, command: Command, peer: Peer, lack: str, remark: str) -> Rejected:
        self.denials[lack] += 1
        if is_worth_a_line(self.denials[lack]):
            log.warning("refused request %d from %s: %r", command.code, peer.remote, remark)
        return Rejected(ResponseCode.NO_PERMISSION, remark)


def host_of(peer: Peer) -> str:
    """Return a peer's address without its port, one of version 4 in its own form."""
    return _plain_host(peer.remote.rpartition(":")[0])


@lru_cache(4096)
def _plain_host(text: str) -> str:
    host = text.strip("[]").partition("%")[0]
    try:
        return str(plain_address(host))
    except ValueError:
        return host


def _is_signed(command: Command, password: str) -> bool:
    fields = command.ext_fields or {}
    if command.version < Version.V4_9_4 - 1 and _UNIQUE_KEY_QUERY in fields:
        fields = {name: value for name, value in fields.items() if name != _UNIQUE_KEY_QUERY}
    try:
        return is_signed_by(fields, command.body, password)
    except UnicodeEncodeError:  # half of a surrogate pair: no client signs such text
        return False
