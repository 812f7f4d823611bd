"""The key-value store: namespaces of text values, kept in one JSON file with its previous generation beside it.

File: `{"configTable":{"<namespace>":{"<key>":"<value>"}}}`; `<file>.bak` is the content before the last change.

Source: Java KVConfigManager, KVConfigSerializeWrapper; docs/formats/wire_frame.md, "Key-value file".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from orbitmq.errors import InvalidArgument, StoreError
from orbitmq.files import read_generations, replace_file

log = logging.getLogger(__name__)

NAME_LENGTH_MAX = 1_024
VALUE_LENGTH_MAX = 65_536
ENTRIES_MAX = 100_000


class KvConfig:
    """Text values by namespace and key. Every change is on disk before it is visible.

    Args:
        on_change: is told the namespace and key of each value that was set or deleted, or was to be deleted.
    """

    def __init__(self, path: Path, on_change: Callable[[str, str], None] = lambda namespace, key: None) -> None:
        self._path = path
        self._on_change = on_change
        self._table: dict[str, dict[str, str]] = {}

    def load(self) -> None:
        """Read the file, or its previous generation when it is missing or damaged; begin empty without either."""
        try:
            self._table = read_generations(self._path, _parse) or {}
        except StoreError as error:
            log.error("the key-value store begins empty: %s", error)

    def get(self, namespace: str, key: str) -> str | None:
        """Return a value, None when there is none."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, name: str) -> Mapping[str, str] | None:
        """Return all values of a namespace; None when it was never written to."""
        return self._table.get(name)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value.

        Raises:
            InvalidArgument: a name or value is too long, or the store is full.
            OSError: the file cannot be written; nothing has changed.
        """
        for what, text, length_max in (
            ("namespace", namespace, NAME_LENGTH_MAX),
            ("key", key, NAME_LENGTH_MAX),
            ("value", value, VALUE_LENGTH_MAX),
        ):
            if len(text) > length_max:
                raise InvalidArgument(what, text, f"at most {length_max} characters")
        if key not in self._table.get(namespace, ()) and sum(map(len, self._table.values())) >= ENTRIES_MAX:
            raise InvalidArgument("key", key, f"one of at most {ENTRIES_MAX} entries")
        self._write({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})
        self._on_change(namespace, key)

    def delete(self, namespace: str, key: str) -> None:
        """Forget a value, if there is one. The namespace stays, as in Java.

        Raises:
            OSError: the file cannot be written; nothing has changed.
        """
        if key in self._table.get(namespace, ()):
            left = {name: value for name, value in self._table[namespace].items() if name != key}
            self._write({**self._table, namespace: left})
        self._on_change(namespace, key)

    def _write(self, table: dict[str, dict[str, str]]) -> None:
        replace_file(self._path, orjson.dumps({"configTable": table}, option=orjson.OPT_INDENT_2))
        self._table = table


def _parse(content: bytes) -> dict[str, dict[str, str]]:
    document = orjson.loads(content)
    table = document.get("configTable", {}) if isinstance(document, dict) else None
    if not isinstance(table, dict):
        raise ValueError("configTable is expected to be an object")
    return {
        str(namespace): {str(key): str(value) for key, value in entries.items()}
        for namespace, entries in table.items()
        if isinstance(entries, dict)
    }
