"""Options: strings in, values out, errors that say what to type instead, and the security file."""

from __future__ import annotations

import pickle
from itertools import product

import pytest
from pyspark import SparkFiles

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.model.route import MessageQueue
from orbitmq.net.security.client_security import UNSECURED
from orbitmq.spark.given_options import ALIASES, KAFKA_OPTIONS
from orbitmq.spark.offsets import Committed, Earliest, Latest, QueueTimes, Timestamp
from orbitmq.spark.options import (
    READ_OPTIONS,
    WRITE_OPTIONS,
    ReadOptions,
    WriteOptions,
    parse_read_options,
    parse_write_options,
)
from orbitmq.spark.security import read_security
from orbitmq.wire.signature import Credentials

READ = {"nameServer": "127.0.0.1:9876", "topic": "orders"}


def read(streaming: bool = False, query_id: str = "7f", **options: str):
    return parse_read_options(READ | options, streaming=streaming, query_id=query_id)


def test_names_are_taken_in_any_case_and_the_rest_has_defaults():
    options = parse_read_options({"NAMESERVER": "h:1;i:2", "tOpIc": "orders"}, streaming=False)

    assert options.name_servers == ("h:1", "i:2")
    assert options.topics == ("orders",)
    assert (options.start, options.end) == (Earliest(), Latest())
    assert options.fail_on_data_loss
    assert options.subscription == "*"


def test_a_stream_begins_at_latest_unless_told_otherwise():
    assert read(streaming=True).start == Latest()
    assert read(streaming=True, startingOffsets="Earliest").start == Earliest()


@each_case(("nameServers", "nameServer"), ("startingOffset", "startingOffsets"), ("failondataloss_", "failOnDataLoss"))
def test_a_typo_is_named_with_the_option_that_was_meant(typo, meant):
    with pytest.raises(ConfigError, match=f"{typo}.*{meant} \\(did you mean"):
        read(**{typo: "x"})


def test_an_option_of_the_other_side_is_refused():
    with pytest.raises(ConfigError, match="rowIds"):
        read(rowIds="true")
    with pytest.raises(ConfigError, match="startingOffsets"):
        parse_write_options(READ | {"startingOffsets": "latest"})


def test_names_of_the_old_connector_still_work():
    assert read(subExpression="a", pullTimeout="5").tags == {"a"}
    assert read(pullTimeout="5").pull_timeout_ms == 5


def test_files_are_read_only_in_directories_that_are_named():
    assert read().local_stores == read(localReads="False").local_stores == ()
    assert read(localReads="/a/b/, /c/../d").local_stores == ("/a/b/", "/c/../d")


@each_case("true", "", "store", "/a,,/b", "/a\0", "~/store")
def test_directories_of_stores_are_absolute(value):
    with pytest.raises(ConfigError, match=r"localReads.*absolute paths"):
        read(localReads=value)


def test_what_spark_adds_is_no_typo():
    assert read(path="x", checkpointLocation="y").topics == ("orders",)


@each_case(
    ("1357002000000", Timestamp(1357002000000)),
    ("2013-01-01T01:00:00Z", Timestamp(1357002000000)),
    ("2013-01-01T01:00:00", Timestamp(1357002000000)),
    ("2013-01-01T02:00:00+01:00", Timestamp(1357002000000)),
    ('{"orders":{"a":{"0":-2,"1":7}}}', {MessageQueue("orders", "a", 0): -2, MessageQueue("orders", "a", 1): 7}),
)
def test_bounds_are_words_times_or_json(text, bound):
    assert read(startingOffsets=text).start == bound
    assert read(endingOffsets=text).end == bound


@each_case(("UTC", 1357002000000), ("Z", 1357002000000), ("Europe/Berlin", 1356998400000), ("-01:30", 1357007400000))
def test_a_time_without_a_zone_is_of_the_zone_that_is_given(zone, ms):
    options = read(startingTimestamp="2013-01-01T01:00:00", endingOffsets="2013-01-01T01:00:00Z", timeZone=zone)

    assert (options.start, options.end) == (Timestamp(ms), Timestamp(1357002000000))


