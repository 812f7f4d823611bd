"""Logins: users of a file, with passwords hashed by argon2, and the users of the cluster itself.

A file has one user a line, as `orbitmq dashboard user NAME --role ROLE` prints it:

    alice admin $argon2id$v=19$m=65536,t=3,p=4$...

The user of a session is looked up again (`session_of`): one that is gone, disabled or has another secret has no session any more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.codes import ResponseCode
from orbitmq.dashboard.sessions import CHECKED_MS, COOKIE, Role, Session, Sessions
from orbitmq.errors import ConfigError, OrbitError, RemoteRefused, RouteNotFound
from orbitmq.model.access import UserType
from orbitmq.net.pool import expect
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.wire.bodies.access import decode_users
from orbitmq.wire.headers.access import ListUsers
from orbitmq.wire.signature import Credentials

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = PASSWORD_LENGTH_MAX = 256
_OTHERS_MAY_READ = 0o044


class LoggedIn(NamedTuple):
    """A user whose password was right.

    Args:
        clients: its own, where requests are signed with its key.
        hash: of the password that was right, of a user of the file.
        is_super: it may do what no broker judges; of the cluster's users those whom the brokers name super users.
    """

    name: str
    role: Role
    clients: ClusterClients | None = None
    hash: str = ""
    is_super: bool = True


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

    async def look_up(self, user: LoggedIn, *, before_change: bool) -> LoggedIn | None:
        """Return a user as it is now; None: it is gone, disabled or has another secret.

        Args:
            before_change: every broker has to name it a super user, not one of them.

        Raises:
            OrbitError: the cluster cannot be asked.
        """
        ...


class LocalUser(NamedTuple):
    """A user of the file."""

    role: Role
    hash: str


class LocalLogins:
    """The users of a file.

    Args:
        path: of the file, which is read again when it has changed; None: the users stay.
    """

    at_a_time = 2
    """Each takes 64 MiB and a tenth of a second."""

    def __init__(self, users: Mapping[str, LocalUser], path: Path | None = None) -> None:
        self._users = users
        self._path = path
        self._version = _version_of(path)
        self._hasher = PasswordHasher()
        self._nothing = self._hasher.hash("")

    async def check(self, name: str, password: str) -> LoggedIn | None:
        """Compare a password with its hash, in a thread; a name that there is not takes as long."""
        user = self._current().get(name)
        is_right = await asyncio.to_thread(self._verify, self._nothing if user is None else user.hash, password)
        return LoggedIn(name, user.role, hash=user.hash) if user is not None and is_right else None

    async def look_up(self, user: LoggedIn, *, before_change: bool) -> LoggedIn | None:
        """Return a user as the file has it now."""
        found = self._current().get(user.name)
        return user._replace(role=found.role) if found is not None and found.hash == user.hash else None

    def _current(self) -> Mapping[str, LocalUser]:
        """Return the users of the file as it is now; of one that cannot be used, those of before."""
        version = _version_of(self._path)
        if self._path is not None and version != self._version:
            self._version = version
            try:
                self._users = load_users(self._path)
            except ConfigError as error:
                log.error("the users stay as they were: %s", error)
        return self._users

    def _verify(self, expected: str, password: str) -> bool:
        try:
            return self._hasher.verify(expected, password)
        except (VerificationError, InvalidHashError):
            return False


def _version_of(path: Path | None) -> tuple[int, ...] | None:
    """Return what is different after a change of a file; None: it cannot be looked at."""
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


class ClusterLogins:
    """The users of the cluster's brokers: a name and a password are an access key and its secret key.

    The brokers check every request of theirs; whether a user may make changes is up to the brokers' rules. What no broker
    judges is for super users.
    """

    at_a_time = 8

    def __init__(self, clients: ClusterClients) -> None:
        self._clients = clients
        self._answered = ""
        """The master that has answered last: it is asked first, since others may be silent."""

    async def check(self, name: str, password: str) -> LoggedIn | None:
        """Ask a broker for its run-time values with the key, and with a wrong one: it refuses the wrong one in another way.

        A user whom the rules do not let see the values is refused, too, but not as a wrong signature is.

        Raises:
            OrbitError: no broker can be asked, or brokers take any signature: the cluster has no users then.
        """
        signed = self._signed(name, password)
        try:
            found = await self.look_up(LoggedIn(name, Role.ADMIN, signed), before_change=False)
        except BaseException:
            await signed.close()
            raise
        if found is None:
            await signed.close()
        return found

    async def look_up(self, user: LoggedIn, *, before_change: bool) -> LoggedIn | None:
        """Check the key of a user again, as `check` does, and ask the brokers whether it is a super user's."""
        assert user.clients is not None, "users of the cluster have clients"
        credentials = user.clients.security.credentials
        assert credentials is not None, "which sign"
        stranger = self._signed(user.name, credentials.secret_key + "?")
        try:
            masters = await self._masters()
            is_right = await self._ask_masters(masters, user.clients, stranger)
        finally:
            await stranger.close()
        if not is_right:
            return None
        asked = masters if before_change else [self._answered]
        return user._replace(is_super=await _is_super(user.clients, user.name, asked))

    async def _masters(self) -> list[str]:
        addresses = (await self._clients.admin.masters()).values()
        return sorted(addresses, key=lambda address: address != self._answered)

    async def _ask_masters(self, masters: Sequence[str], signed: ClusterClients, stranger: ClusterClients) -> bool:
        """Return True if the first master that answers refuses a stranger in another way."""
        problem: OrbitError = RouteNotFound("no master broker is registered with the NameServer")
        for address in masters:
            try:
                wrong, right = await _refusal(stranger, address), await _refusal(signed, address)
            except OrbitError as error:
                problem = error
                continue
            if wrong is None:
                raise OrbitError("the brokers check no signatures (authenticationEnabled is off): there is no login")
            self._answered = address
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


