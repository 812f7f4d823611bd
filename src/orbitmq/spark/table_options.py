"""The options of tables that CREATE TABLE makes, kept in the metadata of the table's first column.

Spark tells a Python source what stands in OPTIONS (...) once, when it asks for the columns of a table that is made, mixed with
the table's properties. Later reads and writes come without any of it. A read brings the table's columns. A write brings those of
its rows, which may be another table's: so it has to say itself where they go. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from orbitmq.errors import ConfigError
from orbitmq.spark.given_options import ALIASES
from orbitmq.spark.options import READ_OPTIONS, WRITE_OPTIONS

_KEY = "rocketmq"
_PREFIX = "option."
_PLACES = ("nameserver", "commitlogpath", "kafka.bootstrap.servers")
"""Where messages are; the last one is refused with the name that it has here."""
_MISSING = "host:port of at least one NameServer, several split by ;"
_PROVIDER = "provider"
"""A property that Spark gives every table and no query."""


def _names(options: frozenset[str]) -> frozenset[str]:
    aliases = {alias for alias, name in ALIASES.items() if name in options}
    return frozenset(name.lower() for name in options) | aliases


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
    if any(name.lower() in _PLACES for name in given):
        return given
    for field in schema.fields:
        if _KEY in field.metadata:
            return {**readable(field.metadata[_KEY]), **given}
    raise ConfigError("nameServer", None, f"{_MISSING}: a table has it in its OPTIONS, and no list of columns")


def for_writing(given: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a write, which are those given."""
    if not any(name.lower() in _PLACES for name in given):
        raise ConfigError("nameServer", None, f"{_MISSING}: a write to a table has options of its own, WITH (...)")
    return given


def readable(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return a table's options without those that only a write has."""
    return {name: value for name, value in options.items() if name.lower() not in _ONLY_WRITTEN}
