"""`orbitmq health`: how every NameServer is doing, and every broker that they know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from orbitmq.address import parse_name_servers
from orbitmq.cli.access import Access, ask_each
from orbitmq.cli.terminal.exits import ExitCode, exit_code_of, explain
from orbitmq.cli.terminal.options import (
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, say, show_json, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.errors import InvalidArgument, RemoteRefused

if TYPE_CHECKING:
    from orbitmq.admin.controller_facts import ControllerFacts
    from orbitmq.errors import ClientError
    from orbitmq.net.pool import ConnectionPool

Health = dict[str, Any]


def health(
    access: Access,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show the health of every NameServer, broker and controller: alerts, warnings, figures.

    Exit code 1: an alert that is an error; 4: alerts that are warnings alone; 0: neither.
    """
    found, names = _ask_name_servers(access)
    replication = _ask_replication(access) if names else {}
    brokers = {
        address: {**document, **replication.get(address, {})}
        for address, document in (_ask_brokers(access, names) if names else {}).items()
    }
    controllers = _ask_controllers(access, brokers)
    if output is Format.JSON:
        servers = [{"nameServer": address, **document} for address, document in found.items()]
        servers += [{"broker": address, **document} for address, document in brokers.items()]
        show_json(servers + [{"controller": address, **document} for address, document in controllers.items()])
    else:
        _show_name_servers(found)
        if brokers:
            print()
            _show_brokers(brokers, names)
        if controllers:
            print()
            _show_controllers(controllers)
        _say_report({**found, **brokers, **controllers})
    if not any(document.get("reachable", True) for document in found.values()):
        say(
            "no NameServer answered: is one running (orbitmq nameserver, mqnamesrv)? Others are named with -n or NAMESRV_ADDR"
        )
        raise typer.Exit(ExitCode.UNREACHABLE)
    code = exit_code_for((*found.values(), *brokers.values(), *controllers.values()))
    if code is not ExitCode.OK:
        raise typer.Exit(code)


def exit_code_for(documents: Iterable[Health]) -> ExitCode:
    """Return how bad health documents are: as `orbitmq doctor` takes their alerts."""
    from orbitmq.admin.controller_facts import is_warning

    alerts = [alert for document in documents for alert in document["alerts"]]
    if not all(map(is_warning, alerts)):
        return ExitCode.NO
    return ExitCode.WARNINGS if alerts else ExitCode.OK


def _ask_name_servers(access: Access) -> tuple[dict[str, Health], dict[str, str]]:
    """Return the health of each NameServer, and the names of the brokers that they know, by address."""
    from orbitmq.admin.monitoring import ask_brokers, ask_health
    from orbitmq.errors import ClientError

    names: dict[str, str] = {}

    async def ask(pool: ConnectionPool, address: str) -> Health:
        try:
            found = await ask_health(pool, address, timeout_ms=access.timeout_ms)
            names.update(await ask_brokers(pool, address, timeout_ms=access.timeout_ms))
        except ClientError as error:
            return _unknown(error)
        return found

    return ask_each(access, ask)[0], dict(sorted(names.items(), key=lambda item: (item[1], item[0])))


def _ask_brokers(access: Access, names: Mapping[str, str]) -> dict[str, Health]:
    from orbitmq.admin.monitoring import ask_broker_health
    from orbitmq.errors import ClientError

    async def ask(pool: ConnectionPool, address: str) -> Health:
        try:
            return await ask_broker_health(pool, address, timeout_ms=access.timeout_ms)
        except ClientError as error:
            return _unknown(error)

    # any client may register a broker, also at an address that is none.
    addresses = [address for address in names if _is_address(address)]
    found = ask_each(access._replace(name_servers=";".join(addresses)), ask)[0] if addresses else {}
    return {address: found.get(address) or unreachable("is not a host:port") for address in names}


def _ask_replication(access: Access) -> dict[str, Health]:
    """Return each broker's role, how many bytes it is behind its master, and whether it is in the sync set, by address."""
    from orbitmq.admin.brokers import find_brokers
    from orbitmq.errors import ClientError
    from orbitmq.net.loop import run

    async def ask() -> dict[str, Health]:
        async with access.admin() as admin:
            try:
                rows = (await find_brokers(admin)).rows
            except ClientError:  # what is wrong is said of each server by itself
                return {}
        return {
            row["address"]: {
                "role": row["role"],
                "behind": row["behind"],
                "inSync": row["in_sync"],
                "controllers": row["controllers"],
            }
            for row in rows
        }

    return run(ask())