def test_a_zone_has_its_summer_time():
    winter, summer = (
        read(startingTimestamp=f"2013-{day}T12:00:00", timeZone="Europe/Berlin").start.ms for day in ("01-01", "07-01")
    )

    assert winter == read(startingTimestamp="2013-01-01T11:00:00Z").start.ms
    assert summer == read(startingTimestamp="2013-07-01T10:00:00Z").start.ms


@each_case("", "Mars/Olympus", "2 h", "+25:00", "../../etc/passwd")
def test_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(ConfigError, match=r"timeZone.*UTC, Europe/Berlin, \+02:00"):
        read(startingTimestamp="2013-01-01T01:00:00", timeZone=zone)


def test_times_before_1970_are_the_first_that_brokers_know():
    assert read(startingTimestamp="0001-01-01").start == Timestamp(0)
    assert read(startingTimestamp="0001-01-01", timeZone="+14:00").start == Timestamp(0)


def test_timestamps_have_options_of_their_own():
    assert read(startingTimestamp="5", endingTimestamp="9").end == Timestamp(9)
    with pytest.raises(ConfigError, match="only one of it and startingTimestamp"):
        read(startingTimestamp="5", startingOffsets="earliest")


@each_case(
    ("startingOffsets", "newest"),
    ("startingOffsets", "latest"),
    ("endingOffsets", "earliest"),
    ("startingOffsets", '{"orders":{"a":{"0":"7"}}}'),
    ("startingOffsets", '{"orders":{"a":{"0":-3}}}'),
    ("startingOffsets", '{"orders":{"a":{"x":0}}}'),
    ("startingOffsets", '{"orders":[]}'),
    ("startingOffsets", '{"orders"'),
    ("minPartitions", "0"),
    ("minPartitions", "many"),
    ("maxOffsetsPerTrigger", "5"),
    ("failOnDataLoss", "yes"),
    ("pullBatchSize", "-1"),
    ("pullOutstanding", "65"),
    ("subscription", "a ||"),
    ("subscription", "a > 5"),
    ("group", "no spaces"),
    ("groupIdPrefix", "no spaces"),
    ("commitOffsets", "true"),
    ("maxBytesPerTrigger", "5"),
    ("minOffsetsPerTrigger", "5"),
    ("maxTriggerDelay", "5m"),
    ("columns", "topic,,body"),
    ("columns", "topic,topic"),
    ("expressionType", "XPATH"),
    ("startingOffsets", "committed:no spaces"),
    ("startingOffsetsByTimestamp", '{"orders":{"a":{"0":-1}}}'),
    ("endingOffsetsByTimestamp", "yesterday"),
    ("nameServer", ""),
    ("nameServer", "host:port"),
    ("startingTimestamp", str(2**63)),
    ("startingTimestamp", "\N{SUPERSCRIPT TWO}"),
    ("startingOffsets", f'{{"orders":{{"a":{{"0":{2**63}}}}}}}'),
    ("startingOffsetsByTimestamp", f'{{"orders":{{"a":{{"0":{2**63}}}}}}}'),
)
def test_a_bad_value_is_an_error_that_names_the_option(option, value):
    with pytest.raises(ConfigError) as caught:
        read(**{option: value})

    assert caught.value.field == option


def test_a_stream_has_no_end_but_a_limit():
    assert read(streaming=True, maxOffsetsPerTrigger="5").offsets_per_trigger_max == 5
    with pytest.raises(ConfigError, match="endingOffsets"):
        read(streaming=True, endingOffsets="latest")
    with pytest.raises(ConfigError, match="endingTimestamp"):
        read(streaming=True, endingTimestamp="5")


@each_case({}, {"topic": "a", "topics": "b"}, {"topic": ""}, {"topics": " , "}, {"topicPattern": "("}, {"topic": "a b"})
def test_topics_are_given_in_exactly_one_way(topics):
    with pytest.raises(ConfigError, match="topic"):
        parse_read_options({"nameServer": "h:1"} | topics, streaming=False)


