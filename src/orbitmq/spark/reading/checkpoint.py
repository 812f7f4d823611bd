"""A stream's position, as Spark's checkpoint keeps it. Pure.

Queries that were started with an older version of the connector go on: what is written here once is read for ever.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.spark.offsets import Offsets, OffsetsJson, format_offsets, json_items, parse_offsets


class Position(NamedTuple):
    """How far a stream has come, as its checkpoint keeps it.

    `begins` says for some queues where the micro-batch that ends here began; it overrules the position before. The first
    batch of a stream lists all its queues there: a restart before that batch is committed asks for the initial offset
    again, and "latest" would have moved on by then. Later batches list queues that were new to them.
    """

    offsets: Offsets
    begins: Offsets = {}

    @property
    def is_initial(self) -> bool:
        """True for the position before the first batch."""
        return self.offsets == self.begins


def format_position(position: Position) -> dict[str, OffsetsJson]:
    """Return a position as the JSON object that Spark keeps in its checkpoint."""
    document = {"queues": format_offsets(position.offsets)}
    if position.begins or position.is_initial:
        document["begins"] = format_offsets(position.begins)
    return document


def parse_position(document: Any) -> Position:
    """Return the position that a checkpoint's JSON object spells.

    Raises:
        InvalidArgument: the object was not written by this connector.
    """
    fields = dict(json_items("checkpointed position", document))
    if "queues" not in fields or not fields.keys() <= {"queues", "begins"}:
        raise InvalidArgument("checkpointed position", document, "an object with queues and begins")
    return Position(parse_offsets(fields["queues"], 0), parse_offsets(fields.get("begins", {}), 0))
