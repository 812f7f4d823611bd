"""The broker groups as etcd has them: each value with the revision that it is of.

Values come from outside. One that is not a group is named with its key, and stops that group alone: what was known of it before stays,
for its brokers work with that, and nothing of it is changed until the key holds a group again. A key that is deleted takes its group
with it, ids and epochs included, for etcd is what counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from orbitmq.controller.etcd.messages import KeyValue
from orbitmq.controller.replicas import Replicas, decode_group
from orbitmq.controller.values import GROUPS_MAX, TEXT_SIZE_MAX, ReplicaGroup
from orbitmq.errors import EtcdError, UnreadableState

log = logging.getLogger(__name__)


class Groups:
    """What this controller knows of the keys below `prefix`, with `replicas` as the groups among them."""

    def __init__(self, prefix: bytes, replicas: Replicas) -> None:
        self.prefix = prefix
        self.revision = 0
        """All that etcd has changed up to this revision is known here."""
        self.newest = 0
        """The newest revision that is known of: of a group that was put here, before the watch told of what lies between."""
        self.unreadable: dict[str, str] = {}
        """Why the values of keys are not groups, by the keys' names."""
        self._replicas = replicas
        self._revisions: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many keys are known."""
        return len(self._revisions)

    def key(self, name: str) -> bytes:
        """Return a group's key."""
        return self.prefix + name.encode(errors="surrogateescape")

    def revision_of(self, name: str) -> int:
        """Return the revision of what is known of a group; 0: nothing."""
        return self._revisions.get(name, 0)

    def check(self, name: str) -> None:
        """Raise EtcdError when a group's value cannot be read: what it would be after a change is not known."""
        if (reason := self.unreadable.get(name)) is not None:
            raise EtcdError(reason)

    def saved(self, group: ReplicaGroup, revision: int) -> None:
        """Take a group that this controller has put."""
        if revision > self.revision_of(group.name):
            self._note(group.name, revision)
            self._replicas.put(group)

    def take(self, pair: KeyValue) -> None:
        """Take a key's value, unless a newer one is known.

        Raises:
            EtcdError: there are too many groups.
        """
        name = self._name(pair.key)
        if pair.modified <= self.revision_of(name):
            return
        if name not in self._revisions and len(self._revisions) >= GROUPS_MAX:
            raise EtcdError(f"more than {GROUPS_MAX} keys below {self.prefix.decode()}: broker groups are missing here")
        self._note(name, pair.modified)
        try:
            group = decode_group(pair.value)
            if len(pair.key) > len(self.prefix) + TEXT_SIZE_MAX or group.name != name:
                raise UnreadableState(f"the group {group.name!r:.80}, which is of another key")
        except UnreadableState as error:
            self.unreadable[name] = f"the key {_shown(pair.key)} of etcd holds {error}: put it right, or delete it"
            log.error("%s", self.unreadable[name])
        else:
            if self.unreadable.pop(name, None) is not None:
                log.info("the key %s of etcd holds a group again", _shown(pair.key))
            self._replicas.put(group)

    def forget(self, key: bytes, revision: int) -> None:
        """Take it that a key was deleted at a revision."""
        name = self._name(key)
        if 0 < self.revision_of(name) < revision:
            log.warning("the key %s of etcd is deleted: its broker group is forgotten", _shown(key))
            del self._revisions[name]
            self.unreadable.pop(name, None)
            self._replicas.remove(name)

    def load(self, pairs: Iterable[KeyValue], revision: int) -> None:
        """Take all keys that there were at a revision; what is known already of later ones stays.

        Raises:
            EtcdError: there are too many groups.
        """
        pairs = tuple(pairs)
        for key in {self.key(name) for name in self._revisions} - {pair.key for pair in pairs}:
            self.forget(key, revision + 1)
        for pair in pairs:
            self.take(pair)
        self.reached(revision)

    def reached(self, revision: int) -> None:
        """Take it that all changes up to a revision are known."""
        self.revision = max(self.revision, revision)
        self.newest = max(self.newest, revision)

    def restart(self) -> None:
        """Begin again with the next load: etcd has gone back to an older state, and revisions are given again."""
        self.revision = self.newest = 0
        self._revisions = dict.fromkeys(self._revisions, 1)

    def _note(self, name: str, revision: int) -> None:
        self._revisions[name] = revision
        self.newest = max(self.newest, revision)

    def _name(self, key: bytes) -> str:
        return key.removeprefix(self.prefix).decode(errors="surrogateescape")


def _shown(key: bytes) -> str:
    text = key.decode(errors="backslashreplace")
    return f"{text if text.isprintable() else ascii(text)[1:-1]:.400}"
