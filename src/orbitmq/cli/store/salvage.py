"""`orbitmq store salvage`: messages that recovery has set aside, brought back into their queues or into a file."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.store.options import BrokerConfigOption, DirectoryArgument, read_config, sizes_of
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import FormatOption
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.store.inspection.salvage import Salvaged
    from orbitmq.store.values import StoreConfig

COLUMNS = ("file", "topic", "count", "what")


def salvage(
    directory: DirectoryArgument,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FILE", help="Write the messages into a new file, as JSON lines; change nothing else."
        ),
    ] = None,
    config: BrokerConfigOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Bring back the messages that recovery has set aside: each is stored again, at the end of its queue.

    The broker must be stopped, except with --dry-run and --to. Exit code 1 when a file has to stay.
    """
    from orbitmq.cli.store.config_files import ConfigCheck
    from orbitmq.store.inspection.layout import check_is_store
    from orbitmq.store.inspection.salvage import salvage as bring_back

    check_is_store(directory)
    store_config = _store_config(directory, read_config(config))
    topics = ConfigCheck(directory / "config").topics
    if is_dry_run or to is not None:
        rows = _plan(directory, store_config, topics, None if is_dry_run else to)
    else:
        try:
            rows = bring_back(directory, store_config, topics=topics)
        except KeyboardInterrupt:
            say("interrupted: the next salvage goes on, and stores nothing twice")
            raise
    show_rows([_row(row) for row in rows], COLUMNS, output)
    if any(row.classification.keeps_file for row in rows):
        raise typer.Exit(ExitCode.NO)


def _plan(directory: Path, config: StoreConfig, topics: Collection[str] | None, to: Path | None) -> list[Salvaged]:
    """Return what a salvage would do; write the messages that it would bring back into a file, if one is named."""
    from orbitmq.cli.store.record_format import format_document
    from orbitmq.store.inspection.salvage import Salvaged, plan_salvage
    from orbitmq.store.inspection.salvage_rules import Classification

    counts: Counter[tuple[str, str, Classification]] = Counter()
    # Never overwrite a file: a new file, or an error.
    with open(os.devnull if to is None else to, "wb" if to is None else "xb") as file:
        for path, record, classification in plan_salvage(directory, config, topics=topics):
            counts[str(path.relative_to(directory)), record.topic, classification] += 1
            if to is not None and classification in (
                Classification.BRING_BACK,
                Classification.NO_TOPIC,
                Classification.DOES_NOT_FIT,
            ):
                file.write(_line(format_document(record, with_body=True)))
        file.flush()
        if to is not None:
            os.fsync(file.fileno())
    return [Salvaged(*key, count) for key, count in counts.items()]


def _line(document: dict[str, object]) -> bytes:
    import orjson

    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _store_config(directory: Path, settings: BrokerConfig | None) -> StoreConfig:
    """Return how the store is opened: as the broker does, or with files of the size that most of them have."""
    from orbitmq.broker.settings.store_settings import store_config
    from orbitmq.store.inspection.layout import log_files
    from orbitmq.store.queues.consume_queue import UNIT
    from orbitmq.store.values import FlushMode, StoreConfig

    if settings is not None:
        return replace(store_config(settings), path=directory, flush=FlushMode.ASYNC)
    sizes = sizes_of(None)
    return StoreConfig(
        path=directory,
        segment_size=sizes.of_log(log_files(directory / "commitlog")),
        consume_queue_units=sizes.of_queues(directory) // UNIT.size,
    )


def _row(row: Salvaged) -> Row:
    return {
        "file": printable(row.path),
        "topic": printable(row.topic),
        "count": row.record_count,
        "what": row.classification.value,
    }
