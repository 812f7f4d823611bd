"""The topics: a list that can be searched, and one topic with its queues and its latest messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request

from orbitmq.admin import AdminClient
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import ask_about
from orbitmq.admin.groups import total_lag
from orbitmq.admin.topics import TopicChange
from orbitmq.dashboard.answers import Page, link, missing, order_of, paged
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.charts import chart
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.list_facts import TopicFacts
from orbitmq.dashboard.reading import latest
from orbitmq.dashboard.watching import watch_of
from orbitmq.errors import OrbitError, RouteNotFound
from orbitmq.model.topic import (
    DEFAULT_QUEUE_COUNT,
    QUEUES_MAX,
    TOPIC_KINDS,
    Perm,
    TopicConfig,
    check_name,
    kind_of,
    permission_word,
)

_LATEST_COUNT = 20
_GROUPS_MAX = 50
"""Groups of a topic whose lag is shown."""
_ORDERS = ("topic", "kind", *TopicFacts._fields)


async def topics(request: Request, clients: ClusterClients) -> Page:
    """List topics by a part of their names and their kind: how many messages each has, now; rates and groups, at the last look."""
    admin = clients.admin
    wanted, kind = request.query_params.get("q", ""), request.query_params.get("kind", "user")
    own = await admin.own_topics()
    names = [
        topic
        for topic in await admin.topic_list()
        if wanted.lower() in topic.lower() and (kind == "all" or kind_of(topic, own) == kind)
    ]
    watch, order = watch_of(request), order_of(request, _ORDERS)
    facts = watch.lists.topics
    listed = [
        {"topic": topic, "kind": kind_of(topic, own), **facts.get(topic, TopicFacts())._asdict()} for topic in names
    ]
    shown, page = paged(request, order.sorted(listed))
    silent = await admin.silent_masters() if shown else {}

    async def row(known: Mapping[str, Any]) -> dict[str, Any]:
        return {**known, **await _sums(admin, known["topic"], silent)}

    rows = await ask_about(shown, row)
    return Page(
        "topics.html",
        "Topics",
        {
            "topics": order.sorted(rows),
            "page": page,
            "q": wanted,
            "kind": kind,
            "kinds": ("all", *TOPIC_KINDS),
            "order": order,
            "problem": missing(silent),
            "look_problem": watch.problem,
        },
    )


async def _sums(admin: AdminClient, topic: str, silent: Mapping[str, str]) -> dict[str, Any]:
    try:
        stats, problems = await admin.known_topic_stats(topic, silent=silent)
    except OrbitError as error:
        return {"queues": None, "brokers": None, "messages": None, "updated_at_ms": None, "problem": str(error)}
    return {
        "queues": len(stats),
        "brokers": len({queue.broker_name for queue in stats}),
        "messages": sum(found.max_offset - found.min_offset for found in stats.values()),
        "updated_at_ms": max((found.updated_at_ms for found in stats.values()), default=0) or None,
        "problem": missing(problems),
    }


async def topic(request: Request, clients: ClusterClients) -> Page:
    """Show one topic: its queues, where they begin and end, and the latest messages."""
    admin = clients.admin
    name = request.path_params["topic"]
    # Together: a broker that does not answer takes its time of each of them.
    (
        (stats, problems),
        (settings, settings_problem),
        (groups, groups_problem),
        (messages, problem),
    ) = await asyncio.gather(
        admin.known_topic_stats(name), _settings(clients, name), _groups(clients, name), _latest(clients, name)
    )
    queues = [
        {
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            **found._asdict(),
            "messages": found.max_offset - found.min_offset,
        }
        for queue, found in stats.items()
    ]
    watch = watch_of(request)
    came, went = (watch.history.of((what, name)) for what in ("topic in", "topic out"))
    values = {
        "topic": name,
        "kind": kind_of(name, await admin.own_topics()),
        "charts": [chart("In", "messages a second", came), chart("Out", "messages a second", went)],
        "queues": queues,
        "queues_problem": missing(problems),
        "settings": settings,
        "settings_problem": settings_problem,
        "messages": messages,
        "problem": problem,
        "groups": groups,
        "groups_problem": groups_problem,
    }
    return Page("topic.html", name, values)


async def _settings(clients: ClusterClients, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Return a topic's settings by broker, and what is missing of them."""
    try:
        configs, problems = await clients.admin.known_topic_configs(name)
    except OrbitError as error:
        return [], str(error)
    return [{"broker": broker, **found} for broker, found in _setting_rows(configs).items()], missing(problems)


