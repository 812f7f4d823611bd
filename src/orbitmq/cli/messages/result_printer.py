"""The results of sends, printed as they come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from orbitmq.cli.terminal.output import Format, say, show_json, show_rows

if TYPE_CHECKING:
    from orbitmq.client.send.result import SendResult

COLUMNS = ("message_id", "broker", "queue", "offset", "status")
_HANDLE = "recall_handle"


class ResultPrinter:
    """Prints a table for one message, a summary for many, JSON lines for programs.

    Args:
        form: of the output.
        is_summary: say at the end how many there were, instead of a table.
    """

    def __init__(self, form: Format, is_summary: bool) -> None:
        self._form = form
        self._is_summary = is_summary
        self._started = time.monotonic()
        self.count = 0

    def show(self, results: Sequence[SendResult | BaseException]) -> None:
        """Print what was sent, then raise the first failure."""
        failures = [result for result in results if isinstance(result, BaseException)]
        rows = [_row(result) for result in results if not isinstance(result, BaseException)]
        self.count += len(rows)
        if self._form is Format.JSON:
            for row in rows:
                show_json(row, is_line=True)
        elif rows and not self._is_summary:
            columns = (*COLUMNS, _HANDLE) if any(_HANDLE in row for row in rows) else COLUMNS
            show_rows(rows, columns, self._form)
        if failures:
            raise failures[0]

    def finish(self) -> None:
        """Say how many there were."""
        if self._is_summary:
            say(f"sent {self.count} messages in {time.monotonic() - self._started:.2f} s")


def _row(result: SendResult) -> dict[str, Any]:
    row = {
        "message_id": result.message_id,
        "offset_message_id": result.offset_message_id,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "status": str(getattr(result.status, "name", result.status)),
    }
    return row if result.recall_handle is None else {**row, _HANDLE: result.recall_handle}
