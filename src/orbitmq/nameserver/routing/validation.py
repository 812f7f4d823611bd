"""The names that a NameServer accepts from brokers and administrators. Pure.

Brokers register topics that no user could create: their own host name, `%RETRY%group+topic` of pop consumers. So the
alphabet is a little wider than a user's topic (`model.topic.check_name`), and still has nothing in it that means
something to a shell, a path, a page or a log.

The topics in a broker's table are another matter: it has them since a version that allowed more, and their users have to
find it. Any text of one line is taken, and no two are taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected

LENGTH_MAX = 255
FILTER_SERVERS_MAX = 64
"""Filter servers of one broker: each route of each of its topics shows them all."""
MAPPINGS_MAX = 10_000
"""Static topics of one broker."""
MAPPING_SIZE_MAX = 16 * 1024
"""Bytes of one's mapping: each route of the topic shows those of all its brokers."""

_ALPHABET = "letters, digits and % | _ - . + : @ # = ~"
_NAME = re.compile(r"[%|a-zA-Z0-9_.+:@#=~-]{1,255}")
_TOPIC = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,255}")
"""No control characters, ends of lines, or halves of a character."""
_TOPICS = re.compile(rf"{_TOPIC.pattern}(?:\n{_TOPIC.pattern})*+")


def check_registered_name(kind: str, name: str) -> str:
    """Return a name or address that may be registered.

    Raises:
        InvalidArgument: empty, longer than 255 characters, or with other characters.
    """
    if not is_registered_name(name):
        raise InvalidArgument(kind, name, f"1 to {LENGTH_MAX} characters, only {_ALPHABET}")
    return name


def check_length(kind: str, value: str | None) -> None:
    """Refuse a text that is kept, and shown in answers, when it is longer than a name.

    Raises:
        Rejected: longer than 255 characters.
    """
    if value is not None and len(value) > LENGTH_MAX:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{kind} has {len(value)} characters, at most {LENGTH_MAX} are taken")


def check_filter_servers(addresses: Sequence[str] | None) -> None:
    """Refuse a broker's filter servers when there are too many, or one's address is too long.

    Raises:
        Rejected: more than 64, or one longer than 255 characters.
    """
    if not addresses:
        return
    if len(addresses) > FILTER_SERVERS_MAX:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            f"filterServerList has {len(addresses)} addresses, at most {FILTER_SERVERS_MAX} are taken",
        )
    for address in addresses:
        check_length("an address in filterServerList", address)


def check_queue_mappings(mappings: Any) -> None:
    """Refuse static-topic mappings, which answers show as they came, unless those answers can be made and read.

    Raises:
        InvalidArgument: a topic or broker name that may not be registered.
        Rejected: no table of objects, too many, or one too large.
    """
    if not mappings:
        return
    if not isinstance(mappings, dict) or len(mappings) > MAPPINGS_MAX:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"topicQueueMappingInfoMap: at most {MAPPINGS_MAX} objects are taken")
    for topic, mapping in mappings.items():
        check_registered_name("topic", topic)
        _check_mapping(mapping)


def _check_mapping(mapping: Any) -> None:
    broker_name = mapping.get("bname") if isinstance(mapping, dict) else 0
    if broker_name and isinstance(broker_name, str):
        check_registered_name("bname", broker_name)
    elif broker_name is not None and broker_name != "":
        raise Rejected(ResponseCode.SYSTEM_ERROR, "topicQueueMappingInfoMap: objects with the text bname are expected")
    size = len(orjson.dumps(mapping, option=orjson.OPT_NON_STR_KEYS))
    if size > MAPPING_SIZE_MAX:
        raise Rejected(
            ResponseCode.SYSTEM_ERROR,
            f"topicQueueMappingInfoMap has an object of {size} bytes, at most {MAPPING_SIZE_MAX} are taken",
        )


def is_registered_name(name: str) -> bool:
    """Return True if `check_registered_name` takes a name."""
    return _NAME.fullmatch(name) is not None and ".." not in name


def illegal_topics(names: Iterable[str]) -> frozenset[str]:
    """Return those of many topics of a broker's table that are not 1 to 255 characters of one line of text."""
    names = tuple(names)
    joined = "\n".join(names)
    # A name with a line feed of its own would pass as two.
    if joined.count("\n") < len(names) and _TOPICS.fullmatch(joined) is not None:
        return frozenset()
    return frozenset(name for name in names if _TOPIC.fullmatch(name) is None)
