"""The options of the data source as they were given: found by their names, parsed one by one.

Names are case-insensitive, as Spark's are. A name that is none of ours is an error that says which one was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from orbitmq.address import parse_name_servers
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import GROUP_LENGTH_MAX, check_name
from orbitmq.spark.offsets import INT64_MAX, Timestamp, parse_offsets
from orbitmq.spark.security import read_security

DEFAULT_GROUP = "orbitmq-spark"
"""One group for all reads: brokers that create groups as they meet them would keep a random one for ever."""
INT32_MAX = 2**31 - 1
_MS_OF_UNIT = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
ALIASES = {
    "subexpression": "subscription",
    "pulltimeout": "pullTimeoutMs",
    "subscribe": "topics",
    "subscribepattern": "topicPattern",
    "kafka.group.id": "group",
}
"""Names of the old connector, and of Kafka's, in lower case, that are spelled differently here."""
KAFKA_OPTIONS = {
    "kafka.bootstrap.servers": ("nameServer", "the addresses of NameServers, not of brokers"),
    "kafka.security.": ("securityFile", "TLS settings, in a file"),
    "kafka.ssl.": ("securityFile", "certificates, in a file"),
    "kafka.sasl.": ("securityFile", "an access key, in a file"),
    "kafka.isolation.level": (None, "readers see committed messages only"),
    "kafka.acks": (None, "brokers decide what they acknowledge: flushDiskType, brokerRole"),
    "kafka.delivery.timeout.ms": ("sendTimeoutMs", "over all attempts"),
    "kafka.": (None, "a Kafka client's setting, and there is none here"),
    "kafkaConsumer.pollTimeoutMs": ("pullTimeoutMs", "of each pull"),
    "fetchOffset.numRetries": ("brokerTimeoutMs", "retries end by time"),
    "fetchOffset.retryIntervalMs": ("brokerTimeoutMs", "retries end by time"),
    "startingOffsetsByTimestampStrategy": (None, "a queue without a message so late begins at its end"),
    "includeHeaders": (
        "columns",
        "the column properties is there unless columns leaves it out; a sink takes it always",
    ),
}
"""What stands here for an option of Kafka's connector that is not ALIASES' or ours: our option, and in which sense. A
name with a dot at its end is for all that begin so."""
SPARK_OPTIONS = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""What Spark itself puts among the options of a source or a sink."""


class GivenOptions:
    """The options as they were given, by their proper names."""

    def __init__(self, options: Mapping[str, str], allowed: tuple[str, ...], query_id: str = "") -> None:
        proper = {name.lower(): name for name in allowed}
        proper |= {alias: name for alias, name in ALIASES.items() if name in allowed}
        self._query_id = query_id
        self._values: dict[str, str] = {}
        for name, value in options.items():
            if name.lower() in proper:
                self._values[proper[name.lower()]] = value
            elif name.lower() not in SPARK_OPTIONS:
                raise ConfigError("option", name, _suggestion(name, allowed))

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the text of an option, `default` where it was not given."""
        return self._values.get(name, default)

    def name_servers(self) -> tuple[str, ...]:
        """Return the addresses of the NameServers."""
        value = self.get("nameServer")
        if not value:
            raise ConfigError("nameServer", value, "host:port of at least one NameServer, several split by ;")
        try:
            return parse_name_servers(value)
        except InvalidArgument as error:
            raise ConfigError("nameServer", value, error.allowed) from error

    def security_file(self) -> str | None:
        """Return the file's name, not what it says: options travel to executors, and into plans."""
        name = self.get("securityFile")
        if name is not None and not name.strip():
            raise ConfigError("securityFile", name, "the path of a properties file")
        try:
            read_security(name)
        except ConfigError as error:
            # Its field is a key of the file, or the file itself.
            where = "securityFile" if error.field == "securityFile" else f"securityFile {error.field}"
            raise ConfigError(where, error.value, error.allowed) from None
        return name

    def group(self, default: str = DEFAULT_GROUP) -> str:
        """Return the name of the consumer group; the query's own where only its prefix was given."""
        if "groupIdPrefix" in self and "group" not in self:
            return checked_group("groupIdPrefix", f"{self['groupIdPrefix']}-{self._query_id}")
        return checked_group("group", self.get("group") or default)

    def zone(self) -> tzinfo:
        """Return the zone of times that name none; UTC where it was not given: Spark does not tell the session's."""
        return parse_zone("timeZone", self.get("timeZone", "UTC") or "")

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number between `least` and `most`."""
        return default if name not in self else self._parse_number(name, least, most)

    def optional_number(self, name: str, least: int, most: int) -> int | None:
        """Return a whole number between `least` and `most`, None where it was not given."""
        return None if name not in self else self._parse_number(name, least, most)

    def _parse_number(self, name: str, least: int, most: int) -> int:
        value = self._values[name]
        try:
            number = int(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ConfigError(name, value, f"a whole number from {least} to {most}")
        return number

    def boolean(self, name: str, default: bool) -> bool:
        """Return True if a switch is on."""
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(name, value, "true or false")
        return value.lower() == "true"


def _suggestion(name: str, allowed: tuple[str, ...]) -> str:
    lower = name.lower()
    known = [key for key in KAFKA_OPTIONS if lower == key.lower() or (key[-1] == "." and lower.startswith(key))]
    if known:
        option, sense = KAFKA_OPTIONS[max(known, key=len)]
        instead = f"the option {option} in place of Kafka's" if option else "no such option"
        return f"{instead}: {sense}"
    close = get_close_matches(name.lower(), [option.lower() for option in allowed], n=1, cutoff=0.5)
    meant = next((option for option in allowed if close and option.lower() == close[0]), None)
    others = f"one of {', '.join(allowed)}"
    return f"{meant} (did you mean that?), or {others}" if meant else others


def checked_group(option: str, group: str) -> str:
    """Return the name of a group, or raise ConfigError."""
    try:
        return check_name("group", group, GROUP_LENGTH_MAX)
    except InvalidArgument as error:
        raise ConfigError(option, error.value, error.allowed) from error


def parse_queue_offsets(option: str, text: str, least: int) -> dict[MessageQueue, int]:
    """Return the offset of each queue that a JSON text names, none below `least`. Raises ConfigError."""
    try:
        return parse_offsets(orjson.loads(text), least)
    except (orjson.JSONDecodeError, InvalidArgument) as error:
        raise ConfigError(option, text, f'JSON like {{"topic":{{"broker":{{"0":42}}}}}} ({error})') from error


def parse_zone(option: str, text: str) -> tzinfo:
    """Return the zone that an option names by its region or by its distance from UTC.

    Raises:
        ConfigError: this machine knows no such zone.
    """
    if text == "UTC":
        return UTC
    try:
        if text[:1] in ("Z", "+", "-") and (offset := datetime.fromisoformat(f"1970-01-01T00:00{text}").tzinfo):
            return offset
        return ZoneInfo(text)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise ConfigError(option, text, "a zone, as UTC, Europe/Berlin, +02:00") from None


def parse_timestamp(option: str, text: str, zone: tzinfo = UTC) -> Timestamp:
    """Return the time that an option's text spells.

    Args:
        zone: of a text that names none.
    """
    if text.strip().isdecimal():
        if int(text) > INT64_MAX:
            raise ConfigError(option, text, f"at most {INT64_MAX} milliseconds since 1970")
        return Timestamp(int(text))
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        wanted = "milliseconds since 1970 or an ISO 8601 time"
        also = "" if option.endswith("Timestamp") else "earliest, latest, committed, JSON, "
        raise ConfigError(option, text, also + wanted) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    return Timestamp(max(0, round(moment.timestamp() * 1000)))


def parse_duration(option: str, text: str) -> int:
    """Return the milliseconds that a duration spells, in Spark's form: `15m`, `30s`, `500ms`; bare numbers are ms."""
    found = re.fullmatch(r"(\d{1,12}) *(ms|s|m|min|h|d|)", text.strip().lower(), re.ASCII)
    if found is None:
        raise ConfigError(option, text, "a time like 500ms, 30s, 15m, 1h or 1d")
    return int(found[1]) * _MS_OF_UNIT[found[2]]
