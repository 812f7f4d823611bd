"""The options of tables that CREATE TABLE makes, kept in the metadata of the table's first column.

Spark tells a Python source what stands in OPTIONS (...) once, when it asks for the columns of a table that is made, mixed with
the table's properties. Later reads and writes come without any of it; what they do bring is the table's columns. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from orbitmq.errors import ConfigError
from orbitmq.spark.options import ALIASES, READ_OPTIONS, WRITE_OPTIONS

_KEY = "rocketmq"
_PREFIX = "option."
_PLACES = ("nameserver", "commitlogpath")
_ADVICE = "a table has it in its OPTIONS, and no list of columns; toTable() and AS SELECT do not pass them on"
_PROVIDER = "provider"
"""A property that Spark gives every table and no query."""


def _names(options: frozenset[str]) -> frozenset[str]:
    aliases = {alias for alias, name in ALIASES.items() if name in options}
    return frozenset(name.lower() for name in options) | aliases


_ONLY_READ = _names(frozenset(READ_OPTIONS) - frozenset(WRITE_OPTIONS))
_ONLY_WRITTEN = _names(frozenset(WRITE_OPTIONS) - frozenset(READ_OPTIONS))


def table_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """Return what stands in the OPTIONS of a table that is made; None where a query asks."""
    if _PROVIDER not in given:
        return None
    return {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return a table's columns, the first of which keeps the table's options."""
    first, *others = schema.fields
    metadata = {**first.metadata, _KEY: dict(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def for_reading(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a read: those given, on top of those of the table that it reads, if it reads one."""
    return {**readable(_kept(given, schema)), **given}


def for_writing(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a write: those given, on top of those of the table that it writes to, if it does."""
    return {**_without(_kept(given, schema), _ONLY_READ), **given}


def readable(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return a table's options without those that only a write has."""
    return _without(options, _ONLY_WRITTEN)


def _without(options: Mapping[str, str], others: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() not in others}


def _kept(given: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of the table that a schema is of: rows that come from a table and go elsewhere name a NameServer."""
    if any(name.lower() in _PLACES for name in given):
        return {}
    for field in schema.fields:
        if _KEY in field.metadata:
            kept: dict[str, str] = field.metadata[_KEY]
            return kept
    missing = "host:port of at least one NameServer, several split by ;"
    raise ConfigError("nameServer", None, f"{missing} ({_ADVICE})")
