"""`orbitmq debug bundle`: a file with what is needed to find a fault: versions, settings, routes, health, issues. No secrets, no messages."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orbitmq.cli.access import Access, command
from orbitmq.cli.terminal.output import say

if TYPE_CHECKING:
    from orbitmq.doctor import Snapshot

app = typer.Typer(help="Collect what is needed to find a fault.", no_args_is_help=True, rich_markup_mode=None)
_EVENTS_MAX = 1_000


@command(app, "bundle")
async def bundle(
    access: Access,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The zip file to write.")] = Path("orbitmq-bundle.zip"),
) -> None:
    """Write a zip file with versions, settings, routes, groups, health, events and issues of a cluster, ours or Java's."""
    from orbitmq.address import parse_name_servers
    from orbitmq.doctor import examine, take_snapshot
    from orbitmq.errors import OrbitError
    from orbitmq.net.pool import ConnectionPool

    security = access.load_security()
    pool = ConnectionPool(name="debug", **security._asdict())
    addresses = parse_name_servers(access.name_servers)
    try:
        try:
            snapshot = await take_snapshot(addresses, pool, timeout_ms=access.timeout_ms, tls=security.tls)
        except OrbitError as error:
            parts: dict[str, Any] = {"error.json": {"error": str(error), "nameServers": list(addresses)}}
        else:
            parts = dict(parts_of(snapshot))
            parts["issues.json"] = [issue._asdict() for issue in examine(snapshot)]
            parts |= await _events(pool, addresses, access.timeout_ms)
    finally:
        await pool.close()
    parts["versions.json"] = versions()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in sorted(parts.items()):
            archive.writestr(name, json.dumps(value, default=_plain, indent=1, sort_keys=True))
    say(f"{file}: {len(parts)} parts, {file.stat().st_size / 1024:.0f} KiB; secrets are hidden, messages are not in it")


async def _events(pool: Any, addresses: tuple[str, ...], timeout_ms: int) -> dict[str, Any]:
    """Return what NameServers of ours remember of their routes."""
    from orbitmq.admin.monitoring import ask_history
    from orbitmq.errors import OrbitError

    found = {}
    for address in addresses:
        try:
            events = await ask_history(pool, address, count_max=_EVENTS_MAX, timeout_ms=timeout_ms)
        except OrbitError:
            continue
        found[f"nameservers/{_file_name(address)}/events.json"] = list(events)
    return found


def parts_of(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Yield the files of a bundle, with what is in each."""
    for server in snapshot.name_servers:
        folder = f"nameservers/{_file_name(server.address)}"
        yield f"{folder}/health.json", server.health or {"problem": server.problem}
        yield f"{folder}/routes.json", {} if server.routes is None else dict(server.routes.facts)
    for broker in snapshot.brokers:
        folder = f"brokers/{_file_name(f'{broker.name}-{broker.broker_id}-{broker.address}')}"
        yield f"{folder}/runtime.json", dict(broker.runtime) or {"problem": broker.problem}
        yield f"{folder}/settings.json", dict(broker.settings)
        yield f"{folder}/health.json", broker.health or {}
        yield f"{folder}/topics.json", dict(broker.topics)
        yield f"{folder}/refusals.json", dict(broker.refusals)
    yield "routes.json", dict(snapshot.routes)
    yield "queues.json", {f"{at.topic} {at.broker_name} {at.queue_id}": found for at, found in snapshot.queues.items()}
    yield (
        "groups.json",
        {
            name: {
                "status": group.status,
                "delays": {f"{at.topic} {at.broker_name} {at.queue_id}": delay for at, delay in group.delays.items()},
                "committed": {
                    f"{at.topic} {at.broker_name} {at.queue_id}": offset
                    for at, offset in snapshot.committed.get(name, {}).items()
                },
            }
            for name, group in snapshot.groups.items()
        },
    )


def versions() -> dict[str, Any]:
    """Return the versions of this program, its packages, Python and the system."""
    import platform
    from importlib.metadata import distributions

    return {
        "python": sys.version,
        "platform": platform.platform(),
        "packages": {found.metadata["Name"]: found.version for found in distributions()},
    }


def _file_name(text: str) -> str:
    """Return a name for a folder: names of brokers come from the network."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text).lstrip(".") or "_"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return str(value)
