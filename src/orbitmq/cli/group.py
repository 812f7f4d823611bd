"""`orbitmq group …`: consumer groups, their lag, and resets of their offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, check_one_cluster, check_owner, command, exit_if_incomplete, named_in_errors
from orbitmq.cli.other_words import NamingGroup
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm, counted
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    BrokerOption,
    ClusterOption,
    ForceSystemOption,
    FormatOption,
    GroupArgument,
    TopicArgument,
    check_number,
    complete_group,
)
from orbitmq.cli.terminal.output import Format, Row, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.times import TIME_HELP, parse_time
from orbitmq.clock import now_ms

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient, GroupStatus, QueueReset, ResetTo
    from orbitmq.admin.group_client import GroupAdmin


class _Group(NamingGroup):
    other_words = {"describe": "group show"}


app = typer.Typer(
    cls=_Group,
    help="List consumer groups, show how far they are, set where they go on.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

TopicOption = Annotated[str | None, typer.Option("--topic", "-t", help="Only this topic.")]

_RESET_COLUMNS = ("topic", "broker", "queue", "before", "after", "again", "skipped")


@command(app, "list")
async def list_groups(
    access: Access,
    cluster: ClusterOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List consumer groups, with the number of clients that are online, and their lag.

    Exit code 1 when a broker did not answer: what the others have is shown.
    """
    from orbitmq.admin.system_names import group_kind

    async with access.admin() as admin:
        answering, problems = await admin.groups_that_answer()
        groups = await answering.groups(cluster)
        lags = await _lags(answering, [found.group for found in groups])
    rows: list[Row] = [
        {
            "group": found.group,
            "kind": group_kind(found.group),
            "clients": len(found.clients),
            "lag": lags[found.group],
            "model": _model(found),
            "topics": " ".join(sorted(found.subscriptions)),
            "brokers": " ".join(sorted(found.settings)),
        }
        for found in groups
    ]
    show_rows(rows, ("group", "kind", "clients", "lag", "model", "topics"), output)
    exit_if_incomplete(problems)


async def _lags(admin: GroupAdmin, groups: Iterable[str], topic: str | None = None) -> dict[str, int | None]:
    """Return the lag of each group; None: no broker reports it, or the group has consumed nothing."""
    from orbitmq.admin.each_master import ask_about
    from orbitmq.admin.groups import total_lag
    from orbitmq.errors import ClientError

    async def query(group: str) -> tuple[str, int | None]:
        try:
            queues = await admin.lag(group, topic)
        except ClientError:
            queues = {}
        return group, total_lag(queues.values())

    return dict(await ask_about(groups, query))


@command(app, "show", earlier="status")
async def show(
    access: Access,
    group: GroupArgument,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a group's clients, what they subscribe to, and its settings (with -o json).

    Exit code 1 when a broker did not answer: what the others have is shown.
    """
    from dataclasses import asdict

    from orbitmq.errors import ClientError

    async with access.admin() as admin:
        answering, problems = await admin.groups_that_answer()
        try:
            found = await answering.status(group)
        except ClientError:
            exit_if_incomplete(problems)
            raise
    clients = [client._asdict() for client in found.clients]
    if output is Format.JSON:
        settings = {broker: asdict(config) for broker, config in found.settings.items()}
        document = {"group": group, "model": _model(found), "clients": clients, "settings": settings}
        show_json({**document, "subscriptions": dict(found.subscriptions)})
        exit_if_incomplete(problems)
        return
    rows = [{name: printable(str(value)) for name, value in client.items()} for client in clients]
    show_rows(rows, ("client_id", "address", "language", "version"), output)
    for topic, expression in sorted(found.subscriptions.items()):
        say(f"subscribes to {printable(topic)}: {printable(expression)}")
    say(f"{len(clients)} clients online")
    exit_if_incomplete(problems)


@command(app, "lag")
def lag(
    access: Access,
    group: Annotated[
        str | None,
        typer.Argument(metavar="[GROUP]", help="The consumer group; without it: all.", autocompletion=complete_group),
    ] = None,
    topic: TopicOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every_s: Annotated[
        float,
        typer.Option("--every", min=0.1, metavar="SECONDS", help="Between two samples.", callback=check_number),
    ] = 10.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after so many samples.")] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="DIRECTORY", file_okay=False, help="Keep the samples there: lag.jsonl and lag.svg."
        ),
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show how many messages a group has still to do, queue by queue; without a group those of all groups, the most first.

    With --watch again and again: what is unknown stays unknown, as a queue without a committed offset. With --to the samples
    are kept, also over a kill, and checked at the end. Exit code 1 when the group has been nowhere, a check fails, or a
    broker did not answer: what the others have is shown.
    """
    from orbitmq.net.loop import run

    if watch and group is not None:
        from orbitmq.cli.group_lag import LagPlan
        from orbitmq.cli.group_lag import watch as watch_lag

        watch_lag(access, LagPlan(group, topic, every_s, count), directory, output)
    elif watch:
        raise typer.BadParameter("a watch is of one group: say which", param_hint="GROUP")
    elif count is not None or directory is not None:
        raise typer.BadParameter("it is an option of --watch", param_hint="--count" if directory is None else "--to")
    else:
        run(_show_all_lags(access, topic, output) if group is None else _show_lag(access, group, topic, output))


async def _show_lag(access: Access, group: str, topic: str | None, output: Format) -> None:
    async with access.admin() as admin:
        answering, problems = await admin.groups_that_answer()
        queues = await answering.lag(group, topic)
    rows: list[Row] = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "committed": progress.committed,
            "end": progress.end,
            "lag": progress.lag,
            "gone": progress.gone,
            "consumed": format_time(progress.consumed_at_ms),
        }
        for queue, progress in queues.items()
    ]
    if rows or output is Format.JSON:
        show_rows(rows, ("topic", "broker", "queue", "committed", "end", "lag", "consumed"), output)
    if not rows:
        say(
            f"orbitmq: no broker knows where group {printable(group)} is: there is none, or it has consumed nothing yet"
        )
        exit_if_incomplete(problems)
        raise typer.Exit(ExitCode.NO)
    if output is Format.TABLE:
        say(f"{sum(row['lag'] for row in rows)} messages in {len(rows)} queues are still to come")
    if gone := sum(row["gone"] for row in rows):
        say(f"{gone} messages were deleted before the group read them")
    exit_if_incomplete(problems)