async def _is_super(clients: ClusterClients, name: str, masters: Sequence[str]) -> bool:
    """Return True if all masters that answer, at least one, name a user a super user; its own requests ask.

    A user whom the rules do not let see users is none: super users need no rule.
    """

    async def ask(address: str) -> bool | None:
        try:
            answer = await clients.pool.request(address, ListUsers(filter=name), timeout_ms=clients.timeout_ms)
            users = decode_users(expect(answer, address).body)
        except RemoteRefused:
            return False
        except OrbitError:
            return None
        return any(user.name == name and user.type is UserType.SUPER for user in users)

    answers = [said for said in await asyncio.gather(*map(ask, masters)) if said is not None]
    return bool(answers) and all(answers)


async def session_of(
    request: Request, *, is_use: bool = True, before_change: bool = False
) -> Session[ClusterClients] | None:
    """Return the session of a request's cookie, its user looked up again where that was long ago; None: it has none.

    Args:
        is_use: the session goes on as long as after a request of its user.
        before_change: the user is looked up in any case.

    Raises:
        OrbitError: the user cannot be looked up.
    """
    state = request.app.state
    if state.logins is None:
        everyone: Session[ClusterClients] = state.everyone
        return everyone
    token, now_ms = request.cookies.get(COOKIE), time.time_ns() // 1_000_000
    sessions: Sessions[ClusterClients] = state.sessions
    session = sessions.find(token, now_ms) if is_use else sessions.peek(token, now_ms)
    if session is None or not (before_change or now_ms - session.checked_ms >= CHECKED_MS):
        return session
    user: LoggedIn | None = await state.logins.look_up(session.login, before_change=before_change)
    if user is None:
        log.info("the session of %s ends: the user is gone, disabled or has another secret", session.user)
        if sessions.remove(token) is not None and session.clients is not state.clients:
            await session.clients.close()
        return None
    session.login, session.checked_ms, session.is_super = user, now_ms, user.is_super
    session.role = Role.READER if state.is_read_only else user.role
    return session


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