def test_several_topics_in_the_option_of_one_are_told_where_they_belong():
    with pytest.raises(ConfigError, match="the option topics takes several"):
        parse_read_options({"nameServer": "h:1", "topic": "orders,returns"}, streaming=False)


@pytest.mark.real
def test_several_topics_and_patterns():
    assert parse_read_options({"nameServer": "h", "topics": "a, b,a"}, streaming=False).topics == ("a", "b")
    assert parse_read_options({"nameServer": "h", "topicPattern": "ord.*"}, streaming=False).topic_pattern == "ord.*"


def test_tags_are_split_and_joined():
    options = read(subscription="b||a ")

    assert options.tags == {"a", "b"}
    assert options.subscription == "a || b"
    assert read(subscription="*").tags is None


def test_options_carry_the_name_of_the_security_file_and_nothing_of_what_it_says(tmp_path):
    path = tmp_path / "mine.properties"
    path.touch(0o600)
    path.write_text("accessKey=operator\nsecretKey=hidden-secret\n")

    for options in (read(securityfile=str(path)), parse_write_options(READ | {"securityFile": str(path)})):
        assert options.security_file == str(path)
        assert b"hidden-secret" not in pickle.dumps(options)
        assert read_security(options.security_file).credentials == Credentials("operator", "hidden-secret")


@pytest.mark.parametrize("has_spark", [False, True])
@pytest.mark.parametrize("name", ["", " ", "/nowhere/mine.properties", "mine.properties"])
def test_a_security_file_that_is_not_there_is_an_error_that_names_it(name, has_spark, tmp_path, monkeypatch):
    def root() -> str:
        assert has_spark
        return str(tmp_path)

    monkeypatch.setattr(SparkFiles, "getRootDirectory", root)
    with pytest.raises(ConfigError, match=rf"securityFile: '{name}' is not allowed, expected .*properties file"):
        read(securityFile=name)


def test_a_sink_needs_no_topic():
    options = parse_write_options({"nameServer": "h:1", "sendTimeoutMs": "7", "rowIds": "FALSE"})

    assert (options.topic, options.send_timeout_ms, options.row_ids) == (None, 7, False)


def test_the_defaults_are_those_of_the_reference():
    assert read() == ReadOptions(
        name_servers=("127.0.0.1:9876",), security_file=None, topics=("orders",), topic_pattern=None, start=Earliest(),
        end=Latest(), tags=None, group="orbitmq-spark", offsets_per_trigger_max=None, partition_count_min=None,
        bytes_per_trigger_max=None, offsets_per_trigger_min=None, trigger_delay_ms=900_000, assigned=None, columns=None, sql=None, commits_offsets=False, partition_record_count_max=None,
        fail_on_data_loss=True, include_body=True, pull_count=1024, pull_outstanding=4, pull_timeout_ms=10_000,
        retries=3, broker_timeout_ms=60_000, offset_poll_ms=100,
    )  # fmt: skip
    assert parse_write_options({"nameServer": "h:1"}) == WriteOptions(
        name_servers=("h:1",), security_file=None, topic=None, group="orbitmq-spark", send_timeout_ms=10_000,
        retries=3, send_outstanding=10_000, row_ids=True, delay_level_max=18,
    )  # fmt: skip