async def _show_all_lags(access: Access, topic: str | None, output: Format) -> None:
    async with access.admin() as admin:
        answering, problems = await admin.groups_that_answer()
        names = await answering.names() if topic is None else await answering.of_topic(topic)
        lags = await _lags(answering, names, topic)
    rows: list[Row] = [{"group": name, "lag": lags[name]} for name in names]
    rows.sort(key=lambda row: (-(row["lag"] or 0), row["group"]))
    show_rows(rows, ("group", "lag"), output)
    exit_if_incomplete(problems)


@command(app, "reset")
async def reset(
    access: Access,
    group: GroupArgument,
    topic: TopicArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="WHERE", help=f"earliest, latest, an offset as offset:17, or {TIME_HELP}")
    ],
    broker: BrokerOption = None,
    queue: Annotated[int | None, typer.Option("--queue", min=0, help="Only queues of this number.")] = None,
    dry_run: DryRunOption = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Without a question; also to a time ahead of now, which skips all that wait."),
    ] = False,
    force: ForceSystemOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Set where a group goes on in a topic, after a question. Its clients may be online: they go on there with their next pull.

    Exit code 1 when a broker of the topic is gone: the group goes on there where it was.
    """
    target = parse_target(to)
    if target.needs_search and target.number > now_ms() and not (yes or dry_run):
        raise typer.BadParameter(
            f"{to} is ahead of now: the group would skip all that wait. `latest` does so, or --yes", param_hint="--to"
        )

    async with access.admin() as admin:
        await check_owner(admin, "reset_group", force=force, group=group, topic=topic)
        missing = await admin.missing_masters_of(topic)
        change = partial(admin.reset_group, group, topic, target, broker=broker, queue_id=queue)
        await _confirm_and_reset(
            change, f"let the group {printable(group)} go on there", output, yes=yes, dry_run=dry_run
        )
    exit_if_incomplete({name: why for name, why in missing.items() if broker in (None, name)})


@command(app, "clone")
async def clone(
    access: Access,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The group whose offsets are taken.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The group that gets them; it is made if need be.")],
    topic: TopicOption = None,
    force: ForceSystemOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Let a group that is offline go on where another one is, after a question."""
    async with access.admin() as admin:
        await check_owner(admin, "clone_group", force=force, target=target, topic=topic)
        change = partial(admin.clone_group, source, target, topic)
        await _confirm_and_reset(
            change, f"let the group {printable(target)} go on there", output, yes=yes, dry_run=dry_run
        )


