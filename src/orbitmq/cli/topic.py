"""`orbitmq topic …`: topics, their queues and where they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, check_one_cluster, check_owner, command, exit_if_incomplete, named_in_errors
from orbitmq.cli.other_words import NamingGroup
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm, counted
from orbitmq.cli.terminal.options import (
    BrokerOption,
    ClusterOption,
    ForceOption,
    ForceSystemOption,
    FormatOption,
    TopicArgument,
    parse_pairs,
)
from orbitmq.cli.terminal.output import Format, Row, format_time, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.topic_config import RetentionOption, parse_permission, retention_change, say_hidden
from orbitmq.cli.topic_config import app as config_app
from orbitmq.model.topic import DEFAULT_QUEUE_COUNT, QUEUES_MAX, permission_word, retention_hours

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient

_DETAILS = ("topic", "brokers", "queues", "permission", "messages", "last_message", "problem")
_SHOWN = 5


class _Topic(NamingGroup):
    other_words = {"describe": "topic show"}


app = typer.Typer(
    cls=_Topic, help="List, create, inspect and delete topics.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(config_app, name="config")


@command(app, "list")
async def list_topics(
    access: Access,
    cluster: ClusterOption = None,
    show_all: Annotated[bool, typer.Option("--all", help="With the topics that RocketMQ makes for itself.")] = False,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="With brokers, queues, permission, messages and the last one's time."),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """List topics. With -v exit code 1 when a broker did not answer: what the others have is shown."""
    from orbitmq.model.topic import kind_of

    silent: Mapping[str, str] = {}
    async with access.admin() as admin:
        own = await admin.own_topics()
        names = [name for name in await admin.topic_list(cluster) if show_all or kind_of(name, own) == "user"]
        silent = await admin.silent_masters() if verbose and names else {}
        rows = await _details(admin, names, silent) if verbose else [{"topic": name} for name in names]
    show_rows(rows, _DETAILS if verbose else ("topic",), output)
    exit_if_incomplete(silent)


@command(app, "create")
async def create(
    access: Access,
    topic: TopicArgument,
    queues: Annotated[
        int, typer.Option("--queues", "-q", min=1, max=QUEUES_MAX, help="Queues on each broker.")
    ] = DEFAULT_QUEUE_COUNT,
    permission: Annotated[str, typer.Option("--permission", help="rw, r or w.")] = "rw",
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", metavar="NAME=VALUE", help="As message.type=FIFO. May be repeated."),
    ] = None,
    retention: RetentionOption = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    force: ForceOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Create a topic on every master of the cluster, or change the one that is there."""
    from orbitmq.model.topic import TopicConfig

    perm = parse_permission(permission)
    changes = {f"+{name}": value for name, value in parse_pairs(attributes or [], "--attribute").items()}
    changes |= retention_change(retention)
    config = TopicConfig(topic=topic, read_queue_count=queues, write_queue_count=queues, perm=perm, attributes=changes)

    async with access.admin() as admin:
        await check_one_cluster(admin, cluster, broker)
        await check_owner(admin, "create_topic", force=force, topic=topic)
        changed = await admin.create_topic(config, cluster=cluster, broker=broker, force=force)
        if force:
            await say_hidden(admin, topic, queues, cluster, broker)
    rows = [{"topic": topic, "broker": name, "address": at, "queues": queues} for name, at in changed.items()]
    show_rows(rows, ("topic", "broker", "address", "queues"), output)


