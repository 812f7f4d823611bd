"""The classes that some versions of Spark have and older ones lack, under one name each: 4.0 and later are supported.

Where this Spark has no such class, a stand-in has its name: nothing that Spark hands over is ever one of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyspark

SPARK_VERSION: str = pyspark.__version__

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    WRITES_STREAMS_BY_ARROW = True
    """Since 4.1: a stream's writer gets batches of columns, before it gets rows."""
except ImportError:
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

    WRITES_STREAMS_BY_ARROW = False

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    LIMITS_STREAMS = True
    """Since 4.2: Spark says where a micro-batch begins when it asks where it ends, how long it may be, and that a run is to
    end with what is there."""
except ImportError:
    LIMITS_STREAMS = False

    class ReadLimit:  # type: ignore[no-redef]
        """How much a micro-batch may read."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef,misc]
        """Everything."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef,misc]
        """So many messages."""

        max_rows: int

    @dataclass
    class ReadMaxBytes(ReadLimit):  # type: ignore[no-redef,misc]
        """So many bytes."""

        max_bytes: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing is asked of it."""


__all__ = [
    "LIMITS_STREAMS", "SPARK_VERSION", "WRITES_STREAMS_BY_ARROW", "DataSourceStreamArrowWriter", "ReadAllAvailable", "ReadLimit",
    "ReadMaxBytes", "ReadMaxRows", "SupportsTriggerAvailableNow",
]  # fmt: skip
