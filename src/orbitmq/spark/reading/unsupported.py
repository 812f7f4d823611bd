"""A stream that cannot be read, in the place of its reader.

Where the making of a stream's reader fails, Spark stops a reader that it does not have, and tells of that error alone. So
the reader is made, and its first answer is what was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from orbitmq.errors import OrbitError
from orbitmq.spark.error_messages import in_sentences


@in_sentences
class UnsupportedStream(DataSourceStreamReader):  # type: ignore[misc]
    """Answers every question with the error that its making led to."""

    def __init__(self, error: OrbitError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Raise the error."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise self._error
