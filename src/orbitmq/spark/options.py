"""The options of the data source: strings in, frozen values out.

Pure, except that the file which securityFile names is looked into, so that what is wrong with it is said when the query is
made. Names are case-insensitive, as Spark's are. A name that is none of ours is an error that says which one was meant: an
option that is silently ignored costs more than one that is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.filter.sql92 import check_sql92
from orbitmq.model.delay_levels import DELAY_LEVELS_MAX, DELAY_LEVELS_TEXT
from orbitmq.model.group import SUBSCRIBE_ALL
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import check_name, is_reserved_topic
from orbitmq.spark.given_options import (
    DEFAULT_GROUP,
    INT32_MAX,
    GivenOptions,
    checked_group,
    parse_duration,
    parse_queue_offsets,
    parse_timestamp,
)
from orbitmq.spark.offsets import (
    EARLIEST,
    Bound,
    Committed,
    Earliest,
    Latest,
    QueueTimes,
    parse_queues,
)

DEFAULT_ONCE_GROUP = "orbitmq-spark-exactly-once"
"""The producer group of half messages; a plain producer in it would be asked about them, and has no answer."""
DEFAULT_MARKER_TOPIC = "orbitmq-spark-markers"
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"
TAG_SEPARATOR = "||"
TAG, SQL92 = "TAG", "SQL92"

READ_OPTIONS = (
    "nameServer",
    "securityFile",
    "topic",
    "topics",
    "topicPattern",
    "assign",
    "columns",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "timeZone",
    "subscription",
    "expressionType",
    "group",
    "groupIdPrefix",
    "commitOffsets",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeBody",
    "includeDecodeError",
    "localReads",
    "pullBatchSize",
    "pullOutstanding",
    "pullTimeoutMs",
    "retries",
    "brokerTimeoutMs",
    "offsetPollMs",
)
STREAM_OPTIONS = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "commitOffsets",
)
"""Those that a batch cannot keep to."""
WRITE_OPTIONS = (
    "nameServer",
    "securityFile",
    "topic",
    "group",
    "sendTimeoutMs",
    "brokerTimeoutMs",
    "retries",
    "sendOutstanding",
    "rowIds",
    "delayLevelMax",
    "delivery",
    "runId",
    "markerTopic",
    "markerBroker",
    "commitTimeoutMs",
    "failOnDataLoss",
)


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options of a read.

    Exactly one of `topics` and `topic_pattern` is given; of their queues only those of `assigned` are read, if there are
    any. Counts are messages, times milliseconds.
    """

    name_servers: tuple[str, ...]
    security_file: str | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    assigned: frozenset[MessageQueue] | None = None
    columns: tuple[str, ...] | None = None
    start: Bound
    end: Bound = Latest()
    tags: frozenset[str] | None = None
    sql: str | None = None
    group: str = DEFAULT_GROUP
    commits_offsets: bool = False
    offsets_per_trigger_max: int | None = None
    bytes_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_ms: int = 15 * 60_000
    partition_count_min: int | None = None
    partition_record_count_max: int | None = None
    fail_on_data_loss: bool = True
    include_body: bool = True
    include_decode_error: bool = False
    local_stores: tuple[str, ...] = ()
    pull_count: int = 1024
    pull_outstanding: int = 4
    pull_timeout_ms: int = 10_000
    retries: int = 3
    broker_timeout_ms: int = 60_000
    offset_poll_ms: int = 100

    @property
    def subscription(self) -> str:
        """The expression that travels to brokers."""
        if self.sql is not None:
            return self.sql
        return SUBSCRIBE_ALL if self.tags is None else f" {TAG_SEPARATOR} ".join(sorted(self.tags))

    @property
    def expression_type(self) -> str:
        """What kind of expression `subscription` is."""
        return TAG if self.sql is None else SQL92

    @property
    def is_filtered(self) -> bool:
        """True when brokers pass over messages: then a gap between offsets says nothing."""
        return self.tags is not None or self.sql is not None


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The options of a write.

    `topic` is for rows that name none; `row_ids` adds the property that makes repeats recognisable; rows with a
    higher `delayLevel` than `delay_level_max` are refused. `run_id`, `marker_topic`, `marker_broker`, `commit_timeout_ms`
    and `fail_on_data_loss` are for `exactly_once`; `run_id` names a batch over all runs of its program. A marker topic that
    is missing is created on `marker_broker`, if that is named.
    """

    name_servers: tuple[str, ...]
    security_file: str | None = None
    topic: str | None = None
    group: str = DEFAULT_GROUP
    send_timeout_ms: int = 10_000
    broker_timeout_ms: int = 60_000
    retries: int = 3
    send_outstanding: int = 10_000
    row_ids: bool = True
    delay_level_max: int = len(DELAY_LEVELS_TEXT.split())
    exactly_once: bool = False
    run_id: str | None = None
    marker_topic: str = DEFAULT_MARKER_TOPIC
    marker_broker: str | None = None
    commit_timeout_ms: int = 600_000
    fail_on_data_loss: bool = True


def parse_read_options(options: Mapping[str, str], *, streaming: bool | None, query_id: str = "") -> ReadOptions:
    """Parse the options of `spark.read` or `spark.readStream`.

    Args:
        options: as they were given, with names in any case.
        streaming: None while that is not known; then the two are not told apart.
        query_id: stands behind groupIdPrefix; the same in the driver and in every task of a query.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    given = GivenOptions(options, READ_OPTIONS, query_id)
    topics, pattern, assigned = _parse_queues(given)
    tags, sql = _parse_filter(given)
    given.zone()  # a wrong one is an error in every query
    start = _parse_bound(given, "starting", Latest() if streaming else Earliest())
    end = _parse_bound(given, "ending", Latest())
    if streaming is False and start == Latest():
        raise ConfigError("startingOffsets", "latest", "earliest, a timestamp or JSON: a batch ends at latest")
    if end == Earliest():
        raise ConfigError("endingOffsets", "earliest", "latest, a timestamp or JSON: a batch begins at earliest")
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and name in given:
            raise ConfigError(name, given[name], "a batch query: a stream has no end")
    for name in STREAM_OPTIONS:
        if streaming is False and name in given:
            raise ConfigError(name, given[name], "a streaming query")
    return ReadOptions(
        name_servers=given.name_servers(),
        security_file=given.security_file(),
        topics=topics,
        topic_pattern=pattern,
        assigned=assigned,
        columns=_parse_columns(given),
        start=start,
        end=end,
        tags=tags,
        sql=sql,
        group=given.group(),
        commits_offsets=given.boolean("commitOffsets", False),
        offsets_per_trigger_max=given.optional_number("maxOffsetsPerTrigger", 1, 2**63 - 1),
        bytes_per_trigger_max=given.optional_number("maxBytesPerTrigger", 1, 2**63 - 1),
        offsets_per_trigger_min=_parse_least(given),
        trigger_delay_ms=parse_duration("maxTriggerDelay", given.get("maxTriggerDelay", "15m") or ""),
        partition_count_min=given.optional_number("minPartitions", 1, 100_000),
        partition_record_count_max=given.optional_number("maxRecordsPerPartition", 1, 2**63 - 1),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        include_body=given.boolean("includeBody", True),
        include_decode_error=given.boolean("includeDecodeError", False),
        local_stores=_parse_local_stores(given),
        pull_count=given.number("pullBatchSize", ReadOptions.pull_count, 1, 65_536),
        pull_outstanding=given.number("pullOutstanding", ReadOptions.pull_outstanding, 1, 64),
        pull_timeout_ms=given.number("pullTimeoutMs", ReadOptions.pull_timeout_ms, 1, INT32_MAX),
        retries=given.number("retries", ReadOptions.retries, 0, 1000),
        broker_timeout_ms=given.number("brokerTimeoutMs", ReadOptions.broker_timeout_ms, 0, INT32_MAX),
        offset_poll_ms=given.number("offsetPollMs", ReadOptions.offset_poll_ms, 0, INT32_MAX),
    )