LIMITS = [
    ("minPartitions", "partition_count_min", 1, 100_000),
    ("maxRecordsPerPartition", "partition_record_count_max", 1, 2**63 - 1),
    ("pullBatchSize", "pull_count", 1, 65_536),
    ("pullOutstanding", "pull_outstanding", 1, 64),
    ("pullTimeoutMs", "pull_timeout_ms", 1, 2**31 - 1),
    ("retries", "retries", 0, 1000),
    ("brokerTimeoutMs", "broker_timeout_ms", 0, 2**31 - 1),
    ("offsetPollMs", "offset_poll_ms", 0, 2**31 - 1),
]
STREAM_LIMITS = [
    ("maxOffsetsPerTrigger", "offsets_per_trigger_max", 1, 2**63 - 1),
    ("maxBytesPerTrigger", "bytes_per_trigger_max", 1, 2**63 - 1),
    ("minOffsetsPerTrigger", "offsets_per_trigger_min", 1, 2**63 - 1),
]
WRITE_LIMITS = [
    ("delayLevelMax", "delay_level_max", 1, 1000),
    ("sendTimeoutMs", "send_timeout_ms", 1, 2**31 - 1),
    ("brokerTimeoutMs", "broker_timeout_ms", 0, 2**31 - 1),
    ("retries", "retries", 0, 1000),
    ("sendOutstanding", "send_outstanding", 1, 1_000_000),
]


@each_case(
    *((lambda given: parse_read_options(given, streaming=False), *limits) for limits in LIMITS),
    *((lambda given: parse_read_options(given, streaming=True), *limits) for limits in STREAM_LIMITS),
    *((parse_write_options, *limits) for limits in WRITE_LIMITS),
)
def test_a_number_has_its_limits(parse, option, field, least, most):
    for value in (least, most):
        assert getattr(parse(READ | {option: str(value)}), field) == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=f"{option}.* expected a whole number from {least} to {most}"):
            parse(READ | {option: str(value)})


@each_case(("failOnDataLoss", "fail_on_data_loss"), ("includeBody", "include_body"))
def test_a_switch_is_true_or_false_in_any_case(option, field):
    assert getattr(read(**{option: "False"}), field) is False
    assert getattr(read(**{option: "TRUE"}), field) is True


def test_what_is_checked_only_for_a_batch_or_a_stream_passes_while_that_is_not_known():
    options = READ | {"startingOffsets": "latest", "maxOffsetsPerTrigger": "5", "endingOffsets": "latest"}

    assert parse_read_options(options, streaming=None).start == Latest()


def test_exactly_once_has_a_group_and_a_marker_topic_of_its_own():
    found = parse_write_options({"nameServer": "h:1", "delivery": "exactly-once"})

    assert (found.exactly_once, found.group, found.row_ids) == (True, "orbitmq-spark-exactly-once", False)
    assert (found.marker_topic, found.commit_timeout_ms, found.fail_on_data_loss) == (
        "orbitmq-spark-markers",
        600_000,
        True,
    )
    assert not parse_write_options({"nameServer": "h:1", "delivery": "at-least-once"}).exactly_once


def test_the_options_of_exactly_once_can_be_chosen():
    given = {"delivery": "exactly-once", "markerTopic": "m", "commitTimeoutMs": "7", "group": "g", "rowIds": "true"}
    given["failOnDataLoss"] = "false"
    found = parse_write_options({"nameServer": "h:1", "markerBroker": "a", **given})

    assert (found.marker_topic, found.commit_timeout_ms, found.group, found.row_ids) == ("m", 7, "g", True)
    assert not found.fail_on_data_loss
    assert found.marker_broker == "a"


@each_case(
    ({"delivery": "exactly_once"}, "delivery.*exactly-once"),
    ({"markerTopic": "m"}, "markerTopic.*exactly-once"),
    ({"markerBroker": "a"}, "markerBroker.*exactly-once"),
    ({"commitTimeoutMs": "7"}, "commitTimeoutMs.*exactly-once"),
    ({"delivery": "exactly-once", "markerTopic": "a b"}, "markerTopic"),
    ({"delivery": "exactly-once", "commitTimeoutMs": "0"}, "commitTimeoutMs"),
)
def test_what_exactly_once_cannot_use_is_refused(given, told):
    with pytest.raises(ConfigError, match=told):
        parse_write_options({"nameServer": "h:1", **given})


def once(**given: str):
    return {"nameServer": "h:1", "delivery": "exactly-once", **given}


