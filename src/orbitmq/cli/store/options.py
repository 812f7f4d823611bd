"""Options of the commands that work on a store's files, and what they say about the store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.store.inspection.check import Sizes

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="The store: storePathRootDir, the broker's --data-dir.")
]
BrokerConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="The broker's properties file. Without it, files have the size that most of them have.",
    ),
]


def read_config(path: Path | None) -> BrokerConfig | None:
    """Return the broker's settings, None without a file."""
    from orbitmq.broker.config import BrokerConfig

    return None if path is None else BrokerConfig.from_properties(path)


def sizes_of(settings: BrokerConfig | None) -> Sizes:
    """Return how large files are made: as configured, or as most of them are."""
    from orbitmq.store.index.index_file import IndexSizes
    from orbitmq.store.inspection.check import Sizes

    if settings is None:
        return Sizes()
    return Sizes(
        segment_size=settings.mapped_file_size_commit_log,
        queue_file_size=settings.mapped_file_size_consume_queue,
        index=IndexSizes(settings.max_hash_slot_num, settings.max_index_num),
        timer_log_file_size=settings.mapped_file_size_timer_log,
    )
