"""The users and rules of a running broker: read at its start, changed on request, and kept.

Source: Java AuthenticationMetadataManagerImpl.initUser, AuthMigrator.
"""

from __future__ import annotations

import logging
from pathlib import Path

from orbitmq.broker.access.directory import EMPTY, Directory, add_rules, create_user, draft_of
from orbitmq.broker.access.directory_file import DirectoryFile
from orbitmq.broker.access.guard import Guard
from orbitmq.broker.access.plain_accounts import PlainAcl, parse_plain_acl, trusts
from orbitmq.broker.access.settings import AccessSettings, parse_codes, parse_first_user, parse_own_credentials
from orbitmq.errors import ConfigError, HeaderError, Rejected, StoreError
from orbitmq.model.access import Acl, User, UserStatus, UserType
from orbitmq.model.message import PropertyName
from orbitmq.model.topic import GIVEN_UP_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import Store
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.command import Command
from orbitmq.wire.messages.properties import parse_properties
from orbitmq.wire.signature import ACCESS_KEY

log = logging.getLogger(__name__)

PLAIN_FILE_SIZE_MAX = 16 * 1024 * 1024
_WAITING_ROOMS = frozenset((SCHEDULE_TOPIC, HALF_TOPIC, TIMER_TOPIC, GIVEN_UP_TOPIC))
"""Topics whose messages were sent to another one."""


class AccessControl:
    """The directory of a broker, its file, and the guard that asks it.

    Args:
        path: `config/auth.json`.

    Raises:
        StoreError: the file of users, or that of 4.x accounts, cannot be used.
    """

    def __init__(self, config: AccessSettings, path: Path, store: Store) -> None:
        self._file = DirectoryFile(path)
        self._store = store
        stored = self._file.load()
        plain = _read_plain_accounts(config)
        self.directory = _with_first_users(_with_plain_accounts(stored, plain), config)
        if self.directory != stored:
            self._save(self.directory)
        if config.authentication_enabled and not any(map(_governs, self.directory.users.values())):
            log.warning(
                "%s has no super user who may sign, so users and rules cannot be made: name a new one in "
                "initAuthenticationUser and start again",
                path,
            )
        self.guard = self._make_guard(config, plain) if config.authentication_enabled else None
        """The guard of every request; None where users are kept, but requests need no signature."""

    def change(self, directory: Directory) -> None:
        """Keep a changed directory and go by it from now on.

        Raises:
            OSError: the disk refused, and nothing has changed; or the next start goes by what is asked for, as the error says.
        """
        self._file.save(directory)
        self.directory = directory
        if self.guard is not None:
            self.guard.replace_directory(directory)

    def may_change_super_users(self, command: Command) -> bool:
        """Return True if a request may make or change super users: one of them has signed it, or requests need no signature."""
        name = (command.ext_fields or {}).get(ACCESS_KEY)
        if not name:
            return True
        user = self.directory.users.get(name)
        return user is not None and user.type is UserType.SUPER

    def may_see_passwords(self, command: Command, peer: Peer) -> bool:
        """Return True if the answer may hold passwords: a super user has signed the request. Java shows them to every user."""
        if self.guard is None:
            return False
        try:
            user = self.guard.signer(command, peer)
        except Rejected:
            return False
        return user is not None and user.type is UserType.SUPER

    def _make_guard(self, config: AccessSettings, plain: PlainAcl | None) -> Guard:
        return Guard(
            self.directory,
            cluster=config.broker_cluster_name,
            is_authorizing=config.authorization_enabled,
            unsigned=parse_codes("authenticationWhitelist", config.authentication_whitelist),
            unruled=parse_codes("authorizationWhitelist", config.authorization_whitelist),
            is_trusted=None if plain is None else trusts(plain.trusted),
            topic_at=self._topic_at,
        )

    def _topic_at(self, physical_offset: int) -> str | None:
        """Return the topic that the message at an offset was sent to."""
        record = self._store.parsed_at(physical_offset)
        if record is None:
            return None
        if record.topic in _WAITING_ROOMS:
            return parse_properties(record.properties).get(PropertyName.REAL_TOPIC, record.topic)
        return record.topic

    def _save(self, directory: Directory) -> None:
        try:
            self._file.save(directory)
        except OSError as error:
            raise StoreError(f"{self._file.path} cannot be written: {error}") from error


def _governs(user: User) -> bool:
    return user.type is UserType.SUPER and user.status is UserStatus.ENABLE


def _with_first_users(directory: Directory, config: AccessSettings) -> Directory:
    """Add the super users of the settings, where there is no user of their name yet."""
    own = parse_own_credentials(config.inner_client_authentication_credentials)
    inner = None if own is None else User(own.access_key, own.secret_key, UserType.SUPER)
    for user in (parse_first_user(config.init_authentication_user), inner):
        if user is not None and user.name not in directory.users:
            directory = _with_user(directory, user)
    return directory


def _with_plain_accounts(directory: Directory, plain: PlainAcl | None) -> Directory:
    """Add the accounts of 4.x whose names are new, with their rules; present users stay as they are."""
    if plain is None:
        return directory
    acls: dict[str, Acl] = {acl.subject: acl for acl in plain.acls}
    for user in plain.users:
        if user.name in directory.users:
            continue
        directory = _with_user(directory, user)
        acl = acls.get(f"User:{user.name}")
        if acl is not None:
            directory = add_rules(directory, acl.subject, draft_of(acl))
        log.info("took over the account %r of plain_acl.yml", user)
    return directory


def _with_user(directory: Directory, user: User) -> Directory:
    return create_user(directory, user.name, UserChange(user.password, user.type, user.status))


def _read_plain_accounts(config: AccessSettings) -> PlainAcl | None:
    if not config.migrate_auth_from_v1_enabled:
        return None
    path = Path(config.plain_acl_file).expanduser()
    try:
        if path.stat().st_size > PLAIN_FILE_SIZE_MAX:
            raise HeaderError(f"more than {PLAIN_FILE_SIZE_MAX} bytes")
        plain = parse_plain_acl(path.read_text(encoding="utf-8"))
        _with_plain_accounts(EMPTY, plain)
    except (OSError, ValueError, HeaderError, Rejected) as error:
        reason = error.remark if isinstance(error, Rejected) else error
        if isinstance(error, UnicodeDecodeError):
            reason = "not UTF-8"
        raise ConfigError("plainAclFile", str(path), f"a readable plain_acl.yml ({reason})") from None
    for text in plain.unused:
        log.warning("%s: %s", path, text)
    return plain
