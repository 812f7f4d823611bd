"""`orbitmq broker retire`: a broker takes no more messages, and says when nothing on it is unread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm, counted
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.output import say
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient

_POLL_S = 1.0
_NAMED_MAX = 5
PERMISSION = "brokerPermission"


async def retire(
    access: Access,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The broker's name.")],
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, metavar="SECONDS", help="Wait so long at most.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also where a topic has no other broker to write to.")] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Let a broker refuse sends, and wait until every group has read what is on it; then it can be stopped.

    Producers that are refused go to the other brokers immediately, consumers go on. An end before that, as by Ctrl-C, leaves it
    without the permission to write. Exit code 1 when the time is over before all is read.
    """
    import asyncio

    from orbitmq.errors import InvalidArgument
    from orbitmq.model.topic import Perm

    async with access.admin() as admin:
        address = (await admin.masters(broker=name))[name]
        alone = await _topics_without_another(admin, name)
        if alone and not force:
            named = ", ".join(map(printable, alone[:_NAMED_MAX])) + (" ..." if len(alone) > _NAMED_MAX else "")
            raise InvalidArgument(
                "NAME", name, f"a broker of whose topics others take messages, too, or --force (only there: {named})"
            )
        unread = await _unread(admin, name)
        waiting = counted(sum(unread.values()), "message is", "messages are")
        confirm(f"let {printable(name)} refuse sends; {waiting} unread there", yes=yes, dry_run=dry_run)
        await admin.change_broker_settings(address, {PERMISSION: str(int(Perm.READ))})
        give_back = f"orbitmq broker config set {PERMISSION}={int(Perm.READ | Perm.WRITE)} --name {printable(name)}"
        say(f"1 of 3: {printable(name)} takes no more messages; `{give_back}` lets it again")
        try:
            async with asyncio.timeout(timeout_s):
                await _wait_until_read(admin, name)
        except TimeoutError:
            say("orbitmq: the time is over before all messages are read")
            raise typer.Exit(ExitCode.NO) from None
    say(f"3 of 3: stop {address} (SIGTERM): it un-registers by itself")
    say("Delayed messages and transactions without a decision go on when it is started again: it has them alone.")


async def _topics_without_another(admin: AdminClient, name: str) -> list[str]:
    """Return the topics of users that only this broker takes messages of."""
    from orbitmq.errors import RouteNotFound
    from orbitmq.model.topic import Perm, kind_of

    own = await admin.own_topics()
    found = []
    for topic in await admin.topic_list():
        if kind_of(topic, own) != "user":
            continue
        try:
            route = await admin.topic_route(topic)
        except RouteNotFound:  # deleted just now
            continue
        if {data.broker_name for data in route.queues if data.perm & Perm.WRITE} == {name}:
            found.append(topic)
    return found


async def _wait_until_read(admin: AdminClient, name: str) -> None:
    import asyncio

    said = None
    while unread := await _unread(admin, name):
        groups = ", ".join(map(printable, sorted(unread, key=lambda group: -unread[group])[:_NAMED_MAX]))
        line = f"2 of 3: {counted(sum(unread.values()), 'message is', 'messages are')} still unread, by {groups}"
        if line != said:
            say(line)
            said = line
        await asyncio.sleep(_POLL_S)
    say("2 of 3: nothing on it is unread")


async def _unread(admin: AdminClient, name: str) -> dict[str, int]:
    """Return how many messages on a broker each group has still to read; groups without any are left out."""
    found = {}
    for group in await admin.group_names():
        lags = await admin.group_lag(group)
        found[group] = sum(place.lag for queue, place in lags.items() if queue.broker_name == name)
    return {group: count for group, count in found.items() if count}
