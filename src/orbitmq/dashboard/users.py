"""Logins: users of a file, with passwords hashed by argon2, and the users of the cluster itself.

A file has one user a line, as `orbitmq dashboard user NAME --role ROLE` prints it:

    alice admin $argon2id$v=19$m=65536,t=3,p=4$...
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.codes import ResponseCode
from orbitmq.dashboard.sessions import Role
from orbitmq.errors import ConfigError, OrbitError, RemoteRefused, RouteNotFound
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = PASSWORD_LENGTH_MAX = 256
_OTHERS_MAY_READ = 0o044


class LoggedIn(NamedTuple):
    """A user whose password was right; `clients` are its own where requests are signed with its key."""

    name: str
    role: Role
    clients: ClusterClients | None = None


class Logins(Protocol):
    """Tells whether a name and a password belong together.

    Args:
        at_a_time: logins that are checked at the same time.
    """

    at_a_time: int

    async def check(self, name: str, password: str) -> LoggedIn | None:
        """Return the user; None: there is none, or the password is another one.

        Raises:
            ClientError: the cluster cannot be asked.
        """
        ...


class LocalUser(NamedTuple):
    """A user of the file."""

    role: Role
    hash: str


class LocalLogins:
    """The users of a file."""

    at_a_time = 2
    """Each takes 64 MiB and a tenth of a second."""

    def __init__(self, users: Mapping[str, LocalUser]) -> None:
        self._users = users
        self._hasher = PasswordHasher()
        self._nothing = self._hasher.hash("")

    async def check(self, name: str, password: str) -> LoggedIn | None:
        """Compare a password with its hash, in a thread; a name that there is not takes as long."""
        user = self._users.get(name)
        is_right = await asyncio.to_thread(self._verify, self._nothing if user is None else user.hash, password)
        return LoggedIn(name, user.role) if user is not None and is_right else None

    def _verify(self, expected: str, password: str) -> bool:
        try:
            return self._hasher.verify(expected, password)
        except (VerificationError, InvalidHashError):
            return False


class ClusterLogins:
    """The users of the cluster's brokers: a name and a password are an access key and its secret key.

    The brokers check every request of theirs; whether a user may make changes is up to the brokers' rules.
    """

    at_a_time = 8

    def __init__(self, clients: ClusterClients) -> None:
        self._clients = clients

    async def check(self, name: str, password: str) -> LoggedIn | None:
        """Ask a broker for its run-time values with the key, and with a wrong one: it refuses the wrong one in another way.

        A user whom the rules do not let see the values is refused, too, but not as a wrong signature is.

        Raises:
            OrbitError: no broker can be asked, or brokers take any signature: the cluster has no users then.
        """
        signed, stranger = self._signed(name, password), self._signed(name, password + "?")
        try:
            is_right = await self._ask_masters(signed, stranger)
        except OrbitError:
            await signed.close()
            raise
        finally:
            await stranger.close()
        if not is_right:
            await signed.close()
            return None
        return LoggedIn(name, Role.ADMIN, signed)

    async def _ask_masters(self, signed: ClusterClients, stranger: ClusterClients) -> bool:
        """Return whether the first master that answers refuses a stranger in another way."""
        problem: OrbitError = RouteNotFound("no master broker is registered with the NameServer")
        for address in (await self._clients.admin.masters()).values():
            try:
                wrong, right = await _refusal(stranger, address), await _refusal(signed, address)
            except OrbitError as error:
                problem = error
                continue
            if wrong is None:
                raise OrbitError("the brokers check no signatures (authenticationEnabled is off): there is no login")
            return right != wrong
        raise problem

    def _signed(self, name: str, password: str) -> ClusterClients:
        return self._clients.with_security(ClientSecurity(Credentials(name, password), self._clients.security.tls))


async def _refusal(clients: ClusterClients, address: str) -> str | None:
    """Return how a broker denies a request; None: it answers.

    Raises:
        OrbitError: it cannot be asked, or refuses for another reason, such as too much work.
    """
    try:
        await clients.admin.broker_runtime_info(address)
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.NO_PERMISSION:
            raise
        return str(refusal)
    return None


def load_users(path: Path) -> dict[str, LocalUser]:
    """Read the file of users.

    Raises:
        ConfigError: it cannot be read, has no user, or a line is not `NAME ROLE HASH`.
    """
    try:
        text = path.read_text(encoding="utf-8")
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("users", str(path), f"a readable file ({error})") from None
    if mode & _OTHERS_MAY_READ:
        log.warning("%s holds hashes of passwords and other users may read it: chmod 600", path)
    users: dict[str, LocalUser] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        words = line.split()
        if len(words) != 3 or words[1] not in list(Role) or not words[2].startswith("$argon2"):
            expected = f"NAME ROLE HASH, a role being one of {', '.join(Role)}"
            raise ConfigError(f"{path}, line {number}", line[:40], expected)
        if words[0] in users:
            raise ConfigError(f"{path}, line {number}", words[0], "a name that stands there once")
        users[words[0]] = LocalUser(Role(words[1]), words[2])
    if not users:
        raise ConfigError("users", str(path), "a file with at least one user")
    return users


def format_user(name: str, role: Role, password: str) -> str:
    """Return the line of a user.

    Raises:
        ConfigError: the name has blanks or is too long, or the password is empty or too long.
    """
    if not name.isprintable() or len(name.split()) != 1 or name.startswith("#") or len(name) > NAME_LENGTH_MAX:
        raise ConfigError("name", name, f"1 to {NAME_LENGTH_MAX} characters without blanks, not # first")
    if not 1 <= len(password) <= PASSWORD_LENGTH_MAX:
        raise ConfigError("password", f"{len(password)} characters", f"1 to {PASSWORD_LENGTH_MAX} characters")
    return f"{name} {role} {PasswordHasher().hash(password)}"