@command(app, "delete")
async def delete(
    access: Access,
    topic: TopicArgument,
    cluster: ClusterOption = None,
    force: ForceSystemOption = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Delete a topic and its messages from every broker and NameServer, after a question.

    Exit code 1 when there is none, or when a broker of it is gone: that one brings it back.
    """
    async with access.admin() as admin:
        await check_owner(admin, "delete_topic", force=force, topic=topic)
        missing = await admin.missing_masters_of(topic)
        what = f"delete the topic {printable(topic)}"
        confirm(what if yes else f"{what}{await _loss(admin, topic, cluster, missing)}", yes=yes, dry_run=dry_run)
        with named_in_errors(missing):
            addresses = await admin.delete_topic(topic, cluster=cluster)
    show_rows([{"topic": topic, "address": address} for address in addresses], ("topic", "address"), output)
    exit_if_incomplete(missing)


async def _loss(admin: AdminClient, topic: str, cluster: str | None, missing: Mapping[str, str]) -> str:
    """Say what goes with a topic, as far as brokers answer."""
    stats, problems = await admin.known_topic_stats(topic)
    names = await admin.masters(cluster=cluster)
    held = [found for queue, found in stats.items() if queue.broker_name in names]
    answering, _ = await admin.groups_that_answer()
    groups = [printable(group) for group in await answering.of_topic(topic)]
    count = sum(found.max_offset - found.min_offset for found in held)
    loss = f" with {counted(count, 'message')} in {counted(len(held), 'queue')}"
    if groups:
        shown = ", ".join(groups[:_SHOWN]) + (f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else "")
        loss += f", read by {shown}"
    loss += "".join(
        f", and with what {printable(name)} has, which does not answer" for name in problems if name not in missing
    )
    return loss + "".join(f"; {printable(name)} is gone, and brings the topic back" for name in missing)


@command(app, "show", earlier="status")
async def status(
    access: Access,
    topic: TopicArgument,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show where each queue begins and ends. Exit code 1 when a broker did not answer: what the others have is shown."""
    import asyncio

    async with access.admin() as admin:
        (stats, problems), hours = await asyncio.gather(admin.known_topic_stats(topic), _shown_hours(admin, topic))
    rows: list[Row] = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min_offset": found.min_offset,
            "max_offset": found.max_offset,
            "messages": found.max_offset - found.min_offset,
            "updated": format_time(found.updated_at_ms),
        }
        for queue, found in stats.items()
    ]
    show_rows(rows, ("broker", "queue", "min_offset", "max_offset", "messages", "updated"), output)
    if output is Format.TABLE:
        say(f"{sum(row['messages'] for row in rows)} messages in {len(rows)} queues")
        for shown in sorted(hours):
            say(f"messages are shown for {shown} h; the log may keep them longer")
    exit_if_incomplete(problems)


async def _shown_hours(admin: AdminClient, topic: str) -> set[int]:
    """Return for how many hours brokers show a topic's messages, where they say so."""
    from orbitmq.errors import ClientError

    try:
        configs, _ = await admin.known_topic_configs(topic)
    except ClientError:  # brokers that do not answer are named with the queues
        return set()
    return {retention_hours(config) for config in configs.values()} - {0}


@command(app, "route")
async def route(
    access: Access,
    topic: TopicArgument,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show which brokers hold a topic's queues."""
    async with access.admin() as admin:
        found = await admin.topic_route(topic)
    if output is Format.JSON:
        show_json(_route_document(topic, found))
        return
    addresses = {broker.broker_name: broker for broker in found.brokers}
    rows = []
    for queue in found.queues:
        broker = addresses.get(queue.broker_name)
        rows.append(
            {
                "broker": queue.broker_name,
                "cluster": broker.cluster if broker else None,
                "read_queues": queue.read_queue_count,
                "write_queues": queue.write_queue_count,
                "permission": permission_word(queue.perm),
                "addresses": " ".join(f"{key}={at}" for key, at in sorted(broker.addresses.items())) if broker else "",
            }
        )
    show_rows(rows, ("broker", "cluster", "read_queues", "write_queues", "permission", "addresses"), output)


def _route_document(topic: str, route: object) -> dict[str, object]:
    from dataclasses import asdict

    return {"topic": topic, **asdict(route)}  # type: ignore[call-overload]


async def _details(admin: AdminClient, names: list[str], silent: Mapping[str, str]) -> list[Row]:
    """Return of each topic what its route and its queues say; of one that does not tell, its problem.

    Args:
        silent: brokers that are not asked.
    """
    from orbitmq.admin.each_master import ask_about, notices_of
    from orbitmq.errors import ClientError

    async def row(name: str) -> Row:
        try:
            route = await admin.topic_route(name)
            known, problems = await admin.known_topic_stats(name, silent=silent)
        except ClientError as error:
            return {"topic": name, "problem": printable(str(error))}
        stats, problem = known.values(), {"problem": printable("; ".join(notices_of(problems)))} if problems else {}
        return {
            "topic": name,
            "brokers": len(route.queues),
            "queues": sum(data.write_queue_count for data in route.queues),
            "permission": "/".join(sorted({permission_word(data.perm) for data in route.queues})),
            "messages": sum(found.max_offset - found.min_offset for found in stats),
            "last_message": format_time(max((found.updated_at_ms for found in stats), default=0)),
            **problem,
        }

    return await ask_about(names, row)
