"""Options of a read of files: what needs a broker is refused, and so are streams."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import ConfigError
from orbitmq.spark.commitlog.options import FileOptions, check_no_log_path, has_log_path, parse_file_options


def test_a_path_is_all_that_is_needed():
    assert parse_file_options({"COMMITLOGPATH": "/store"}) == FileOptions(
        path="/store", topics=(), topic_pattern=None, broker_name=None, start_ms=None, end_ms=None, tags=None,
        partition_count_min=None, fail_on_data_loss=True, include_body=True,
    )  # fmt: skip


def test_what_is_read_may_be_narrowed():
    options = parse_file_options(
        {
            "commitLogPath": "/store", "topics": "a,b", "brokerName": "broker-a", "startingTimestamp": "5",
            "endingTimestamp": "1970-01-01T00:00:01Z", "subscription": "x || y", "minPartitions": "7",
            "failOnDataLoss": "false", "includeBody": "false",
        }
    )  # fmt: skip

    assert options == FileOptions(
        path="/store", topics=("a", "b"), broker_name="broker-a", start_ms=5, end_ms=1000, tags=frozenset("xy"),
        partition_count_min=7, fail_on_data_loss=False, include_body=False,
    )  # fmt: skip
    assert parse_file_options({"commitLogPath": "/s", "topicPattern": "a.*"}).topic_pattern == "a.*"


@each_case(
    ({"commitLogPath": " "}, "commitLogPath"),
    ({"nameServer": "h:1"}, "nameServer"),
    ({"startingOffsets": "earliest"}, "startingOffsets"),
    ({"topic": "a", "topics": "b"}, "exactly one"),
    ({"startingTimestamp": "soon"}, "startingTimestamp"),
    ({"minPartitions": "0"}, "from 1 to 100000"),
    ({"minPartitions": "100001"}, "from 1 to 100000"),
)
def test_a_bad_option_is_named(options, told):
    with pytest.raises(ConfigError, match=told):
        parse_file_options({"commitLogPath": "/store"} | options)


def test_times_without_a_zone_are_of_the_zone_that_is_given():
    given = {"commitLogPath": "/store", "startingTimestamp": "1970-01-02", "timeZone": "+02:00"}
    assert parse_file_options(given).start_ms == 22 * 3_600_000


def test_a_stream_reads_no_files():
    assert not has_log_path({"nameServer": "h:1"})
    check_no_log_path({"nameServer": "h:1"})
    with pytest.raises(ConfigError, match=r"commitLogPath.*batch"):
        check_no_log_path({"commitlogpath": "/store"})


def test_the_topics_are_those_that_options_name():
    def wanted(**given) -> list[str]:
        return [topic for topic in ("a", "ab", "b", "%RETRY%a") if FileOptions(path="/s", **given).wants_topic(topic)]

    assert wanted() == ["a", "ab", "b", "%RETRY%a"]
    assert wanted(topics=("a", "b")) == ["a", "b"]
    assert wanted(topic_pattern="a.*") == ["a", "ab"]