def _ask_controllers(access: Access, brokers: Mapping[str, Health]) -> dict[str, Health]:
    """Return the health of each controller that brokers name, by address."""
    from orbitmq.admin.brokers import controllers_of
    from orbitmq.admin.controllers import ask_controllers
    from orbitmq.net.loop import run
    from orbitmq.net.pool import ConnectionPool

    addresses = controllers_of(document.get("controllers") for document in brokers.values())

    async def ask() -> dict[str, Health]:
        pool = ConnectionPool(name="admin", **access.load_security()._asdict())
        try:
            facts = await ask_controllers(pool, addresses, timeout_ms=access.timeout_ms)
        finally:
            await pool.close()
        return documents_of(facts)

    return run(ask()) if addresses else {}


def documents_of(controllers: Sequence[ControllerFacts]) -> dict[str, Health]:
    """Return the health document of each controller, by address; that of one that does not answer says what follows."""
    from orbitmq.admin.controller_facts import controller_issues

    lost = {issue.address: issue for issue in reversed(controller_issues(controllers))}
    return {
        one.address: {"healthy": True, "alerts": [], **one.health}
        if one.problem is None
        else unreachable(lost[one.address].text, is_error=lost[one.address].is_error)
        for one in controllers
    }


def _is_address(text: str) -> bool:
    try:
        return parse_name_servers(text) == (text,)
    except InvalidArgument:
        return False


def _unknown(error: ClientError) -> Health:
    """Return what is said of a server that told nothing of its health: a server that refuses, or talks nonsense, was reached."""
    if exit_code_of(error) is ExitCode.UNREACHABLE:
        return unreachable(explain(error))
    rule = "Refused" if isinstance(error, RemoteRefused) else "Unknown"
    return {"healthy": False, "alerts": [{"rule": rule, "reason": explain(error)}]}


def unreachable(reason: str, *, is_error: bool = True) -> Health:
    """Return the health document of a server that does not answer."""
    alert = {"rule": "Unreachable", "reason": reason, **({} if is_error else {"severity": "warning"})}
    return {"healthy": False, "reachable": False, "alerts": [alert]}


def _show_name_servers(found: Mapping[str, Health]) -> None:
    rows = [
        {
            "name_server": address,
            "healthy": document["healthy"],
            "brokers": document.get("brokers"),
            "topics": document.get("topics"),
            "connections": document.get("connections"),
            "memory_mb": _megabytes(document),
            "lag_ms": document.get("loopLagMs"),
        }
        for address, document in found.items()
    ]
    show_rows(rows, list(rows[0]), Format.TABLE)


def _show_brokers(found: Mapping[str, Health], names: Mapping[str, str]) -> None:
    rows = [
        {
            "broker": printable(names[address], is_cell=True),
            "address": printable(address, is_cell=True),
            "healthy": document["healthy"],
            "ready": document.get("ready"),
            "role": document.get("role"),
            "behind": document.get("behind"),
            "in_sync": document.get("inSync"),
            "topics": document.get("topics"),
            "groups": document.get("consumerGroups"),
            "connections": document.get("connections"),
            "disk_used": _percent(document.get("diskUsedRatio")),
            "memory_mb": _megabytes(document),
            "lag_ms": document.get("loopLagMs"),
        }
        for address, document in found.items()
    ]
    show_rows(rows, list(rows[0]), Format.TABLE)


def _show_controllers(found: Mapping[str, Health]) -> None:
    rows = [
        {
            "controller": printable(address, is_cell=True),
            "healthy": document["healthy"],
            "ready": document.get("ready"),
            "leads": document.get("isLeader"),
            "brokers_alive": document.get("brokersAlive"),
            "groups": document.get("groups"),
        }
        for address, document in found.items()
    ]
    show_rows(rows, list(rows[0]), Format.TABLE)


def _say_report(found: Mapping[str, Health]) -> None:
    for address, document in found.items():
        for alert in document["alerts"]:
            say(printable(f"{address}: {alert['rule']}: {alert['reason']}"))
        for warning in document.get("warnings", ()):
            say(printable(f"{address}: {warning}"))


def _megabytes(document: Health) -> int | None:
    return round(document["memory"] / 2**20) if "memory" in document else None


def _percent(ratio: float | None) -> str | None:
    return None if ratio is None else f"{ratio:.0%}"