@command(app, "create")
async def create(
    access: Access,
    group: GroupArgument,
    retries: Annotated[int, typer.Option("--retries", min=0, help="Deliveries again before the dead letters.")] = 16,
    enable: Annotated[bool, typer.Option("--enable/--disable", help="Whether the group may consume.")] = True,
    broadcast: Annotated[
        bool, typer.Option("--broadcast/--no-broadcast", help="Whether its clients may broadcast.")
    ] = True,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    force: ForceSystemOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Create a group on every master, or change the settings of the one that is there."""
    from orbitmq.wire.bodies.groups import GroupConfig

    config = GroupConfig(
        group=group, retry_times_max=retries, consume_enable=enable, consume_broadcast_enable=broadcast
    )

    async with access.admin() as admin:
        await check_one_cluster(admin, cluster, broker)
        await check_owner(admin, "create_group", force=force, group=group)
        changed = await admin.create_group(config, cluster=cluster, broker=broker)
    rows = [{"group": group, "broker": name, "address": at} for name, at in changed.items()]
    show_rows(rows, ("group", "broker", "address"), output)


@command(app, "delete")
async def delete(
    access: Access,
    group: GroupArgument,
    with_topics: Annotated[
        bool, typer.Option("--with-topics", help="And the topics of its retries and of its dead letters.")
    ] = False,
    cluster: ClusterOption = None,
    force: ForceSystemOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Delete a group that is offline, with its offsets, from every broker, after a question.

    Exit code 1 when there is none, or when a broker is gone: that one keeps what it has of the group.
    """
    async with access.admin() as admin:
        await check_owner(admin, "delete_group", force=force, group=group)
        missing = await admin.missing_masters()
        loss = "" if yes else await _loss(admin, group)
        loss += "".join(f"; {printable(name)} is gone, and keeps what it has of it" for name in missing)
        confirm(f"delete the group {printable(group)}{loss}", yes=yes, dry_run=dry_run)
        with named_in_errors(missing):
            addresses = await admin.delete_group(group, cluster=cluster, with_topics=with_topics)
    rows = [{"group": group, "address": address} for address in addresses]
    show_rows(rows, ("group", "address"), output)
    exit_if_incomplete(missing)


async def _loss(admin: AdminClient, group: str) -> str:
    """Return what the question before a deletion names: offsets, unread messages and online members."""
    status, lags = await admin.group_status(group), await admin.group_lag(group)
    waiting = counted(
        sum(queue.lag for queue in lags.values()), "message that it has not read", "messages that it has not read"
    )
    loss = f" with its offsets in {counted(len(lags), 'queue')}, where it has {waiting}"
    return loss + (f", while {counted(len(status.clients), 'member')} of it are online" if status.clients else "")


def parse_target(text: str) -> ResetTo:
    """Parse `--to` of a reset.

    Raises:
        typer.BadParameter: it is neither earliest, latest, an offset nor a time.
    """
    from orbitmq.admin import ResetTo

    if text in ("earliest", "latest"):
        return ResetTo.earliest() if text == "earliest" else ResetTo.latest()
    kind, _, number = text.partition(":")
    if kind == "offset":
        if not (number.isascii() and number.isdecimal()):
            raise typer.BadParameter(f"{text!r} is not an offset such as offset:17", param_hint="--to")
        return ResetTo.offset(int(number))
    return ResetTo.time(parse_time(text, "--to", words="earliest, latest, offset:17, "))


async def _confirm_and_reset(
    change: Callable[..., Awaitable[list[QueueReset]]], question: str, output: Format, *, yes: bool, dry_run: bool
) -> None:
    """Reset offsets after a question, and show the changes, also those before an error."""
    from orbitmq.errors import OffsetsNotSet

    if dry_run:
        _show_changes(await change(dry_run=True), output, dry_run=True)
        return
    if not yes:
        planned = await change(dry_run=True)
        again, skipped = _counts(planned)
        effect = f"{counted(again, 'message')} would come again, {skipped} would be skipped"
        confirm(f"{question}: {effect}, in {counted(len(planned), 'queue')}", yes=False)
    try:
        changes = await change()
    except OffsetsNotSet as error:
        if error.done:
            _show_changes(error.done, output, dry_run=False)
        raise
    _show_changes(changes, output, dry_run=False)


def _counts(changes: Sequence[QueueReset]) -> tuple[int, int]:
    """Return how many messages come again, and how many are skipped."""
    return sum(change.again_count for change in changes), sum(change.skipped_count for change in changes)


def _show_changes(changes: Sequence[QueueReset], output: Format, *, dry_run: bool) -> None:
    rows: list[Row] = [
        {
            "topic": change.queue.topic,
            "broker": change.queue.broker_name,
            "queue": change.queue.queue_id,
            "before": change.before,
            "after": change.after,
            "again": change.again_count,
            "skipped": change.skipped_count,
        }
        for change in changes
    ]
    show_rows(rows, _RESET_COLUMNS, output)
    if output is Format.TABLE:
        again, skipped = _counts(changes)
        verb = "would come" if dry_run else "come"
        say(f"{again} messages {verb} again, {skipped} {'would be' if dry_run else 'are'} skipped")


def _model(status: GroupStatus) -> str | None:
    return None if status.message_model is None else str(status.message_model.value).lower()
