"""Which brokers a command is about: one by its address or its name, one cluster's masters, or all masters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

from orbitmq.address import parse_name_servers
from orbitmq.cli.terminal.exits import exit_code_of, explain
from orbitmq.cli.terminal.output import say

if TYPE_CHECKING:
    from orbitmq.admin import AdminClient
    from orbitmq.errors import ClientError

T = TypeVar("T")

AddressOption = Annotated[
    str | None, typer.Option("--address", metavar="HOST:PORT", help="The broker here, registered or not.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Only the master of this broker name.")]
ClusterOption = Annotated[str | None, typer.Option("--cluster", help="Only this cluster's masters.")]


class BrokerSelection(NamedTuple):
    """What was said of the brokers that are meant."""

    address: str | None
    name: str | None
    cluster: str | None

    async def find(self, admin: AdminClient) -> Mapping[str, str]:
        """Return the addresses of the brokers by their names; one that was chosen by its address is called so.

        Raises:
            typer.BadParameter: the address is none, or stands next to a name.
            InvalidArgument: no broker has this name.
        """
        if self.address is None:
            return dict(sorted((await admin.masters(cluster=self.cluster, broker=self.name)).items()))
        if self.name is not None or self.cluster is not None:
            raise typer.BadParameter("it says all; leave out --name and --cluster", param_hint="--address")
        if parse_name_servers(self.address) != (self.address,):
            raise typer.BadParameter(f"{self.address!r} is not one HOST:PORT", param_hint="--address")
        return {self.address: self.address}


async def ask_brokers(brokers: Mapping[str, str], ask: Callable[[str], Awaitable[T]]) -> tuple[dict[str, T], int]:
    """Ask one broker after the other.

    Returns:
        The answers by broker, and the exit code: that of the first broker which gave none. Each of those is told on stderr.

    Raises:
        ClientError: none of them gives an answer.
    """
    from orbitmq.errors import ClientError

    answers: dict[str, T] = {}
    silent: list[ClientError] = []
    for name, address in brokers.items():
        try:
            answers[name] = await ask(address)
        except ClientError as error:
            silent.append(error)
    if not answers:
        raise silent[0]
    for reason in silent:
        say(f"orbitmq: {explain(reason)}")
    return answers, exit_code_of(silent[0]) if silent else 0
