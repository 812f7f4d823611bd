"""Access control: whether a request's signature allows what it asks, with three roles.

A server says which role each request code needs; whoever asks signs with an account that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.security.accounts import Account, Role
from orbitmq.wire.command import Command
from orbitmq.wire.signature import ACCESS_KEY, is_signed_by

log = logging.getLogger(__name__)

RoleFor = Callable[[int], Role | None]
"""Says which role a request code needs; None: it is for everybody."""


class AccessControl:
    """Decides whether a request may be served.

    Args:
        accounts: by access key.
        role_for: which role each request code needs.
    """

    def __init__(self, accounts: Mapping[str, Account], role_for: RoleFor) -> None:
        self._accounts = accounts
        self._role_for = role_for
        self._refusals = 0

    def replace_accounts(self, accounts: Mapping[str, Account]) -> None:
        """Let these accounts sign from now on, and no others."""
        self._accounts = accounts

    def admit(self, command: Command, peer: Peer) -> None:
        """Let a request pass.

        Raises:
            Rejected: it needs a role, and is not signed by an account that has it. The answer does not say what
                was wrong; the log does.
        """
        needed = self._role_for(command.code)
        if needed is None:
            return
        reason = self._objection(command.ext_fields or {}, command.body, needed)
        if reason is not None:
            self._refusals += 1
            if is_worth_a_line(self._refusals):
                log.warning("refused request %d from %s: %s", command.code, peer.remote, reason)
            raise Rejected(
                ResponseCode.NO_PERMISSION,
                f"request {command.code} needs a signature with the role {needed.name.lower()}",
            )

    def _objection(self, ext_fields: Mapping[str, str], body: bytes, needed: Role) -> str | None:
        access_key = ext_fields.get(ACCESS_KEY)
        if access_key is None:
            return "it is not signed"
        account = self._accounts.get(access_key)
        # An unknown key costs the same as a known one.
        secret = account.credentials.secret_key if account is not None else "unknown account"
        is_signed = is_signed_by(ext_fields, body, secret)
        if account is None:
            return f"the access key {access_key!r:.80} is not known"
        if not is_signed:
            return f"the signature of {access_key} is wrong"
        if account.role < needed:
            return f"{access_key} has the role {account.role.name.lower()} only"
        return None