def test_a_batch_that_is_written_exactly_once_names_its_run():
    assert parse_write_options(once(runId="orders-2026-11-25"), streaming=False).run_id == "orders-2026-11-25"
    assert parse_write_options({"nameServer": "h:1"}, streaming=False).run_id is None
    with pytest.raises(ConfigError, match=r"runId.*a second run with the same id sends nothing twice"):
        parse_write_options(once(), streaming=False)


def test_a_stream_that_is_written_exactly_once_needs_no_name_of_its_run():
    assert parse_write_options(once(), streaming=True).run_id is None
    with pytest.raises(ConfigError, match=r"runId.*a batch: a stream has its checkpoint"):
        parse_write_options(once(runId="r"), streaming=True)


def test_the_name_of_a_run_needs_exactly_once_and_is_a_name():
    with pytest.raises(ConfigError, match=r"runId.*delivery exactly-once"):
        parse_write_options({"nameServer": "h:1", "runId": "r"}, streaming=False)
    for wrong in ("", "a/b", "x" * 256):
        with pytest.raises(ConfigError, match="runId"):
            parse_write_options(once(runId=wrong), streaming=False)


def test_json_that_is_wrong_is_answered_with_the_form_it_should_have():
    with pytest.raises(ConfigError, match=r'JSON like \{"topic":\{"broker":\{"0":42\}\}\} \(queue id'):
        read(startingOffsets='{"orders":{"a":{"x":0}}}')


def test_a_group_says_where_to_begin_or_end():
    assert read(startingOffsets="committed").start == Committed("orbitmq-spark")
    assert read(startingOffsets="Committed", group="billing").start == Committed("billing")
    assert read(endingOffsets="committed:billing").end == Committed("billing")


def test_queues_may_begin_at_times_of_their_own():
    queue = MessageQueue("orders", "a", 0)
    assert read(startingOffsetsByTimestamp='{"orders":{"a":{"0":7}}}').start == QueueTimes({queue: 7})
    assert read(endingOffsetsByTimestamp='{"orders":{"a":{"0":9}}}').end == QueueTimes({queue: 9})
    with pytest.raises(ConfigError, match="only one of it and startingOffsetsByTimestamp"):
        read(startingOffsetsByTimestamp="{}", startingTimestamp="5")
    with pytest.raises(ConfigError, match="a stream has no end"):
        read(streaming=True, endingOffsetsByTimestamp="{}")


def test_names_of_kafkas_connector_work_where_they_mean_the_same():
    given = {"nameServer": "h:1"}
    assert parse_read_options(given | {"subscribe": "a,b"}, streaming=False).topics == ("a", "b")
    assert parse_read_options(given | {"subscribePattern": "a.*"}, streaming=False).topic_pattern == "a.*"
    assert read(**{"kafka.group.id": "billing"}).group == "billing"


@each_case(
    *product(
        [name + "xyz" if name.endswith(".") else name for name in KAFKA_OPTIONS],
        [lambda given: parse_read_options(given, streaming=True), parse_write_options],
    )
)
def test_another_name_of_kafkas_connector_is_refused_with_ours(kafka, parse):
    ours, sense = KAFKA_OPTIONS[kafka.removesuffix("xyz")]

    for spelling in (kafka, kafka.upper()):
        with pytest.raises(ConfigError) as raised:
            parse(READ | {spelling: "1"})
        assert raised.value.value == spelling
        assert raised.value.allowed.startswith(f"the option {ours} in place" if ours else "no such option: ")
        assert raised.value.allowed.endswith(sense)


def test_what_stands_for_an_option_of_kafkas_connector_is_an_option():
    named = {ours for ours, _ in KAFKA_OPTIONS.values()} - {None}
    assert named | set(ALIASES.values()) <= {*READ_OPTIONS, *WRITE_OPTIONS}
    assert not {name.lower() for name in KAFKA_OPTIONS} & {
        name.lower() for name in (*READ_OPTIONS, *WRITE_OPTIONS, *ALIASES)
    }


