"""Rows out of log files, without Spark: which messages, which columns, and what is said of bytes that are none."""

from __future__ import annotations

import logging
import pickle

import pytest

from orbitmq.model.message import SysFlag
from orbitmq.spark.commitlog.options import parse_file_options
from orbitmq.spark.commitlog.reader import FileReader, file_schema
from orbitmq.spark.reading.continuity import DataLoss
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from unit.spark.commitlog.log_files import LogBuilder

SIZE = 20_000


def rows(store, *names: str, **options: str) -> list[tuple]:
    reader = FileReader(spark_schema(names or ("topic", "queueOffset")), parse_file_options(given(store) | options))
    partitions = pickle.loads(pickle.dumps(reader.partitions()))
    batches = [batch for part in partitions for batch in pickle.loads(pickle.dumps(reader)).read(part)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def given(store) -> dict[str, str]:
    return {"commitLogPath": str(store)}


def log_of(*topics: str, base: int = 0) -> LogBuilder:
    log = LogBuilder(base)
    for topic in topics:
        log.add(topic)
    return log


def test_every_message_of_every_topic_is_read_in_order(tmp_path):
    log_of("orders", "bills", "orders").fill(SIZE).write(tmp_path)
    log_of("bills", base=SIZE).write(tmp_path, SIZE)

    assert rows(tmp_path) == [("orders", 0), ("bills", 0), ("orders", 1), ("bills", 0)]
    assert rows(tmp_path, minPartitions="50") == rows(tmp_path)


def test_columns_are_those_of_topics_and_where_the_log_has_the_message(tmp_path):
    log = log_of("orders", "orders", base=SIZE)
    log.write(tmp_path, SIZE)

    assert file_schema(parse_file_options(given(tmp_path))).fieldNames() == [*COLUMN_NAMES, "physicalOffset"]
    assert "body" not in file_schema(parse_file_options(given(tmp_path) | {"includeBody": "false"})).fieldNames()
    assert rows(tmp_path, "physicalOffset", "brokerName") == [(SIZE + at, None) for at in log.starts]
    assert rows(tmp_path, "body", "brokerName", brokerName="b") == [(b"hello", "b")] * 2


def test_topics_are_chosen_by_name_or_pattern(tmp_path):
    log_of("orders", "bills", "%RETRY%g", "RMQ_SYS_TRACE_TOPIC", "orders-eu").write(tmp_path, SIZE)

    def topics(**options: str) -> list[str]:
        return [topic for (topic,) in rows(tmp_path, "topic", **options)]

    assert topics(topics="bills,orders") == ["orders", "bills"]
    assert topics(topic="RMQ_SYS_TRACE_TOPIC") == ["RMQ_SYS_TRACE_TOPIC"]
    assert topics(topicPattern="orders.*") == ["orders", "orders-eu"]
    assert topics(topicPattern=".*") == ["orders", "bills", "orders-eu"]
    assert topics(topic="nothing") == []
    assert len(topics()) == 5


def test_times_and_tags_narrow_what_is_read(tmp_path):
    log = LogBuilder()
    for n in range(6):
        log.add(stored_at_ms=100 + n, properties=f"TAGS\x01{'ab'[n % 2]}\x02".encode())
    log.write(tmp_path, SIZE)

    found = rows(tmp_path, "queueOffset", startingTimestamp="101", endingTimestamp="105", subscription="b")
    assert found == [(1,), (3,)]


def test_half_and_rolled_back_messages_are_in_no_queue(tmp_path):
    log = LogBuilder()
    for flag in (0, SysFlag.TRANSACTION_PREPARED, SysFlag.TRANSACTION_COMMIT, SysFlag.TRANSACTION_ROLLBACK):
        log.add(sys_flag=flag)
    log.write(tmp_path, SIZE)

    assert rows(tmp_path, "queueOffset") == [(0,), (2,)]


def damaged_size(log: LogBuilder, at: int) -> None:
    log.raw[log.starts[at] + 5] ^= 1


def damaged_topic(log: LogBuilder, at: int) -> None:
    log.raw[log.starts[at + 1] - 3 - len("orders")] ^= 0x80  # its length


@pytest.mark.parametrize("damage", [damaged_size, damaged_topic])
def test_damage_is_an_error_that_names_the_bytes_or_is_left_out(tmp_path, damage, caplog):
    log = log_of(*["orders"] * 5)
    damage(log, 2)
    log.write(tmp_path, SIZE)
    place = f"bytes {log.starts[2]} to {log.starts[3] - 1} "

    with pytest.raises(DataLoss, match=place):
        rows(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert rows(tmp_path, "queueOffset", failOnDataLoss="false") == [(0,), (1,), (3,), (4,)]
    assert place in caplog.text


def test_bodies_that_were_not_synced_are_compared_with_their_checksums(tmp_path):
    log = log_of(*["orders"] * 3)
    log.raw[log.starts[1] + 90] ^= 1
    log.write(tmp_path / "commitlog", SIZE)
    assert len(rows(tmp_path)) == 3  # an orderly stop has synced them
    (tmp_path / "abort").touch()

    with pytest.raises(DataLoss, match="checksum"):
        rows(tmp_path)
    assert rows(tmp_path, "queueOffset", failOnDataLoss="false") == [(0,), (2,)]


def test_a_missing_file_is_an_error_or_left_out(tmp_path):
    for n in (0, 2):
        log_of("orders", base=n * SIZE).fill(SIZE).write(tmp_path)

    with pytest.raises(DataLoss, match=f"bytes {SIZE} to {2 * SIZE - 1} .*missing"):
        rows(tmp_path)
    assert len(rows(tmp_path, failOnDataLoss="false")) == 2


def test_a_file_that_retention_removes_meanwhile_is_an_error_or_left_out(tmp_path):
    path = log_of("orders").fill(SIZE).write(tmp_path)
    log_of("orders", base=SIZE).write(tmp_path, SIZE)
    for fails in ("true", "false"):
        reader = FileReader(spark_schema(["topic"]), parse_file_options(given(tmp_path) | {"failOnDataLoss": fails}))
        first, second = reader.partitions()
        path.rename(tmp_path / "gone")
        if fails == "true":
            with pytest.raises(DataLoss, match="gone"):
                list(reader.read(first))
        else:
            assert list(reader.read(first)) == []
        assert sum(batch.num_rows for batch in reader.read(second)) == 1
        (tmp_path / "gone").rename(path)


def test_an_empty_log_is_an_empty_frame(tmp_path):
    LogBuilder().write(tmp_path, SIZE)

    assert rows(tmp_path) == []
