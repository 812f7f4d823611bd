"""The clients that are online: producers by group, and the members of groups; and what one member says of itself."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.codes import version_name
from orbitmq.dashboard.answers import Column, Page, Section, missing
from orbitmq.dashboard.watching import watch_of
from orbitmq.errors import OrbitError

SHOWN_MAX = 500
_CLIENT = (
    Column("client_id", "Client"),
    Column("address", "Address"),
    Column("language", "Language"),
    Column("version", "Version"),
)
_PRODUCERS = (Column("group", "Producer group"), *_CLIENT, Column("seen_at_ms", "Last heartbeat (UTC)", "time"))
_CONSUMERS = (
    Column("group", "Group", to=("groups", "{group}")),
    Column("client_id", "Client", to=("groups", "{group}", "members", "{client_id}")),
    *_CLIENT[1:],
)
_QUEUES = (
    Column("topic", "Topic", to=("topics", "{topic}")),
    Column("broker", "Broker"),
    Column("queue_id", "Queue", "number"),
    Column("commit_offset", "Committed", "number"),
    Column("cached_count", "In its cache", "number"),
    Column("cached_size_mib", "MiB", "number"),
    Column("pulled_at_ms", "Last pull (UTC)", "time"),
    Column("consumed_at_ms", "Last consumed (UTC)", "time"),
    Column("is_locked", "Locked"),
)
_TOPICS = (
    Column("topic", "Topic", to=("topics", "{topic}")),
    Column("consume_ms", "Handler (ms)", "number"),
    Column("done_rate", "Done/s", "number"),
    Column("failed_rate", "Failed/s", "number"),
    Column("failed_count", "Failed in an hour", "number"),
    Column("pull_ms", "Pull (ms)", "number"),
    Column("pull_rate", "Pulled/s", "number"),
)
_PROPERTIES = (Column("key", "Setting"), Column("value", "Value", "long"))


async def clients(request: Request, cluster: ClusterClients) -> Page:
    """List producers, and the consumers of the last look at the cluster; Spark's readers are among the groups."""
    wanted = request.query_params.get("q", "").lower()
    problem = None
    producers: list[dict[str, Any]] = []
    try:
        found, problems = await cluster.admin.known_producers()
        problem = missing(problems)
        for group, infos in found.items():
            producers += [{"group": group, **info._asdict(), "version": version_name(info.version)} for info in infos]
    except OrbitError as error:
        problem = str(error)
    watch = watch_of(request)
    groups = {} if watch.snapshot is None else watch.snapshot.groups
    consumers = [
        {"group": name, **client._asdict(), "version": version_name(client.version)}
        for name, facts in sorted(groups.items())
        for client in facts.status.clients
    ]
    sections = [
        _section("producers", "Producers", _PRODUCERS, producers, wanted, problem),
        _section("consumers", "Consumers", _CONSUMERS, consumers, wanted, watch.problem),
    ]
    values = {"q": request.query_params.get("q", ""), "problem": problem}
    return Page("clients.html", "Clients", values, sections=sections)


def _section(
    name: str, title: str, columns: tuple[Column, ...], rows: list[dict[str, Any]], wanted: str, note: str | None
) -> Section:
    found = [row for row in rows if wanted in " ".join(map(str, row.values())).lower()]
    if len(found) > SHOWN_MAX:
        note = "; ".join(filter(None, [note, f"{SHOWN_MAX} of {len(found)} are shown: search for fewer"]))
    return Section(name=name, title=title, columns=columns, rows=found[:SHOWN_MAX], empty="None is online.", note=note)


async def member(request: Request, cluster: ClusterClients) -> Page:
    """Show what one member of a group says of its queues, handlers and settings; `?stacks=1` with its threads' stacks."""
    group, client_id = request.path_params["group"], request.path_params["client"]
    info = await cluster.admin.client_info(group, client_id, with_stacks=bool(request.query_params.get("stacks")))
    queues = [
        {
            "topic": queue.topic,
            "broker": queue.broker_name,
            "queue_id": queue.queue_id,
            **{column.key: getattr(found, column.key) for column in _QUEUES[3:]},
        }
        for queue, found in sorted(info.queues.items())
    ]
    topics = [
        {"topic": topic, **{column.key: getattr(found, column.key) for column in _TOPICS[1:]}}
        for topic, found in sorted(info.statistics.items())
    ]
    properties = [{"key": key, "value": value} for key, value in sorted(info.properties.items())]
    sections = [
        Section(name="queues", title="Queues", columns=_QUEUES, rows=queues, empty="It has no queue."),
        Section(name="topics", title="Handlers", columns=_TOPICS, rows=topics, empty="It has handled nothing."),
        Section(name="properties", title="Settings", columns=_PROPERTIES, rows=properties),
    ]
    values = {
        "group": group,
        "client_id": client_id,
        "subscriptions": {found.topic: found.expression for found in info.subscriptions},
        "stacks": info.stacks,
    }
    return Page("member.html", client_id, values, sections=sections)
