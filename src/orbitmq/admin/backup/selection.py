"""Which topics of a cluster a backup or a restore is about. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from fnmatch import fnmatchcase

from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import GROUP_LENGTH_MAX, is_name, kind_of


def is_selected(topic: str, patterns: Sequence[str]) -> bool:
    """Say whether a topic fits one of the patterns, as `orders*`; without patterns every topic does."""
    return not patterns or any(fnmatchcase(topic, pattern) for pattern in patterns)


def check_patterns(patterns: Sequence[str], topics: Collection[str]) -> None:
    """Raise InvalidArgument when a pattern fits none of the topics."""
    for pattern in patterns:
        if not any(fnmatchcase(topic, pattern) for topic in topics):
            raise InvalidArgument("topic", pattern, "a pattern that fits a topic there")


def is_saved(topic: str, own: Container[str], patterns: Sequence[str]) -> bool:
    """Say whether a backup takes a topic: those of users and groups, not those that brokers keep for themselves.

    Args:
        own: topics that are named after brokers and clusters.
    """
    is_legal = is_name(topic, GROUP_LENGTH_MAX)
    return is_legal and kind_of(topic, own) != "system" and is_selected(topic, patterns)
