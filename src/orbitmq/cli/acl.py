"""`orbitmq acl …`: rules that allow users something, or deny it (ACL 2.0)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from orbitmq.cli.access import Access, command, exit_if_incomplete
from orbitmq.cli.terminal.confirm import DryRunOption, YesOption, confirm
from orbitmq.cli.terminal.exits import ExitCode
from orbitmq.cli.terminal.options import (
    BrokerOption,
    FormatOption,
)
from orbitmq.cli.terminal.output import Format, say, show_rows
from orbitmq.cli.terminal.printable import printable
from orbitmq.cli.user import show_brokers

if TYPE_CHECKING:
    from orbitmq.model.access import Acl

app = typer.Typer(help="Rules of users: which actions on which resources.", no_args_is_help=True, rich_markup_mode=None)

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="Topic:orders, Group:orders*, Cluster:* or *.")
]

_COLUMNS = ("broker", "user", "policy", "resource", "actions", "source_ips", "decision")


@command(app, "list")
async def list_rules(
    access: Access,
    user: Annotated[str | None, typer.Option("--user", help="Only of users whose names contain this.")] = None,
    resource: Annotated[str | None, typer.Option("--resource", help="Only about resources that contain this.")] = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the rules of each broker."""
    async with access.access_client() as client:
        found = await client.rules(user, resource, broker=broker)
    rows = [
        {
            "broker": name,
            "user": acl.subject.partition(":")[2],
            "policy": policy.type.value,
            "resource": str(rule.resource),
            "actions": ",".join(rule.actions),
            "source_ips": ",".join(rule.source_ips) or None,
            "decision": rule.decision.value,
        }
        for name, acls in found.items()
        for acl in acls
        for policy in acl.policies
        for rule in policy.rules
    ]
    show_rows(rows, _COLUMNS, output)


@command(app, "allow")
async def allow(
    access: Access,
    user: UserArgument,
    resource: ResourceArgument,
    actions: Annotated[str, typer.Argument(metavar="ACTIONS", help="Pub, Sub, Get ... with commas; All.")],
    source: Annotated[list[str] | None, typer.Option("--from", help="Only from this address or network.")] = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Allow a user something; a rule about the same resource is replaced."""
    brokers = await _add(access, "Allow", user, resource, actions, source, broker)
    show_brokers(user, brokers, output)


@command(app, "deny")
async def deny(
    access: Access,
    user: UserArgument,
    resource: ResourceArgument,
    actions: Annotated[str, typer.Argument(metavar="ACTIONS", help="Pub, Sub, Get ... with commas; All.")],
    source: Annotated[list[str] | None, typer.Option("--from", help="Only from this address or network.")] = None,
    broker: BrokerOption = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Deny a user something; a rule about the same resource is replaced."""
    brokers = await _add(access, "Deny", user, resource, actions, source, broker)
    show_brokers(user, brokers, output)


@command(app, "delete")
async def delete(
    access: Access,
    user: UserArgument,
    resource: Annotated[str | None, typer.Argument(metavar="[RESOURCE]", help="Only the rule about this.")] = None,
    broker: BrokerOption = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Delete a user's rules, or the one about a resource, after a question.

    Exit code 1 when there is none, or when a broker is gone: that one keeps them.
    """
    async with access.access_client() as client:
        found = await client.rules(user, broker=broker)
        is_known = any(_has_rule(acls, user, resource) for acls in found.values())
        if is_known:
            rules = "all rules" if resource is None else f"the rule about {printable(resource)}"
            confirm(f"delete {rules} of the user {printable(user)}", yes=yes, dry_run=dry_run)
        brokers = await client.delete_rules(user, resource, broker=broker) if is_known else []
        missing = {} if broker else await client.missing_masters()
    if not brokers:
        about = "" if resource is None else f" about {printable(resource)}"
        say(f"orbitmq: no broker has a rule of user {printable(user)}{about}: nothing was deleted")
        exit_if_incomplete(missing)
        raise typer.Exit(ExitCode.NO)
    show_brokers(user, brokers, output)
    exit_if_incomplete(missing)


def _has_rule(acls: Iterable[Acl], user: str, resource: str | None) -> bool:
    """Return True if one of these rules is a user's, and, if one is named, about a resource."""
    return any(
        acl.subject == f"User:{user}" and (resource is None or str(rule.resource) == resource)
        for acl in acls
        for policy in acl.policies
        for rule in policy.rules
    )


async def _add(
    access: Access,
    decision: str,
    user: str,
    resource: str,
    actions: str,
    source: list[str] | None,
    broker: str | None,
) -> list[str]:
    from orbitmq.admin.access import acl_of
    from orbitmq.model.access import AccessDecision, AccessRule, Action, by_name, parse_resource

    found = parse_resource(resource)
    if found is None:
        raise typer.BadParameter("expected Topic:, Group: or Cluster: and a name, or *", param_hint="RESOURCE")
    words = [by_name(Action, word.strip()) for word in actions.split(",")]
    known = tuple(word for word in words if word is not None)
    if len(known) != len(words):
        allowed = ", ".join(action for action in Action if action not in (Action.ANY, Action.UNKNOWN))
        raise typer.BadParameter(f"expected {allowed}", param_hint="ACTIONS")
    acl = acl_of(user, AccessRule(found, known, tuple(source or ()), AccessDecision(decision)))

    async with access.access_client() as client:
        return await client.add_rule(acl, broker=broker)
