"""One broker name: its members and how they follow, its settings, its write permission, and the steps of its retirement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from starlette.requests import Request

from orbitmq.address import parse_name_servers
from orbitmq.admin.broker_settings import Setting, list_settings, next_start_settings
from orbitmq.admin.brokers import find_brokers
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import change_each
from orbitmq.admin.monitoring import set_write_perm
from orbitmq.dashboard.answers import Column, Page, Section, link
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.charts import chart
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.watching import Watch, watch_of
from orbitmq.doctor.issues import command
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.masking import masked_value
from orbitmq.model.topic import Perm

_MEMBERS = (
    Column("id", "Id", "number"),
    Column("role", "Role"),
    Column("address", "Address"),
    Column("version", "Version"),
    Column("log_end", "End of its log", "number"),
    Column("behind", "Behind (bytes)", "number"),
    Column("in_sync", "In the sync set"),
    Column("epoch", "Epoch"),
    Column("unflushed", "Not on disk yet"),
    Column("dispatch_behind", "Not in queues yet (bytes)", "number"),
    Column("page_cache_ms", "Wait for the page cache (ms)", "number"),
    Column("send_queue", "Sends that wait", "number"),
    Column("problem", "Problem", "long"),
)
_RUNTIME = (Column("key", "Value of"), Column("value", "", "long"))
_OF_THE_MACHINE = ("aclFile", "brokerName", "storePathRootDir")
"""Settings whose defaults differ from machine to machine."""
_STEPS = (Column("step", "Step"), Column("state", "State"))


async def broker(request: Request, clients: ClusterClients) -> Page:
    """Show the members of a broker name."""
    name = request.path_params["broker"]
    found = await find_brokers(clients.admin)
    members = [row for row in found.rows if row["broker"] == name]
    if not members:
        raise InvalidArgument(
            "broker", name, "one that is registered: " + ", ".join(sorted({row["broker"] for row in found.rows}))
        )
    infos = await asyncio.gather(*(_runtime(clients, row["address"]) for row in members))
    master = next((told for row, told in zip(members, infos, strict=True) if row["id"] == 0), {})
    rows = [_member(row, told, master) for row, told in zip(members, infos, strict=True)]
    rows.sort(key=lambda row: row["id"])
    address = next((row["address"] for row in rows if row["id"] == 0), None)
    settings, next_start, problem = await _settings(clients, address)
    watch = watch_of(request)
    sections = [
        Section(name="members", title="Members", columns=_MEMBERS, rows=rows),
        Section(name="steps", title="Retire it", columns=_STEPS, rows=_steps(watch, name), note=watch.problem),
        Section(
            name="runtime",
            title="What the master says of itself",
            columns=_RUNTIME,
            rows=[{"key": key, "value": value} for key, value in sorted(master.items())],
        ),
    ]
    disks = [
        chart(f"Disk at {row['address']}", "% in use", watch.history.of(("disk", row["address"])), top=100.0)
        for row in rows
    ]
    values = {"broker": name, "settings": settings, "next_start": next_start, "problem": problem, "charts": disks}
    return Page("broker.html", name, values, sections=sections)


async def _runtime(clients: ClusterClients, address: str) -> dict[str, str]:
    try:
        return await clients.admin.broker_runtime_info(address)
    except OrbitError:
        return {}


async def _settings(
    clients: ClusterClients, address: str | None
) -> tuple[list[dict[str, Any]], dict[str, str], str | None]:
    if address is None:
        return [], {}, "there is no master"
    try:
        shown = await clients.admin.broker_settings(address)
    except OrbitError as error:
        return [], {}, str(error)
    return changed_first(list_settings(shown), _defaults()), next_start_settings(shown), None


@cache
def _defaults() -> Mapping[str, str]:
    """Return the values that settings of our brokers have where nothing is set; most are Java's."""
    from orbitmq.broker.config import BrokerConfig
    from orbitmq.broker.settings.file import WITHOUT_EFFECT

    found = WITHOUT_EFFECT | BrokerConfig().to_properties()
    return {key: value for key, value in found.items() if key not in _OF_THE_MACHINE}