def parse_write_options(options: Mapping[str, str], *, streaming: bool | None = None) -> WriteOptions:
    """Parse the options of `df.write` or `df.writeStream`.

    Args:
        options: as they were given, with names in any case.
        streaming: None where neither is meant; then the two are not told apart.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    given = GivenOptions(options, WRITE_OPTIONS)
    topic = given.get("topic")
    exactly_once = _parse_delivery(given)
    return WriteOptions(
        name_servers=given.name_servers(),
        security_file=given.security_file(),
        topic=None if topic is None else _checked_topic("topic", topic),
        group=given.group(DEFAULT_ONCE_GROUP if exactly_once else DEFAULT_GROUP),
        send_timeout_ms=given.number("sendTimeoutMs", WriteOptions.send_timeout_ms, 1, INT32_MAX),
        broker_timeout_ms=given.number("brokerTimeoutMs", WriteOptions.broker_timeout_ms, 0, INT32_MAX),
        retries=given.number("retries", WriteOptions.retries, 0, 1000),
        send_outstanding=given.number("sendOutstanding", WriteOptions.send_outstanding, 1, 1_000_000),
        row_ids=given.boolean("rowIds", not exactly_once),
        delay_level_max=given.number("delayLevelMax", WriteOptions.delay_level_max, 1, DELAY_LEVELS_MAX),
        exactly_once=exactly_once,
        run_id=_parse_run_id(given, exactly_once, streaming),
        marker_topic=_checked_topic("markerTopic", given.get("markerTopic") or DEFAULT_MARKER_TOPIC),
        marker_broker=given.get("markerBroker"),
        commit_timeout_ms=given.number("commitTimeoutMs", WriteOptions.commit_timeout_ms, 1, INT32_MAX),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
    )


def _parse_delivery(given: GivenOptions) -> bool:
    """Return True if rows are to arrive exactly once."""
    value = given.get("delivery", AT_LEAST_ONCE)
    exactly_once = value == EXACTLY_ONCE
    if not exactly_once and value != AT_LEAST_ONCE:
        raise ConfigError("delivery", value, f"{AT_LEAST_ONCE} or {EXACTLY_ONCE}")
    for name in ("markerTopic", "markerBroker", "commitTimeoutMs"):
        if name in given and not exactly_once:
            raise ConfigError(name, given[name], f"delivery {EXACTLY_ONCE}")
    return exactly_once


def _parse_run_id(given: GivenOptions, exactly_once: bool, streaming: bool | None) -> str | None:
    """Return the id of a batch's run, without which a program that is run again would send its rows again."""
    run_id = given.get("runId")
    if run_id is None:
        if exactly_once and streaming is False:
            allowed = "an id of this batch, as orders-2026-11-25: a second run with the same id sends nothing twice"
            raise ConfigError("runId", None, allowed)
        return None
    if not exactly_once:
        raise ConfigError("runId", run_id, f"delivery {EXACTLY_ONCE}")
    if streaming:
        raise ConfigError("runId", run_id, "a batch: a stream has its checkpoint")
    return checked_group("runId", run_id)


