"""The consumer groups: a list with members and lag, and one group with its queues and clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from starlette.requests import Request

from orbitmq.admin import GroupStatus
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_about
from orbitmq.admin.group_client import GroupAdmin
from orbitmq.admin.groups import QueueLag, QueueReset, ResetTo, total_lag
from orbitmq.admin.system_names import group_kind
from orbitmq.dashboard.answers import Page, link, missing, order_of, paged
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.charts import chart
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.list_facts import GroupFacts
from orbitmq.dashboard.watching import watch_of
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import DLQ_PREFIX, GROUP_LENGTH_MAX, RETRY_PREFIX, check_name
from orbitmq.wire.bodies.groups import GroupConfig
from orbitmq.wire.bodies.offsets import QueueTimeSpan

_ORDERS = ("group", *GroupFacts._fields)
_TOPICS_MAX = 20
"""Topics of a group whose time spans are asked for."""


async def groups(request: Request, clients: ClusterClients) -> Page:
    """List groups by a part of their names: members and lag, now; rate and age of the oldest unread, at the last look."""
    admin, problems = await clients.admin.groups_that_answer()
    wanted = request.query_params.get("q", "")
    names = [name for name in await admin.names() if wanted.lower() in name.lower()]
    watch, order = watch_of(request), order_of(request, _ORDERS)
    facts = watch.lists.groups
    listed = order.sorted({"group": name, **facts.get(name, GroupFacts())._asdict()} for name in names)
    part, page = paged(request, listed)
    known = {row["group"]: row for row in part}
    shown = await admin.groups(names=known.keys())

    async def row(status: GroupStatus) -> dict[str, Any]:
        return {
            "kind": group_kind(status.group),
            **known[status.group],
            "members": len(status.clients),
            "topics": sorted(status.subscriptions),
            **await _lag(admin, status.group),
        }

    rows = order.sorted(await ask_about(shown, row))
    values = {
        "groups": rows,
        "page": page,
        "q": wanted,
        "problem": missing(problems),
        "order": order,
        "look_problem": watch.problem,
    }
    return Page("groups.html", "Groups", values)


async def _lag(admin: GroupAdmin, group: str) -> dict[str, Any]:
    try:
        queues = await admin.lag(group)
    except OrbitError as error:
        return {"lag": None, "consumed_at_ms": None, "problem": str(error)}
    consumed_at_ms = max((queue.consumed_at_ms for queue in queues.values()), default=0) or None
    return {"lag": total_lag(queues.values()), "consumed_at_ms": consumed_at_ms, "problem": None}


async def group(request: Request, clients: ClusterClients) -> Page:
    """Show one group: its members, subscriptions, and how far it is in each queue."""
    admin, problems = await clients.admin.groups_that_answer()
    name = request.path_params["group"]
    status = await admin.status(name)
    problem, lags = missing(problems), dict[MessageQueue, QueueLag]()
    try:
        lags = await admin.lag(name)
    except OrbitError as error:
        problem = "; ".join(filter(None, [problem, str(error)]))
    spans = await _spans(admin, name, sorted({queue.topic for queue in lags}))
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            "lag": found.lag,
            "gone": found.gone,
            **found._asdict(),
            **_span(spans.get(queue)),
        }
        for queue, found in sorted(lags.items())
    ]
    watch = watch_of(request)
    lag, rate = (watch.history.of((what, name)) for what in ("lag", "group out"))
    facts = None if watch.snapshot is None else watch.snapshot.groups.get(name)
    delays = {} if facts is None else facts.delays
    values = {
        "group": name,
        "members": [
            {
                "client_id": client.client_id,
                "address": client.address,
                "language": client.language,
                "version": client.version,
            }
            for client in status.clients
        ],
        "subscriptions": dict(sorted(status.subscriptions.items())),
        "message_model": None if status.message_model is None else str(status.message_model),
        "reset_topics": reset_topics(status.subscriptions, (queue.topic for queue in lags)),
        "queues": queues,
        "lag": total_lag(lags.values()),
        "gone": sum(queue["gone"] for queue in queues),
        "problem": problem,
        "look_problem": watch.problem,
        "charts": [chart("Lag", "messages", lag), chart("Consumed", "messages a second", rate)],
        "delays": {f"{queue.broker_name} {queue.queue_id}": delay for queue, delay in delays.items()},
    }
    return Page("group.html", name, values)


def reset_topics(subscribed: Collection[str], read: Iterable[str]) -> list[str]:
    """Return the topics in which a group may be reset: first those that it subscribes to, last those of retries and dead letters."""
    own = (RETRY_PREFIX, DLQ_PREFIX)
    return sorted({*subscribed, *read}, key=lambda topic: (topic.startswith(own), topic not in subscribed, topic))


async def _spans(admin: GroupAdmin, group: str, topics: Sequence[str]) -> dict[MessageQueue, QueueTimeSpan]:
    """Return from when the messages of each queue are, and how old the next one for the group is."""
    found: dict[MessageQueue, QueueTimeSpan] = {}

    async def add(topic: str) -> None:
        with suppress(OrbitError):
            found.update((span.queue, span) for span in await admin.time_spans(group, topic))

    await asyncio.gather(*map(add, topics[:_TOPICS_MAX]))
    return found


def _span(span: QueueTimeSpan | None) -> dict[str, Any]:
    return {
        "kept_since_ms": None if span is None else span.min_ms,
        "newest_ms": None if span is None else span.max_ms,
        "delay_ms": None if span is None else span.delay_ms,
    }


async def _create(form: Form, clients: ClusterClients) -> Done:
    config = GroupConfig(
        group=form.text("group"),
        retry_times_max=form.number("retries", 0, 10_000, 16),
        consume_message_orderly=form.flag("orderly"),
    )
    targets = await clients.admin.create_group(config, cluster=form.text("cluster", "") or None)
    text = f"{config.group} is made on {', '.join(sorted(targets))}"
    after = {"retries": config.retry_times_max, "orderly": config.consume_message_orderly}
    return Done(text=text, location=link("groups", config.group), after=after)


async def _ask_create(form: Form, clients: ClusterClients) -> Question:
    group = check_name("group", form.text("group"), GROUP_LENGTH_MAX)
    is_there = group in await clients.admin.group_names()
    masters = await clients.admin.masters(cluster=form.text("cluster", "") or None)
    return Question(
        text=f"Set the group {group}, which is there, to these values?" if is_there else f"Create the group {group}?",
        button="Create",
        columns=("Broker", "Retries", "In order"),
        rows=[
            (name, form.number("retries", 0, 10_000, 16), "yes" if form.flag("orderly") else "no")
            for name in sorted(masters)
        ],
    )


async def _delete(form: Form, clients: ClusterClients) -> Done:
    group = form.text("group")
    before = _offsets(await clients.admin.group_lag(group))
    addresses = await clients.admin.delete_group(group, with_topics=form.flag("with_topics"))
    return Done(text=f"{group} is deleted from {len(addresses)} brokers", location="/groups", before=before)


async def _ask_delete(form: Form, clients: ClusterClients) -> Question:
    group = form.text("group")
    status = await clients.admin.group_status(group)
    if status.clients:
        raise InvalidArgument("group", group, f"one without members: {len(status.clients)} are online")
    lag = sum(queue.lag for queue in (await clients.admin.group_lag(group)).values())
    text = f"Delete the group {group} with its offsets? {lag:,} messages are still to come for it."
    return Question(text=text, button="Delete", is_dangerous=True)


async def _reset(form: Form, clients: ClusterClients) -> Done:
    group, topic = form.text("group"), form.text("topic")
    changes = await clients.admin.reset_group(group, topic, parse_reset(form, time.time_ns() // 1_000_000))
    return Done(
        text=f"the offsets of {group} are reset in {len(changes)} queues of {topic}",
        location=link("groups", group),
        before={_name(change): change.before for change in changes},
        after={_name(change): change.after for change in changes},
    )


async def _ask_reset(form: Form, clients: ClusterClients) -> Question:
    group, topic = form.text("group"), form.text("topic")
    to = parse_reset(form, time.time_ns() // 1_000_000)
    changes = await clients.admin.reset_group(group, topic, to, dry_run=True)
    again = sum(change.again_count for change in changes)
    skipped = sum(change.skipped_count for change in changes)
    return Question(
        text=f"Reset the offsets of {group} in {topic}? {again:,} messages come again, {skipped:,} are skipped.",
        button="Reset",
        columns=("Queue", "Now", "Then", "Come again", "Skipped"),
        rows=[
            (_name(change), change.before, change.after, change.again_count, change.skipped_count) for change in changes
        ],
        is_dangerous=skipped > 0,
    )


def parse_reset(form: Form, now_ms: int) -> ResetTo:
    """Return where a group is to go on: `to` is earliest, latest, time, ago or offset, and `at` its value.

    Raises:
        InvalidArgument: `to` is none of them, or `at` is no such value.
    """
    kind = form.choice("to", ("earliest", "latest", "time", "ago", "offset"))
    if kind == "earliest":
        return ResetTo.earliest()
    if kind == "latest":
        return ResetTo.latest()
    if kind == "offset":
        return ResetTo.offset(form.number("at", 0, 2**63 - 1))
    if kind == "ago":
        return ResetTo.time(now_ms - form.number("at", 0, 100_000_000) * 60_000)
    return ResetTo.time(form.time_ms("at"))


async def _clone(form: Form, clients: ClusterClients) -> Done:
    group, target = form.text("group"), form.text("target")
    changes = await clients.admin.clone_group(group, target, form.text("topic", "") or None)
    return Done(
        text=f"{target} goes on where {group} is, in {len(changes)} queues",
        location=link("groups", target),
        before={_name(change): change.before for change in changes},
        after={_name(change): change.after for change in changes},
    )


async def _ask_clone(form: Form, clients: ClusterClients) -> Question:
    group, target = form.text("group"), check_name("target", form.text("target"), GROUP_LENGTH_MAX)
    lags = await clients.admin.group_lag(group, form.text("topic", "") or None)
    return Question(
        text=f"Let {target} go on where {group} is? It is made where it is not there; it must be offline.",
        button="Clone",
        columns=("Queue", "Offset"),
        rows=[(f"{queue.topic} {queue.broker_name} {queue.queue_id}", lag.committed) for queue, lag in lags.items()],
    )


def _offsets(lags: Mapping[MessageQueue, QueueLag]) -> dict[str, int]:
    return {f"{queue.topic} {queue.broker_name} {queue.queue_id}": lag.committed for queue, lag in lags.items()}


def _name(change: QueueReset) -> str:
    return f"{change.queue.topic} {change.queue.broker_name} {change.queue.queue_id}"


CHANGES = (
    Change(path="/groups", action="create_group", ask=_ask_create, make=_create, back="/groups"),
    Change(path="/groups/{group}/delete", action="delete_group", ask=_ask_delete, make=_delete),
    Change(path="/groups/{group}/reset", action="reset_group", ask=_ask_reset, make=_reset),
    Change(path="/groups/{group}/clone", action="clone_group", ask=_ask_clone, make=_clone),
)