def changed_first(settings: Iterable[Setting], defaults: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return settings with their defaults (None: unknown), those with another value first."""
    rows = [
        {
            **setting._asdict(),
            "default": (default := defaults.get(setting.key)),
            "is_changed": None if default is None else setting.value != default,
        }
        for setting in settings
    ]
    return sorted(rows, key=lambda row: not row["is_changed"])


def _member(row: dict[str, Any], told: dict[str, str], master: dict[str, str]) -> dict[str, Any]:
    in_sync = master["syncStateSet"].split() if "syncStateSet" in master else None
    return {
        **{key: row[key] for key in ("id", "role", "address", "version", "behind", "epoch", "problem")},
        "log_end": _number(told.get("commitLogMaxOffset")),
        "in_sync": None if in_sync is None else str(row["id"]) in in_sync,
        "unflushed": told.get("remainHowManyDataToFlush"),
        "dispatch_behind": _number(told.get("dispatchBehindBytes")),
        "page_cache_ms": _number(told.get("pageCacheLockTimeMills")),
        "send_queue": _number(told.get("sendThreadPoolQueueSize")),
    }


def _steps(watch: Watch, name: str) -> list[dict[str, Any]]:
    """Return the steps that retire a broker, with how far each is, as the last look at the cluster knows."""
    snapshot = watch.snapshot
    if snapshot is None:
        return []
    writable = [
        topic
        for topic, route in snapshot.routes.items()
        for data in route.queues
        if data.broker_name == name and data.perm & Perm.WRITE
    ]
    unread = {
        group: sum(
            max(0, snapshot.queues[queue].max_offset - max(offset, snapshot.queues[queue].min_offset))
            for queue, offset in places.items()
            if queue.broker_name == name and queue in snapshot.queues
        )
        for group, places in snapshot.committed.items()
        if group in snapshot.groups
    }
    behind = sorted(group for group, lag in unread.items() if lag)
    closed = "done" if not writable else f"{len(writable)} topics are written to"
    read = (
        "done"
        if not behind
        else f"{sum(unread.values()):,} messages for {', '.join(behind[:3])}{' …' if len(behind) > 3 else ''}"
    )
    return [
        {"step": "1. Take its write permission (below): producers go to the other brokers", "state": closed},
        {"step": "2. Wait until all groups have read what is on it", "state": read},
        {"step": "3. Stop it (SIGTERM): it says goodbye to the NameServers", "state": "running"},
        {
            "step": "What stays on it, as delayed messages and topics that no group reads",
            "state": f"{command('broker', 'retire', name, '--force', '--dry-run')} names it",
        },
    ]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


async def _ask_set(form: Form, clients: ClusterClients) -> Question:
    name, key, value = form.text("broker"), form.text("key"), form.raw("value").strip()
    addresses = await clients.admin.masters(broker=name)
    shown = await clients.admin.broker_settings(addresses[name])
    setting = next((found for found in list_settings(shown) if found.key == key), None)
    if setting is None:
        raise InvalidArgument("key", key, f"a setting of {name}")
    if setting.may_change is False:
        raise InvalidArgument("key", key, "one that may change while the broker runs")
    return Question(
        text=f"Change {key} of {name}?",
        button="Change",
        columns=("Setting", "Now", "Then"),
        rows=[(key, setting.value, masked_value(key, value))],
    )


async def _set(form: Form, clients: ClusterClients) -> Done:
    name, key, value = form.text("broker"), form.text("key"), form.raw("value").strip()
    address = (await clients.admin.masters(broker=name))[name]
    before = (await clients.admin.broker_settings(address)).get(key)
    if key == "namesrvAddr":
        await clients.admin.check_name_servers(value)
    said = await clients.admin.change_broker_settings(address, {key: value})
    after = (await clients.admin.broker_settings(address)).get(key)
    text = f"{key} of {name} is {after}" + (f" ({said})" if said else "")
    return Done(text=text, location=link("brokers", name), before={key: before}, after={key: after})


async def _ask_write_perm(form: Form, clients: ClusterClients) -> Question:
    name, is_writable = form.text("broker"), form.choice("writable", ("yes", "no")) == "yes"
    addresses = parse_name_servers(clients.name_servers)
    text = (
        f"Let producers write to {name} again?"
        if is_writable
        else f"Take the write permission of {name}? Producers go to other brokers; consumers go on reading."
    )
    rows = [(address, "yes" if is_writable else "no") for address in addresses]
    button = "Allow writing" if is_writable else "Take it"
    return Question(text=text, button=button, columns=("NameServer", "Writable then"), rows=rows)


async def _write_perm(form: Form, clients: ClusterClients) -> Done:
    name, is_writable = form.text("broker"), form.choice("writable", ("yes", "no")) == "yes"

    async def change(_name: str, address: str) -> int:
        return await set_write_perm(clients.pool, address, name, is_writable=is_writable, timeout_ms=clients.timeout_ms)

    counts = await change_each({address: address for address in parse_name_servers(clients.name_servers)}, change)
    if not any(counts.values()):
        raise InvalidArgument("broker", name, "one that the NameServers know topics of")
    word = "can be written to" if is_writable else "is not written to any more"
    return Done(
        text=f"{name} {word}: {max(counts.values())} topics on each of {len(counts)} NameServers",
        location=link("brokers", name),
        after=counts,
    )


CHANGES = (
    Change(path="/brokers/{broker}/setting", action="change_setting", ask=_ask_set, make=_set),
    Change(
        path="/brokers/{broker}/write-permission",
        action="set_write_permission",
        ask=_ask_write_perm,
        make=_write_perm,
    ),
)
