"""A stream that cannot be read says why, however it is asked."""

from __future__ import annotations

import pytest

from orbitmq.errors import ConfigError
from orbitmq.spark.format.refusals import RefusedStream
from orbitmq.spark.schema import COLUMN_NAMES, spark_schema
from pyspark_rocketmq import DefaultSource


@pytest.mark.parametrize("method", ["initialOffset", "latestOffset", "partitions", "read"])
def test_every_question_is_answered_with_what_was_wrong(method):
    error = ConfigError("topic", "a b", "a topic's name")
    arguments = {"partitions": ({}, {}), "read": (None,)}.get(method, ())
    with pytest.raises(ConfigError) as raised:
        getattr(RefusedStream(error), method)(*arguments)
    assert raised.value is error


def test_a_stream_of_files_is_refused_by_its_reader_and_not_by_its_making(tmp_path):
    source = DefaultSource({"commitLogPath": str(tmp_path)})
    reader = source.streamReader(spark_schema(COLUMN_NAMES))
    reader.stop()
    with pytest.raises(ConfigError, match="commitLogPath"):
        reader.initialOffset()
