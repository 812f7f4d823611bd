"""The data source `rocketmq`, under a name by which Spark finds it.

Spark imports every top-level package called pyspark_* in each session, whether it is used or not. So nothing is imported
here but the base class; the work is done in orbitmq.spark, loaded at first use.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc]
    """`format("rocketmq")`: topics as DataFrames, batch and streaming, both ways.

    Spark calls these methods by keyword: their parameters keep Spark's names. It makes one source for each query, in the
    driver, and sends copies of it to every process that reads.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._query_id = uuid4().hex

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return the columns of a message."""
        from orbitmq.spark.commitlog.options import has_log_path, parse_file_options
        from orbitmq.spark.commitlog.reader import file_schema
        from orbitmq.spark.error_messages import without_trace
        from orbitmq.spark.options import parse_read_options
        from orbitmq.spark.reading.readers import read_schema
        from orbitmq.spark.table_options import readable, table_options, with_options

        with without_trace():
            table = table_options(self.options)
            options = self.options if table is None else readable(table)
            if has_log_path(options):
                schema = file_schema(parse_file_options(options))
            else:
                # Spark does not say whether a batch or a stream will follow; what differs is checked when it does.
                schema = read_schema(parse_read_options(options, streaming=None, query_id=self._query_id))
            return schema if table is None else with_options(schema, table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of a bounded range."""
        from orbitmq.spark.commitlog.options import has_log_path, parse_file_options
        from orbitmq.spark.commitlog.reader import FileReader
        from orbitmq.spark.error_messages import without_trace
        from orbitmq.spark.options import parse_read_options
        from orbitmq.spark.reading.readers import BatchReader
        from orbitmq.spark.table_options import for_reading

        with without_trace():
            options = for_reading(self.options, schema)
            if has_log_path(options):
                return FileReader(schema, parse_file_options(options))
            return BatchReader(schema, parse_read_options(options, streaming=False, query_id=self._query_id))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Return a reader that goes on and on."""
        from orbitmq.errors import OrbitError
        from orbitmq.spark.commitlog.options import check_no_log_path
        from orbitmq.spark.options import parse_read_options
        from orbitmq.spark.reading.older_streams import OlderStreamReader
        from orbitmq.spark.reading.readers import StreamReader
        from orbitmq.spark.reading.unsupported import UnsupportedStream
        from orbitmq.spark.table_options import for_reading
        from orbitmq.spark.versions import LIMITS_STREAMS

        try:
            options = for_reading(self.options, schema)
            check_no_log_path(options)
            reader = StreamReader if LIMITS_STREAMS else OlderStreamReader
            return reader(schema, parse_read_options(options, streaming=True, query_id=self._query_id))
        except OrbitError as error:
            return UnsupportedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of a batch."""
        from orbitmq.spark.error_messages import without_trace
        from orbitmq.spark.options import parse_write_options
        from orbitmq.spark.sink import BatchWriter
        from orbitmq.spark.table_options import for_writing

        with without_trace():
            options = parse_write_options(for_writing(self.options), streaming=False)
            return BatchWriter(schema, options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return a writer of micro-batches."""
        from orbitmq.spark.error_messages import without_trace
        from orbitmq.spark.options import parse_write_options
        from orbitmq.spark.sink import StreamWriter
        from orbitmq.spark.table_options import for_writing

        with without_trace():
            return StreamWriter(schema, parse_write_options(for_writing(self.options), streaming=True))
