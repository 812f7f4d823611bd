"""Settings as RocketMQ spells them: properties files, and the keys and texts of a settings dataclass.

A field's name is its key in snake case (`scanNotActiveBrokerInterval` is `scan_not_active_broker_interval`), its
annotation says how the text is read. Both servers' settings are made with this, so that a key means the same in both.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orbitmq.address import parse_name_servers
from orbitmq.errors import ConfigError, InvalidArgument

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger(__name__)

_SPELT_OTHERWISE = {"ip1": "IP1", "crc": "CRC"}
"""Words that RocketMQ does not capitalise as the others."""

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")


def read_properties(path: Path | str) -> dict[str, str]:
    """Return the keys and values of a settings file.

    Raises:
        ConfigError: the file cannot be read, or is in another format.
    """
    import javaproperties  # it loads an XML parser: only servers with a file pay

    try:
        return dict(javaproperties.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError("configFile", str(path), f"a readable Java properties file ({error})") from None


def java_key(name: str) -> str:
    """Return RocketMQ's key for a field's name."""
    first, *words = name.split("_")
    return first + "".join(_SPELT_OTHERWISE.get(word, word.capitalize()) for word in words)


def nearest(key: str, known: Iterable[str]) -> str:
    """Return words that begin a hint about a key that is not known: the one that was meant, perhaps, or nothing."""
    lowered = {name.lower(): name for name in known}
    found = get_close_matches(key.lower(), lowered, 1, 0.75)
    return f"{lowered[found[0]]}, perhaps, or " if found else ""


def note_unknown_keys(keys: Iterable[str], known: Iterable[str], *, strict: bool) -> None:
    """Tell of keys of a settings file that have no meaning: one that is misspelt sets nothing.

    Raises:
        ConfigError: there is one, and `strict` asks for it.
    """
    known = tuple(known)
    for key in keys:
        meant = nearest(key, known)
        if strict:
            raise ConfigError(
                "configFile", key, f"{meant}a key that RocketMQ 5.3.3 or orbitmq has; --no-strict starts all the same"
            )
        log.warning("the setting %s is not known and has no effect%s", key, f": {meant}nothing at all" if meant else "")


def fields_by_key(settings: type[DataclassInstance]) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a settings class under RocketMQ's keys."""
    return {java_key(spec.name): spec for spec in dataclasses.fields(settings)}


def parse_value(key: str, text: str, kind: object) -> Any:
    """Parse the text of one key; `kind` is its field's annotation as text.

    Raises:
        ConfigError: it is not what the key needs.
    """
    text = text.strip()
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ConfigError(key, text, "true or false")
        return text.lower() == "true"
    if kind == "int":
        if _WHOLE_NUMBER.fullmatch(text) is None:
            raise ConfigError(key, text, "a whole number")
        return int(text)
    if kind == "Path":
        if not text:
            raise ConfigError(key, text, "a path")
        return Path(text).expanduser()
    return text


def parse_addresses(key: str, text: str) -> tuple[str, ...]:
    """Parse a list of servers, `host:port` joined with `;`; none where the text is blank.

    Raises:
        ConfigError: one of them is not a host:port.
    """
    try:
        return parse_name_servers(text) if text.strip() else ()
    except InvalidArgument as error:
        raise ConfigError(key, error.value, error.allowed) from None


def check_bind_address(key: str, address: str) -> None:
    """Refuse an address to listen on that is empty: the system takes it for all of the host's.

    Raises:
        ConfigError: it is.
    """
    if not address.strip():
        raise ConfigError(key, address, "an address to listen on, 0.0.0.0 for all")


def format_values(settings: DataclassInstance) -> dict[str, str]:
    """Return RocketMQ's keys with the values in use, sorted."""
    found = {key: getattr(settings, spec.name) for key, spec in fields_by_key(type(settings)).items()}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in sorted(found.items())}


def check_values(settings: DataclassInstance, ranges: Mapping[str, tuple[int, int]]) -> None:
    """Check every number against its range, and every text for what would break a line of a file or a log.

    Raises:
        ConfigError: names the key, its value and what is allowed.
    """
    for name, (low, high) in ranges.items():
        value = getattr(settings, name)
        if type(value) is not int or not low <= value <= high:
            raise ConfigError(java_key(name), value, f"{low} to {high}")
    for spec in dataclasses.fields(settings):
        value = getattr(settings, spec.name)
        if isinstance(value, str) and not value.isprintable():
            raise ConfigError(java_key(spec.name), value, "printable characters")