def test_queues_are_assigned_by_json():
    options = parse_read_options({"nameServer": "h:1", "assign": '{"orders":{"a":[0,3]}}'}, streaming=False)

    assert options.topics == ("orders",)
    assert options.assigned == {MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 3)}
    with pytest.raises(ConfigError, match="exactly one of it and assign"):
        read(assign='{"orders":{"a":[0]}}')


@each_case("", "{}", "[]", '{"orders":[0]}', '{"orders":{"a":["0"]}}', '{"orders":{"a":[-1]}}', '{"a b":{"a":[0]}}')
def test_queues_that_cannot_be_are_an_error(value):
    with pytest.raises(ConfigError) as caught:
        parse_read_options({"nameServer": "h:1", "assign": value}, streaming=False)

    assert caught.value.field == "assign"


def test_a_group_of_its_own_has_the_prefix_and_the_id_of_the_query():
    assert read(groupIdPrefix="jobs").group == read(groupIdPrefix="jobs").group == "jobs-7f"
    assert read(groupIdPrefix="jobs", query_id="80").group == "jobs-80"
    assert read(groupIdPrefix="jobs", group="billing").group == "billing"


def test_columns_are_named_in_their_order():
    assert read(columns="keys, topic").columns == ("keys", "topic")
    with pytest.raises(ConfigError, match="only one of it and columns"):
        read(columns="topic", includeBody="false")


def test_sql92_travels_to_brokers_as_it_is_and_is_checked_here():
    options = read(subscription="a > 5", expressionType="sql92")

    assert (options.subscription, options.expression_type, options.is_filtered) == ("a > 5", "SQL92", True)
    assert (read().expression_type, read().is_filtered, read(subscription="a").is_filtered) == ("TAG", False, True)
    for wrong in ("a >", "", "a > 5 nonsense"):
        with pytest.raises(ConfigError, match=r"subscription.*SQL92"):
            read(subscription=wrong, expressionType="SQL92")


@each_case(
    ("7", 7), ("7ms", 7), ("30s", 30_000), ("15 m", 900_000), ("2MIN", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)
)
def test_a_delay_is_a_time_in_sparks_form(text, ms):
    assert read(streaming=True, maxTriggerDelay=text).trigger_delay_ms == ms


@each_case("", "soon", "-1s", "1.5s", "5 weeks", "s")
def test_a_delay_that_is_no_time_is_an_error(text):
    with pytest.raises(ConfigError, match="maxTriggerDelay"):
        read(streaming=True, maxTriggerDelay=text)


def test_a_batch_cannot_have_more_than_it_may():
    assert read(streaming=True, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="5").offsets_per_trigger_min == 5
    with pytest.raises(ConfigError, match=r"minOffsetsPerTrigger.*at most maxOffsetsPerTrigger"):
        read(streaming=True, minOffsetsPerTrigger="6", maxOffsetsPerTrigger="5")


def write(path, key):
    path.touch(0o600)
    path.write_text(f"accessKey={key}\nsecretKey=hidden\n")


@pytest.fixture
def sent(tmp_path, monkeypatch):
    """Return the directory of files that Spark sent along."""
    found = tmp_path / "sent"
    found.mkdir()
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(found))
    return found


def test_without_a_file_nothing_is_signed_or_encrypted():
    assert read_security(None) == UNSECURED


def test_a_file_is_found_by_its_path_and_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "mine.properties", "me")

    assert read_security(str(tmp_path / "mine.properties")).credentials == Credentials("me", "hidden")
    assert read_security("~/mine.properties").credentials == Credentials("me", "hidden")


def test_a_file_that_spark_sent_along_is_found_by_its_name(sent):
    write(sent / "mine.properties", "sent")

    assert read_security("mine.properties").credentials == Credentials("sent", "hidden")


def test_a_path_comes_before_a_file_that_was_sent(sent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "mine.properties", "here")
    write(sent / "mine.properties", "sent")

    assert read_security("mine.properties").credentials == Credentials("here", "hidden")


def test_a_file_that_is_nowhere_is_named_as_it_was_given(sent):
    with pytest.raises(ConfigError, match=r"'mine\.properties'"):
        read_security("mine.properties")