def parse_topics(given: GivenOptions) -> tuple[tuple[str, ...], str | None]:
    """Return the topics that are named, or the pattern that names them."""
    named = [name for name in ("topic", "topics", "topicPattern") if name in given]
    if len(named) != 1:
        raise ConfigError("topic", named or None, "exactly one of the options topic, topics (a,b,c) and topicPattern")
    (option,) = named
    value = given[option]
    if option == "topicPattern":
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(option, value, f"a regular expression ({error})") from error
        return (), value
    topics = [value] if option == "topic" else [topic.strip() for topic in value.split(",") if topic.strip()]
    if not topics:
        raise ConfigError(option, value, "at least one topic, several split by commas")
    return tuple(dict.fromkeys(_checked_topic(option, topic) for topic in topics)), None


def matches_pattern(topic: str, pattern: str) -> bool:
    """Return True if a topic's whole name matches `pattern`.

    RocketMQ's own topics never match; retry and dead-letter topics only where the pattern begins with their %.
    """
    return bool(
        re.fullmatch(pattern, topic)
        and not is_reserved_topic(topic)
        and (pattern.startswith("%") or not topic.startswith("%"))
    )


def _checked_topic(option: str, topic: str) -> str:
    try:
        return check_name("topic", topic)
    except InvalidArgument as error:
        hint = "; the option topics takes several, split by commas" if option == "topic" and "," in topic else ""
        raise ConfigError(option, topic, error.allowed + hint) from error


