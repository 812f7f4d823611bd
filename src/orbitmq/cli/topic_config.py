"""`orbitmq topic config …`: a topic's settings on each broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access, check_owner, command, exit_if_incomplete
from orbitmq.cli.terminal.options import (
    BrokerOption,
    ClusterOption,
    ForceOption,
    FormatOption,
    TopicArgument,
)
from orbitmq.cli.terminal.output import Format, Row, say, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.terminal.times import parse_delay
from orbitmq.model.topic import PERMISSIONS, QUEUES_MAX, RESERVE_TIME, permission_word

if TYPE_CHECKING:
    from orbitmq.admin.client import AdminClient
    from orbitmq.model.topic import TopicConfig


def parse_permission(word: str) -> int:
    """Return the permission bits that a word means.

    Raises:
        typer.BadParameter: it means none.
    """
    if word not in PERMISSIONS:
        raise typer.BadParameter(f"{word!r} is not rw, r or w", param_hint="--permission")
    return PERMISSIONS[word]


RetentionOption = Annotated[
    str | None,
    typer.Option(
        "--retention",
        metavar="TIME",
        help="Show messages for so long, as 12h or 7d, though the log may keep them longer; `log`: as long as it does.",
    ),
]


def retention_change(text: str | None) -> dict[str, str]:
    """Return the change of attributes that `--retention` asks for.

    Raises:
        typer.BadParameter: it is not a number of whole hours.
    """
    if text is None:
        return {}
    hours, rest = (-1, 0) if text == "log" else divmod(parse_delay(text, "--retention"), 3_600_000)
    if rest or not hours:
        raise typer.BadParameter(f"{text!r} is not a number of whole hours, as 12h or 7d", param_hint="--retention")
    return {f"+{RESERVE_TIME}": str(hours)}


app = typer.Typer(help="Show and change the settings of a topic.", no_args_is_help=True, rich_markup_mode=None)

_COLUMNS = ("broker", "read_queues", "write_queues", "permission", "order", "filter", "attributes")


@command(app, "show")
async def show(
    access: Access,
    topic: TopicArgument,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a topic's settings on every broker that has it.

    Exit code 1 when a broker did not answer: what the others have is shown.
    """
    async with access.admin() as admin:
        found, problems = await admin.known_topic_configs(topic, cluster=cluster, broker=broker)
    _show(found, output)
    exit_if_incomplete(problems)


@command(app, "set")
async def change(
    access: Access,
    topic: TopicArgument,
    read_queues: Annotated[
        int | None, typer.Option("--read-queues", min=1, max=QUEUES_MAX, help="Queues that are read, on each broker.")
    ] = None,
    write_queues: Annotated[
        int | None, typer.Option("--write-queues", min=1, max=QUEUES_MAX, help="Queues that are sent to.")
    ] = None,
    permission: Annotated[str | None, typer.Option("--permission", help="rw, r or w.")] = None,
    order: Annotated[bool | None, typer.Option("--order/--no-order", help="Whether its queues have an order.")] = None,
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", metavar="+NAME=VALUE|-NAME", help="As +message.type=FIFO; may stand repeatedly."),
    ] = None,
    retention: RetentionOption = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    force: ForceOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Change what is named, on every broker that has the topic, and show what it is then.

    To have fewer queues, set the write queues first, and the read queues when the others are empty.
    """
    from orbitmq.admin.topics import TopicChange, parse_attribute_change

    wanted = TopicChange(
        read_queue_count=read_queues,
        write_queue_count=write_queues,
        perm=parse_permission(permission) if permission is not None else None,
        order=order,
        attributes=dict(map(parse_attribute_change, attributes or ())) | retention_change(retention),
    )
    if wanted == TopicChange():
        raise typer.BadParameter("nothing is to be changed", param_hint="--permission, --read-queues, --attribute ...")

    async with access.admin() as admin:
        await check_owner(admin, "change_topic", force=force, topic=topic)
        found = await admin.change_topic(topic, wanted, cluster=cluster, broker=broker, force=force)
        if force and read_queues is not None:
            await say_hidden(admin, topic, read_queues, cluster, broker)
    _show(found, output)


async def say_hidden(admin: AdminClient, topic: str, read_queues: int, cluster: str | None, broker: str | None) -> None:
    """Say on stderr how many messages no consumer finds any more."""
    masters = await admin.masters(cluster=cluster, broker=broker)
    for name, count in (await admin.hidden_messages(topic, read_queues, masters)).items():
        say(f"{count} messages on {name} are in queues that no consumer reads now")


def _show(found: Mapping[str, TopicConfig], output: Format) -> None:
    show_rows([_row(broker, config, output) for broker, config in found.items()], _COLUMNS, output)


def _row(broker: str, config: TopicConfig, output: Format) -> Row:
    attributes: Any = dict(config.attributes)
    if output is Format.TABLE:
        attributes = " ".join(printable(f"{name}={value}", is_cell=True) for name, value in attributes.items())
    return {
        "broker": broker,
        "read_queues": config.read_queue_count,
        "write_queues": config.write_queue_count,
        "permission": permission_word(config.perm),
        "order": config.order,
        "filter": config.topic_filter_type,
        "attributes": attributes,
    }
