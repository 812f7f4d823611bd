"""The tables of one broker as a backup keeps them: topics, groups, offsets; users and rules apart from them; and which of
its topics are chosen. Pure.

Source: docs/formats/backup.md.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import orjson

from orbitmq.errors import InvalidArgument
from orbitmq.model.access import Acl, User
from orbitmq.model.topic import GROUP_LENGTH_MAX, TopicConfig, check_name, is_name, kind_of
from orbitmq.wire.bodies.access import acl_document, parse_acl, parse_user, user_document
from orbitmq.wire.bodies.document import int32, items, number, parse_body, text
from orbitmq.wire.bodies.groups import GroupConfig, group_document, parse_group
from orbitmq.wire.bodies.registration import parse_topic, topic_document

_OPTIONS = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS


class GroupTopic(NamedTuple):
    """A group and a topic that it has read of."""

    topic: str
    group: str


class BrokerTables(NamedTuple):
    """What one broker told of itself; `offsets` holds committed queue offsets by queue id."""

    topics: Mapping[str, TopicConfig]
    groups: Mapping[str, GroupConfig]
    offsets: Mapping[GroupTopic, Mapping[int, int]]


class AccessTables(NamedTuple):
    """Users, with the passwords that the broker gave, and their rules."""

    users: tuple[User, ...]
    rules: tuple[Acl, ...]


NO_ACCESS = AccessTables((), ())


def is_selected(topic: str, patterns: Sequence[str]) -> bool:
    """Return True if a topic fits one of the patterns, as `orders*`; without patterns every topic does."""
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def check_patterns(patterns: Sequence[str], topics: Collection[str]) -> None:
    """Raise InvalidArgument when a pattern fits none of the topics."""
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise InvalidArgument("topic", pattern, "a pattern that fits a topic there")


def is_saved(topic: str, own: Container[str], patterns: Sequence[str]) -> bool:
    """Return True if a backup has a topic: those of users and groups, not those that brokers keep for themselves.

    Args:
        own: topics that are named after brokers and clusters.
    """
    is_legal = is_name(topic, GROUP_LENGTH_MAX)
    return is_legal and kind_of(topic, own) != "system" and is_selected(topic, patterns)


def parse_offset_key(key: str) -> GroupTopic | None:
    """Return what a broker's `topic@group` names; None where one of the two is not a legal name."""
    topic, _, group = key.partition("@")
    try:
        return GroupTopic(check_name("topic", topic, GROUP_LENGTH_MAX), check_name("group", group, GROUP_LENGTH_MAX))
    except InvalidArgument:
        return None


def encode_tables(tables: BrokerTables) -> bytes:
    """Encode a broker's tables as a JSON document."""
    document = {
        "topics": {name: topic_document(config) for name, config in sorted(tables.topics.items())},
        "groups": {name: group_document(config) for name, config in sorted(tables.groups.items())},
        "offsets": [
            {"topic": key.topic, "group": key.group, "queues": {str(id): at for id, at in sorted(queues.items())}}
            for key, queues in sorted(tables.offsets.items())
        ],
    }
    return orjson.dumps(document, option=_OPTIONS)


def decode_tables(content: bytes) -> BrokerTables:
    """Decode a broker's tables.

    Raises:
        HeaderError: they are none, or hold a name that none may have.
    """
    return parse_body("tables", content, _parse_tables)


def encode_access(access: AccessTables) -> bytes:
    """Encode users and rules as a JSON document. It holds secrets."""
    document = {"users": list(map(user_document, access.users)), "rules": list(map(acl_document, access.rules))}
    return orjson.dumps(document, option=_OPTIONS)


def decode_access(content: bytes) -> AccessTables:
    """Decode users and rules.

    Raises:
        HeaderError: they are none.
    """
    return parse_body(
        "users and rules",
        content,
        lambda document: AccessTables(
            tuple(map(parse_user, items(document["users"]))), tuple(map(parse_acl, items(document["rules"])))
        ),
    )


def _parse_tables(document: dict[str, Any]) -> BrokerTables:
    topics = {name: parse_topic(config) for name, config in document["topics"].items()}
    groups = {name: parse_group(config) for name, config in document["groups"].items()}
    for name, topic in topics.items():
        if check_name("topic", name, GROUP_LENGTH_MAX) != topic.topic:
            raise ValueError(f"the topic {name} has the settings of {topic.topic!r:.80}")
    for name, group in groups.items():
        if check_name("group", name, GROUP_LENGTH_MAX) != group.group:
            raise ValueError(f"the group {name} has the settings of {group.group!r:.80}")
    offsets = {}
    for found in document["offsets"]:
        key = parse_offset_key(f"{text(found['topic'])}@{text(found['group'])}")
        if key is None:
            raise ValueError(f"offsets of {found['group']!r:.80} in {found['topic']!r:.80}: names that none may have")
        offsets[key] = {int32(queue_id): number(offset) for queue_id, offset in found["queues"].items()}
        if min(offsets[key], default=0) < 0:
            raise ValueError(f"offsets of {key.group} in {key.topic}: queue {min(offsets[key])}, at least 0")
    return BrokerTables(topics, groups, offsets)
