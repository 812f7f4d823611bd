"""`orbitmq broker retire`: a broker takes no more messages; when its groups have read all, what stays on it is named."""

from __future__ import annotations

from collections.abc import Sequence
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

    Producers that are refused go to the other brokers immediately, consumers go on. What no group reads, and what waits for its time or
    for a decision, stays on it, and is named. An end before that, as by Ctrl-C, leaves it without the permission to write. Exit code 1
    when the time is over before all is read.
    """
    import asyncio

    from orbitmq.errors import InvalidArgument
    from orbitmq.model.topic import Perm

    async with access.admin() as admin:
        address = (await admin.masters(broker=name))[name]
        alone = await _topics_without_another(admin, name)
        if alone and not force:
            raise InvalidArgument(
                "NAME",
                name,
                f"a broker of whose topics others take messages, too, or --force (only there: {_few(alone)})",
            )
        unread, staying = await _unread(admin, name), await _staying(admin, name, address)
        waiting = counted(sum(unread.values()), "message is", "messages are")
        what = f"let {printable(name)} refuse sends; {waiting} unread there"
        if staying:
            what += f", and these stay there: {'; '.join(staying)}"
        confirm(what, yes=yes, dry_run=dry_run)
        await admin.change_broker_settings(address, {PERMISSION: str(int(Perm.READ))})
        give_back = f"orbitmq broker config set {PERMISSION}={int(Perm.READ | Perm.WRITE)} --name {printable(name)}"
        say(f"1 of 3: {printable(name)} takes no more messages; `{give_back}` lets it again")
        try:
            async with asyncio.timeout(timeout_s):
                await _wait_until_read(admin, name)
        except TimeoutError:
            say("orbitmq: the time is over before all messages are read")
            raise typer.Exit(ExitCode.NO) from None
        staying = await _staying(admin, name, address)
        members = (await admin.cluster_info()).brokers[name].addresses
    for text in staying:
        say(f"stays on it: {text}")
    # A slave that outlives its master may be elected: its own brokerPermission lets it take messages.
    addresses = [members[broker_id] for broker_id in sorted(members, reverse=True)]
    say(
        f"3 of 3: stop {', then '.join(addresses)} (SIGTERM): {'they un-register' if len(members) > 1 else 'it un-registers by itself'}"
    )
    if staying:
        say("What stays on it is read, and goes on, when it is started again from the same directory: keep that.")


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
        groups = _few(sorted(unread, key=lambda group: -unread[group]))
        line = f"2 of 3: {counted(sum(unread.values()), 'message is', 'messages are')} still unread, by {groups}"
        if line != said:
            say(line)
            said = line
        await asyncio.sleep(_POLL_S)
    say("2 of 3: no group has a message to read on it")


async def _unread(admin: AdminClient, name: str) -> dict[str, int]:
    """Return how many messages on a broker each group has still to read; groups without any are left out."""
    from orbitmq.errors import ConnectionFailed

    answering, problems = await admin.groups_that_answer()  # another broker may be silent
    if name in problems:
        raise ConnectionFailed(problems[name])
    found = {}
    for group in await answering.names():
        lags = await answering.lag(group)
        found[group] = sum(place.lag for queue, place in lags.items() if queue.broker_name == name)
    return {group: count for group, count in found.items() if count}


async def _staying(admin: AdminClient, name: str, address: str) -> list[str]:
    """Return a text for each kind of message that stays on a broker when its groups have read all."""
    from orbitmq.admin.waiting_counts import level_counts, popped_count, timed_count, undecided_count
    from orbitmq.model.group import MessageModel
    from orbitmq.model.topic import DLQ_PREFIX, RETRY_PREFIX, is_reserved_topic

    broker = await admin.broker(address)
    info = await broker.runtime_info()
    readers = {topic for topic, _, group in (key.partition("@") for key in await broker.committed())}
    unread, dead = {}, 0
    for topic in await broker.topics():
        if topic in readers or topic.startswith(RETRY_PREFIX) or is_reserved_topic(topic):
            continue
        count = sum(stats.max_offset - stats.min_offset for stats in (await broker.topic_stats(topic)).values())
        if count and topic.startswith(DLQ_PREFIX):
            dead += count
        elif count:
            unread[topic] = count
    broadcasting = [
        group
        for group in await broker.groups()
        if (found := await broker.consumers(group)) is not None and found[1] is MessageModel.BROADCASTING
    ]
    texts = []
    if unread:
        topics = [topic + await _subscribers(admin, name, topic) for topic in sorted(unread)[: _NAMED_MAX + 1]]
        messages = counted(sum(unread.values()), "message")
        texts.append(f"{messages} of topics in which no group has an offset there: {_few(topics)}")
    if broadcasting:
        texts.append(f"what members of broadcasting groups have not read, which they alone know: {_few(broadcasting)}")
    counts = {
        "dead letter": dead,
        "delayed message": sum(level_counts(info).values()) + max(0, timed_count(info) or 0),
        "transaction without a decision": await undecided_count(broker),
        "pop that is not settled": await popped_count(broker),
    }
    plurals = {
        "transaction without a decision": "transactions without a decision",
        "pop that is not settled": "pops that are not settled",
    }
    texts += [counted(count, what, plurals.get(what, "")) for what, count in counts.items() if count]
    return texts


async def _subscribers(admin: AdminClient, name: str, topic: str) -> str:
    """Return a note of the groups that subscribe to a topic: they may begin to read it, and commit a few seconds later."""
    groups = await admin.topic_groups(topic, broker=name)
    return f" (subscribed to by {' '.join(groups)})" if groups else ""


def _few(names: Sequence[str]) -> str:
    return ", ".join(map(printable, names[:_NAMED_MAX])) + (" ..." if len(names) > _NAMED_MAX else "")
