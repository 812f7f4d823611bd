"""The access of commands to servers: the options that all of them have, and the clients that these lead to."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_type_hints

import typer

from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    DEFAULT_NAME_SERVERS,
    DEFAULT_TIMEOUT_MS,
    NameServersOption,
    SecurityOption,
    TimeoutOption,
)
from orbitmq.cli.terminal.output import say
from orbitmq.cli.terminal.printable import printable

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient
    from orbitmq.admin.access import AccessClient
    from orbitmq.admin.cluster_clients import ClusterClients
    from orbitmq.cli.terminal.names import Kind
    from orbitmq.errors import ClientError
    from orbitmq.net.pool import ConnectionPool
    from orbitmq.net.security.client_security import ClientSecurity

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Access(NamedTuple):
    """Which NameServers a command asks, how long it waits for each answer, and the file of its access key and TLS."""

    name_servers: str
    security: Path | None
    timeout_ms: int

    def load_security(self) -> ClientSecurity:
        """Return the access key and the TLS settings.

        Raises:
            ConfigError: the file cannot be used.
        """
        from orbitmq.net.security.client_security import load_security

        return load_security(self.security)

    def connect(self, client: Callable[..., T]) -> T:
        """Return a client of these servers: `client` is its class.

        Raises:
            ConfigError: the security file cannot be used.
        """
        return client(self.name_servers, timeout_ms=self.timeout_ms, **self.load_security()._asdict())

    def clients(self) -> ClusterClients:
        """Return the clients of these servers, each of which is made when it is asked for.

        Raises:
            ConfigError: the security file cannot be used.
        """
        from orbitmq.admin.cluster_clients import ClusterClients

        return ClusterClients(
            self.name_servers, "orbitmq-cli", timeout_ms=self.timeout_ms, security=self.load_security()
        )

    def admin(self) -> AdminClient:
        """Return an administrator's client.

        Raises:
            ConfigError: the security file cannot be used.
        """
        from orbitmq.admin import AdminClient

        return self.connect(AdminClient)

    def access_client(self) -> AccessClient:
        """Return a client for users and rules.

        Raises:
            ConfigError: the security file cannot be used.
        """
        from orbitmq.admin.access import AccessClient

        return self.connect(AccessClient)


def command(app: typer.Typer, name: str, *, earlier: str | None = None) -> Callable[[F], F]:
    """Add a function to an app as a command.

    A parameter `access: Access` becomes three options that are the same everywhere. A coroutine function runs in an event
    loop of its own. An error about a `topic` or a `group` that is not known names the one that was meant, perhaps.

    Args:
        earlier: another name, which works and is not shown.
    """

    def add(work: F) -> F:
        app.command(name)(_as_command(work))
        if earlier is not None:
            app.command(earlier, hidden=True)(_as_command(work))
        return work

    return add


def _as_command(work: Callable[..., Any]) -> Callable[..., None]:
    hints = get_type_hints(work, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name]) for parameter in inspect.signature(work).parameters.values()
    ]
    has_access = any(parameter.name == "access" for parameter in own)

    def run_command(**given: Any) -> None:
        if has_access:
            given["access"] = Access(*(given.pop(option) for option in Access._fields))
        result = work(**given)
        if inspect.iscoroutine(result):
            from orbitmq.net.loop import run

            run(_with_suggestion(result, given))

    parameters = [parameter for parameter in own if parameter.name != "access"]
    if has_access:
        parameters += _ACCESS_PARAMETERS
    parameters.sort(key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    run_command.__name__, run_command.__doc__ = work.__name__, work.__doc__
    run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # what typer reads
    return run_command


async def _with_suggestion(work: Awaitable[None], given: Mapping[str, Any]) -> None:
    """Run a command; add the topic or the group that was meant, perhaps, to the error that it is not known."""
    from orbitmq.errors import GroupNotFound, NoMaster, RouteNotFound

    try:
        await work
    except (RouteNotFound, GroupNotFound) as error:
        from orbitmq.cli.terminal.names import similar

        kind: Kind = "group" if isinstance(error, GroupNotFound) else "topic"
        access, name = given.get("access"), given.get(kind)
        if access is not None and isinstance(name, str) and not isinstance(error, NoMaster):
            meant = await similar(access.admin, kind, name)
            if meant is not None:
                error.add_note(f"Did you mean {printable(meant)}?")
        raise


_ACCESS_PARAMETERS = [
    inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (
        ("name_servers", DEFAULT_NAME_SERVERS, NameServersOption),
        ("security", None, SecurityOption),
        ("timeout_ms", DEFAULT_TIMEOUT_MS, TimeoutOption),
    )
]


async def check_one_cluster(admin: AdminClient, cluster: str | None, broker: str | None) -> None:
    """Refuse a change that does not say where, while NameServers know several clusters.

    Raises:
        typer.BadParameter: it does not, and they do.
    """
    if cluster is None and broker is None:
        clusters = sorted((await admin.cluster_info()).clusters)
        if len(clusters) > 1:
            raise typer.BadParameter(f"of {', '.join(map(printable, clusters))}, say which", param_hint="--cluster")


async def check_owner(admin: AdminClient, action: str, *, force: bool, **values: str | None) -> None:
    """Refuse to change what the system owns; with `force` only say so on stderr.

    Args:
        action: of `orbitmq.admin.actions`.
        values: its arguments, by the names there.

    Raises:
        InvalidArgument: the system owns a topic or a group.
    """
    from orbitmq.admin.actions import ACTIONS
    from orbitmq.errors import InvalidArgument

    try:
        await ACTIONS[action].check_owner(admin, values)
    except InvalidArgument as error:
        if not force:
            raise InvalidArgument(error.field, error.value, f"{error.allowed}; --force does it all the same") from None
        say(f"orbitmq: forced, though {printable(str(error))}")


def exit_if_incomplete(problems: Mapping[str, str]) -> None:
    """Name on stderr the brokers whose part of the output is missing, and exit; does nothing without any.

    Args:
        problems: what is wrong with each of these brokers.

    Raises:
        typer.Exit: with exit code 1, if there are problems.
    """
    from orbitmq.admin.each_master import notices_of

    for notice in notices_of(problems):
        say(printable(notice))
    if problems:
        raise typer.Exit(ExitCode.NO)


@contextmanager
def named_in_errors(problems: Mapping[str, str]) -> Iterator[None]:
    """Add the brokers that a change does not reach to an error of the others: `exit_if_incomplete` is not called then.

    Args:
        problems: what is wrong with each of these brokers.
    """
    from orbitmq.admin.each_master import notices_of
    from orbitmq.errors import OrbitError

    try:
        yield
    except OrbitError as error:
        for notice in notices_of(problems):
            error.add_note(notice)
        raise


def ask_each(
    access: Access, ask: Callable[[ConnectionPool, str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, ClientError]]:
    """Ask every NameServer; return by address the answers, and why others gave none, which is also said on stderr.

    Raises:
        ClientError: none of them gives an answer; the first one's.
        ConfigError: the security file cannot be used.
    """
    import asyncio

    from orbitmq.address import parse_name_servers
    from orbitmq.errors import ClientError
    from orbitmq.net.loop import run
    from orbitmq.net.pool import ConnectionPool

    answers: dict[str, T] = {}
    silent: dict[str, ClientError] = {}

    async def ask_one(pool: ConnectionPool, address: str) -> None:
        try:
            answers[address] = await ask(pool, address)
        except ClientError as error:
            silent[address] = error

    async def work() -> None:
        pool = ConnectionPool(name="admin", **access.load_security()._asdict())
        try:
            await asyncio.gather(*(ask_one(pool, address) for address in addresses))
        finally:
            await pool.close()

    addresses = parse_name_servers(access.name_servers)
    run(work())
    first = silent.get(addresses[0]) if not answers else None
    for error in silent.values():
        if error is not first:
            say(f"orbitmq: {printable(str(error))}")
    if first is not None:
        raise first
    return {address: answers[address] for address in addresses if address in answers}, silent
