"""Users and rules of a cluster's brokers (ACL 2.0), as typed calls.

Each broker keeps users and rules of its own: changes go to every master, or to one; lists come from each.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType

from orbitmq.admin.client import AdminClient
from orbitmq.admin.each_master import ask_all, change_each
from orbitmq.model.access import AccessRule, Acl, Policy, PolicyType, User
from orbitmq.net.pool import ConnectionPool, expect
from orbitmq.wire.bodies.access import UserChange, decode_acls, decode_users, encode_acl, encode_user_change
from orbitmq.wire.command import Command
from orbitmq.wire.headers.access import CreateAcl, CreateUser, DeleteAcl, DeleteUser, ListAcls, ListUsers, UpdateUser
from orbitmq.wire.signature import Credentials


class AccessClient:
    """Administrative calls about users and rules.

    Args: as `AdminClient`.
    """

    def __init__(
        self,
        name_servers: str,
        *,
        timeout_ms: int = 3000,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._timeout_ms = timeout_ms
        self._admin = AdminClient(name_servers, timeout_ms=timeout_ms, credentials=credentials, tls=tls)
        self._pool = ConnectionPool(name="access", credentials=credentials, tls=tls)

    async def __aenter__(self) -> AccessClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.close()
        await self._admin.close()

    async def users(self, filter_text: str | None = None, *, broker: str | None = None) -> dict[str, tuple[User, ...]]:
        """Return each broker's users, or those whose names contain a text; passwords are empty unless we are super."""
        answers = await self._ask(ListUsers(filter=filter_text), broker)
        return {name: decode_users(answer.body) for name, answer in answers.items()}

    async def create_user(self, name: str, change: UserChange, *, broker: str | None = None) -> list[str]:
        """Make a user; return the brokers' names.

        Raises:
            PartlyDone: some brokers have made the change, some have not.
        """
        return list(await self._change(CreateUser(username=name), encode_user_change(name, change), broker=broker))

    async def update_user(self, name: str, change: UserChange, *, broker: str | None = None) -> list[str]:
        """Change what is said of a user. Raises: as `create_user`."""
        return list(await self._change(UpdateUser(username=name), encode_user_change(name, change), broker=broker))

    async def missing_masters(self) -> dict[str, str]:
        """Return the names of brokers that have no master now, and why: changes do not reach them (`ClusterAdmin`)."""
        return await self._admin.missing_masters()

    async def delete_user(self, name: str, *, broker: str | None = None) -> list[str]:
        """Delete a user and its rules. Raises: as `create_user`."""
        return list(await self._change(DeleteUser(username=name), broker=broker))

    async def rules(
        self, user_filter: str | None = None, resource_filter: str | None = None, *, broker: str | None = None
    ) -> dict[str, tuple[Acl, ...]]:
        """Return each broker's rules, or those of users, and about resources, that contain a text."""
        header = ListAcls(subject_filter=user_filter, resource_filter=resource_filter)
        return {name: decode_acls(answer.body) for name, answer in (await self._ask(header, broker)).items()}

    async def add_rule(self, acl: Acl, *, broker: str | None = None) -> list[str]:
        """Add rules to a user's; those about the same resources are replaced. Raises: as `create_user`."""
        return list(await self._change(CreateAcl(subject=acl.subject), encode_acl(acl), broker=broker))

    async def delete_rules(self, name: str, resource: str | None = None, *, broker: str | None = None) -> list[str]:
        """Delete a user's rules, or the one about a resource. Raises: as `create_user`."""
        header = DeleteAcl(
            subject=f"User:{name}", policy_type=PolicyType.CUSTOM if resource else None, resource=resource
        )
        return list(await self._change(header, broker=broker))

    async def _change(self, header: object, body: bytes = b"", *, broker: str | None) -> dict[str, Command]:
        """Make a change at every master, or at one; return the answers by the brokers' names."""
        return await change_each(await self._masters(broker), lambda _name, at: self._request(at, header, body))

    async def _ask(self, header: object, broker: str | None) -> dict[str, Command]:
        """Ask every master, or one; return the answers by the brokers' names."""
        return await ask_all(await self._masters(broker), lambda _name, at: self._request(at, header))

    async def _request(self, address: str, header: object, body: bytes = b"") -> Command:
        return expect(await self._pool.request(address, header, body, timeout_ms=self._timeout_ms), address)

    async def _masters(self, broker: str | None) -> Mapping[str, str]:
        return dict(sorted((await self._admin.masters(broker=broker)).items()))


def acl_of(name: str, *rules: AccessRule) -> Acl:
    """Return custom rules of a user."""
    return Acl(f"User:{name}", (Policy(PolicyType.CUSTOM, rules),))