async def _groups(clients: ClusterClients, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Return the groups that have read a topic or subscribe to it, with their lag in it, and what is missing of them."""
    try:
        admin, problems = await clients.admin.groups_that_answer()

        async def row(group: str) -> dict[str, Any]:
            return {"group": group, "lag": total_lag((await admin.lag(group, name)).values())}

        return await ask_about((await admin.of_topic(name))[:_GROUPS_MAX], row), missing(problems)
    except OrbitError as error:
        return [], str(error)


async def _latest(clients: ClusterClients, name: str) -> tuple[Sequence[dict[str, Any]], str | None]:
    """Return a topic's latest messages, and what is missing of them."""
    try:
        found, problems = await latest(clients, name, _LATEST_COUNT)
    except OrbitError as error:
        return (), str(error)
    return found, missing(problems)


async def _create(form: Form, clients: ClusterClients) -> Done:
    config = TopicConfig(
        topic=form.text("topic"),
        read_queue_count=form.number("queues", 1, QUEUES_MAX, DEFAULT_QUEUE_COUNT),
        write_queue_count=form.number("queues", 1, QUEUES_MAX, DEFAULT_QUEUE_COUNT),
        perm=form.number("perm", 0, 7, int(Perm.READ_WRITE)),
        attributes={"+message.type": kind} if (kind := form.text("type", "")) else {},
    )
    before = await _present(clients, config.topic)
    targets = await clients.admin.create_topic(config, cluster=form.text("cluster", "") or None)
    text = f"{config.topic} is {'changed' if before else 'made'} on {', '.join(sorted(targets))}"
    after = await _present(clients, config.topic)
    return Done(text=text, location=link("topics", config.topic), before=before, after=after)


async def _ask_create(form: Form, clients: ClusterClients) -> Question:
    topic = check_name("topic", form.text("topic"))
    masters = await clients.admin.masters(cluster=form.text("cluster", "") or None)
    present = await _present(clients, topic)
    queues = form.number("queues", 1, QUEUES_MAX, DEFAULT_QUEUE_COUNT)
    rows = [(name, present.get(name, {}).get("read", "–"), queues) for name in sorted(masters)]
    text = f"Change {topic}, which is there?" if present else f"Create {topic}?"
    return Question(text=text, button="Create", columns=("Broker", "Queues now", "Queues then"), rows=rows)


async def _change(form: Form, clients: ClusterClients) -> Done:
    topic = form.text("topic")
    before = await _present(clients, topic)
    await clients.admin.change_topic(topic, _wanted(form))
    return Done(
        text=f"{topic} is changed",
        location=link("topics", topic),
        before=before,
        after=await _present(clients, topic),
    )


async def _ask_change(form: Form, clients: ClusterClients) -> Question:
    topic, wanted = form.text("topic"), _wanted(form)
    rows = []
    for broker, found in (await _present(clients, topic)).items():
        for name, value in (
            ("read", wanted.read_queue_count),
            ("write", wanted.write_queue_count),
            ("perm", wanted.perm),
            ("order", wanted.order),
        ):
            if value is not None and value != found[name]:
                now, then = (permission_word(bits) if name == "perm" else bits for bits in (found[name], value))
                rows.append((broker, name, now, then))
    text = f"Change {topic}?" if rows else f"{topic} has these settings: nothing would change."
    is_fewer = any(name in ("read", "write") and int(then) < int(now) for _, name, now, then in rows)
    return Question(
        text=text
        + (
            " It is refused while queues that go hold messages: first the write queues, then the read queues."
            if is_fewer
            else ""
        ),
        button="Change",
        columns=("Broker", "Setting", "Now", "Then"),
        rows=rows,
        is_dangerous=is_fewer,
    )


def _wanted(form: Form) -> TopicChange:
    return TopicChange(
        read_queue_count=form.number("read", 1, QUEUES_MAX),
        write_queue_count=form.number("write", 1, QUEUES_MAX),
        perm=form.number("perm", 0, 7),
        order=form.flag("order"),
    )


async def _delete(form: Form, clients: ClusterClients) -> Done:
    topic = form.text("topic")
    before = await _present(clients, topic)
    addresses = await clients.admin.delete_topic(topic)
    return Done(text=f"{topic} is deleted from {len(addresses)} brokers", location="/topics", before=before)


async def _ask_delete(form: Form, clients: ClusterClients) -> Question:
    topic = form.text("topic")
    stats = await clients.admin.topic_stats(topic)
    counts: dict[str, int] = {}
    for queue, found in stats.items():
        counts[queue.broker_name] = counts.get(queue.broker_name, 0) + found.max_offset - found.min_offset
    readers = await clients.admin.topic_groups(topic)
    text = f"Delete {topic} with its {sum(counts.values()):,} messages?"
    if readers:
        text += f" It is read by {', '.join(readers[:5])}{' and others' if len(readers) > 5 else ''}."
    return Question(
        text=text, button="Delete", columns=("Broker", "Messages"), rows=sorted(counts.items()), is_dangerous=True
    )


async def _present(clients: ClusterClients, topic: str) -> dict[str, dict[str, Any]]:
    """Return a topic's settings by broker; empty where there is no such topic."""
    try:
        configs = await clients.admin.topic_configs(topic)
    except RouteNotFound:
        return {}
    return _setting_rows(configs)


def _setting_rows(configs: Mapping[str, TopicConfig]) -> dict[str, dict[str, Any]]:
    return {
        broker: {
            "read": config.read_queue_count,
            "write": config.write_queue_count,
            "perm": config.perm,
            "order": config.order,
            "attributes": dict(config.attributes),
        }
        for broker, config in sorted(configs.items())
    }


CHANGES = (
    Change(path="/topics", action="create_topic", ask=_ask_create, make=_create, back="/topics"),
    Change(path="/topics/{topic}/change", action="change_topic", ask=_ask_change, make=_change),
    Change(path="/topics/{topic}/delete", action="delete_topic", ask=_ask_delete, make=_delete),
)
