"""The options of a read of the CommitLog's files: strings in, frozen values out. Options about brokers are not allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orbitmq.errors import ConfigError
from orbitmq.spark.given_options import GivenOptions, parse_timestamp
from orbitmq.spark.options import matches_pattern, parse_subscription, parse_topics

PATH_OPTION = "commitLogPath"
FILE_OPTIONS = (
    PATH_OPTION,
    "topic",
    "topics",
    "topicPattern",
    "brokerName",
    "startingTimestamp",
    "endingTimestamp",
    "timeZone",
    "subscription",
    "minPartitions",
    "failOnDataLoss",
    "includeBody",
    "includeDecodeError",
)


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """The options of a read of files.

    Without `topics` and `topic_pattern` every topic is read. Times are store times in ms; `end_ms` is exclusive.
    """

    path: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    broker_name: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    tags: frozenset[str] | None = None
    partition_count_min: int | None = None
    fail_on_data_loss: bool = True
    include_body: bool = True
    include_decode_error: bool = False

    def wants_topic(self, topic: str) -> bool:
        """Return True if the messages of a topic are to be read."""
        if self.topic_pattern is not None:
            return matches_pattern(topic, self.topic_pattern)
        return not self.topics or topic in self.topics


def has_log_path(options: Mapping[str, str]) -> bool:
    """Return True if a query's options name a log directory."""
    return any(name.lower() == PATH_OPTION.lower() for name in options)


def check_no_log_path(options: Mapping[str, str]) -> None:
    """Raise ConfigError if a stream's options name a log directory: its files do not show what is confirmed, and when."""
    if has_log_path(options):
        raise ConfigError(PATH_OPTION, "a streaming query", "a batch query: a stream reads topics from brokers")


def parse_file_options(options: Mapping[str, str]) -> FileOptions:
    """Parse the options of `spark.read` with commitLogPath.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    given = GivenOptions(options, FILE_OPTIONS)
    path = given[PATH_OPTION].strip()
    if not path:
        raise ConfigError(PATH_OPTION, path, "a store's directory, or its commitlog")
    has_topics = any(name in given for name in ("topic", "topics", "topicPattern"))
    topics, pattern = parse_topics(given) if has_topics else ((), None)
    return FileOptions(
        path=path,
        topics=topics,
        topic_pattern=pattern,
        broker_name=given.get("brokerName"),
        start_ms=_time_ms(given, "startingTimestamp"),
        end_ms=_time_ms(given, "endingTimestamp"),
        tags=parse_subscription(given.get("subscription")),
        partition_count_min=given.optional_number("minPartitions", 1, 100_000),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        include_body=given.boolean("includeBody", True),
        include_decode_error=given.boolean("includeDecodeError", False),
    )


def _time_ms(given: GivenOptions, name: str) -> int | None:
    return parse_timestamp(name, given[name], given.zone()).ms if name in given else None