def _parse_queues(given: GivenOptions) -> tuple[tuple[str, ...], str | None, frozenset[MessageQueue] | None]:
    """Return the topics, the pattern, and the queues that are assigned."""
    if "assign" not in given:
        return (*parse_topics(given), None)
    for name in ("topic", "topics", "topicPattern"):
        if name in given:
            raise ConfigError(name, given[name], "exactly one of it and assign")
    try:
        queues = parse_queues(orjson.loads(given["assign"]))
    except (orjson.JSONDecodeError, InvalidArgument) as error:
        raise ConfigError("assign", given["assign"], f'JSON like {{"topic":{{"broker":[0,1]}}}} ({error})') from error
    if not queues:
        raise ConfigError("assign", given["assign"], "at least one queue")
    return tuple(sorted({_checked_topic("assign", queue.topic) for queue in queues})), None, queues


def _parse_local_stores(given: GivenOptions) -> tuple[str, ...]:
    """Return the directories below which brokers' files may be read: absolute paths; none: files are not read."""
    value = given.get("localReads", "false") or ""
    if value.strip().lower() == "false":
        return ()
    paths = [path.strip() for path in value.split(",")]
    if not all(path.startswith("/") and "\0" not in path for path in paths):
        allowed = "false, or the absolute paths of directories with brokers' stores, split by commas: /var/lib/orbitmq"
        raise ConfigError("localReads", value, allowed)
    return tuple(paths)


def _parse_columns(given: GivenOptions) -> tuple[str, ...] | None:
    """Return the columns that are wanted, by their names; which there are is known to the schema."""
    if "columns" not in given:
        return None
    for other in ("includeBody", "includeDecodeError"):
        if other in given:
            raise ConfigError(other, given[other], "only one of it and columns")
    names = [name.strip() for name in given["columns"].split(",")]
    if "" in names or len(set(names)) < len(names):
        raise ConfigError("columns", given["columns"], "columns split by commas, each once")
    return tuple(names)


def _parse_bound(given: GivenOptions, side: str, default: Bound) -> Bound:
    """Return where reading starts or ends: at most one option says it."""
    named = [name for name in (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp") if name in given]
    if len(named) > 1:
        raise ConfigError(named[0], given[named[0]], f"only one of it and {named[1]}")
    if not named:
        return default
    (option,) = named
    text = given[option]
    if option.endswith("ByTimestamp"):
        return QueueTimes(parse_queue_offsets(option, text, 0))
    if option.endswith("Timestamp"):
        return parse_timestamp(option, text, given.zone())
    word, _, group = text.strip().partition(":")
    match word.lower():
        case "":
            return default
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case "committed":
            return Committed(checked_group(option, group) if group else given.group())
    if text.lstrip().startswith("{"):
        return parse_queue_offsets(option, text, EARLIEST)
    return parse_timestamp(option, text, given.zone())


def _parse_least(given: GivenOptions) -> int | None:
    least = given.optional_number("minOffsetsPerTrigger", 1, 2**63 - 1)
    most = given.optional_number("maxOffsetsPerTrigger", 1, 2**63 - 1)
    if least is not None and most is not None and least > most:
        raise ConfigError("minOffsetsPerTrigger", str(least), f"at most maxOffsetsPerTrigger, {most}")
    return least


def _parse_filter(given: GivenOptions) -> tuple[frozenset[str] | None, str | None]:
    """Return the tags that are wanted, or the SQL92 expression that brokers evaluate."""
    kind = (given.get("expressionType") or TAG).upper()
    expression = given.get("subscription")
    if kind == TAG:
        return parse_subscription(expression), None
    if kind != SQL92:
        raise ConfigError("expressionType", given["expressionType"], "TAG or SQL92")
    try:
        check_sql92(expression or "")
    except InvalidArgument as error:
        raise ConfigError("subscription", expression, f"a SQL92 expression ({error})") from error
    return None, expression


def _is_tag(value: object) -> bool:
    """Return True if a subscription can name a tag."""
    return isinstance(value, str) and value != "" and not any(part in value for part in (SUBSCRIBE_ALL, " ", "|"))


def parse_subscription(expression: str | None) -> frozenset[str] | None:
    """Return the tags of an expression like `a || b`, None for all messages."""
    if expression is None or expression.strip() in ("", SUBSCRIBE_ALL):
        return None
    tags = frozenset(tag.strip() for tag in expression.split(TAG_SEPARATOR))
    if not all(_is_tag(tag) for tag in tags):
        raise ConfigError("subscription", expression, "*, one tag, or tags split by ||")
    return tags
