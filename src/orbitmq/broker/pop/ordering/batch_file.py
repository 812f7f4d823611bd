"""The file of the batches that are out in order, written from time to time as that of the offsets is.

What a crash takes of it repeats messages and loses none: where a group goes on is a committed offset.

Source: docs/formats/config_files.md; Java ConsumerOrderInfoManager.
"""

from __future__ import annotations

import logging
from pathlib import Path

from orbitmq.broker.pop.ordering.queues import OrderedQueues
from orbitmq.errors import StoreError
from orbitmq.files import read_generations, replace_file, write_aside
from orbitmq.wire.pop.ordered_batches import (
    OrderedBatch,
    OrderedPlace,
    format_ordered_batches,
    parse_ordered_batches,
)

log = logging.getLogger(__name__)


def load_batches(path: Path) -> list[tuple[OrderedPlace, OrderedBatch]]:
    """Return what an earlier run left; nothing where the file is damaged: it is no reason not to start."""
    try:
        return read_generations(path, parse_ordered_batches) or []
    except StoreError as error:
        log.warning("batches that were out in order come again: %s", error)
        return []


class BatchFile:
    """Writes the batches of all groups when they changed.

    Args:
        path: consumerOrderInfo.json.
    """

    def __init__(self, path: Path, ordered: OrderedQueues) -> None:
        self._path = path
        self._ordered = ordered
        self._saved_change_count = ordered.change_count

    async def save(self) -> None:
        """Write them on a thread: there may be many, and the disk may be slow."""
        self._ordered.forget_old()
        change_count = self._ordered.change_count
        if change_count != self._saved_change_count:
            await write_aside(self._write, self._ordered.batches)
            self._saved_change_count = change_count

    def save_now(self) -> None:
        """Write them on the caller's thread."""
        if self._ordered.change_count != self._saved_change_count:
            self._write(self._ordered.batches)
            self._saved_change_count = self._ordered.change_count

    def _write(self, batches: list[tuple[OrderedPlace, OrderedBatch]]) -> None:
        replace_file(self._path, format_ordered_batches(batches))
