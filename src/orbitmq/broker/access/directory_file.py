"""The file of users and rules, `config/auth.json`: replaced as a whole, and readable for the broker's own user alone.

It holds the users' passwords as they are. The protocol signs requests with them (HMAC-SHA1), so a broker that checks signatures
has to know them; a hash of them would be the password then. Java keeps them as they are, too, in its RocksDB.

Source: docs/formats/config_files.md.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import orjson

from orbitmq.broker.access.directory import EMPTY, Directory, add_rules, create_user, draft_of
from orbitmq.errors import HeaderError, Rejected
from orbitmq.files import read_newest, replace_file
from orbitmq.model.access import Acl
from orbitmq.wire.bodies.access import UserChange, acl_document, parse_acl, parse_user, user_document
from orbitmq.wire.bodies.document import parse_body

log = logging.getLogger(__name__)

_OWNER_ALONE = 0o600
_OTHERS = 0o077


class DirectoryFile:
    """Where a directory is kept between two runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load(self) -> Directory:
        """Return the stored directory, an empty one at the first start.

        Raises:
            StoreError: there is a file, and it cannot be used. A former one may have users and rules that were taken away.
        """
        found = read_newest(self.path, parse_directory)
        if found is not None:
            self._close()
        return found or EMPTY

    def save(self, directory: Directory) -> None:
        """Store the directory.

        Raises:
            OSError: the disk refused; the file is as it was, unless the error says otherwise.
        """
        replace_file(self.path, format_directory(directory), mode=_OWNER_ALONE)

    def _close(self) -> None:
        """Remove permissions of other users: a copy, or an editor, opens a file easily."""
        for path in (self.path, self.path.with_name(self.path.name + ".bak")):
            try:
                mode = path.stat().st_mode
                if mode & _OTHERS:
                    log.warning("%s holds passwords, and other users could read it; its mode is 600 now", path)
                    path.chmod(_OWNER_ALONE)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("%s holds passwords, and its mode cannot be changed: %s", path, error)


def format_directory(directory: Directory) -> bytes:
    """Return the content of auth.json."""
    document = {
        "acls": [acl_document(acl) for acl in directory.acls.values()],
        "users": [user_document(user) for user in directory.users.values()],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def parse_directory(content: bytes) -> Directory:
    """Parse auth.json.

    Raises:
        HeaderError: not such a file, or something in it that no request could have brought there.
    """

    def parse(document: dict[str, Any]) -> Directory:
        users = {user.name: user for user in map(parse_user, document.get("users") or ())}
        for user in users.values():
            create_user(EMPTY, user.name, UserChange(user.password, user.type, user.status))
        directory = Directory(users, {})
        acls: dict[str, Acl] = {}
        for acl in map(parse_acl, document.get("acls") or ()):
            acls |= add_rules(directory, acl.subject, draft_of(acl)).acls
        return directory._replace(acls=acls)

    try:
        return parse_body("auth.json", content, parse)
    except Rejected as error:
        raise HeaderError(f"auth.json: {error.remark}") from None
