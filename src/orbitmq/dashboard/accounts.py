"""Users of the cluster's brokers and their rules (ACL 2.0)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from orbitmq.admin.access import acl_of
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.answers import Column, Page, Section
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.forms import Form
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Action,
    UserStatus,
    UserType,
    by_name,
    parse_resource,
)
from orbitmq.wire.bodies.access import UserChange

_USERS = (Column("broker", "Broker"), Column("name", "User"), Column("type", "Type"), Column("status", "Status"))
_RULES = (
    Column("broker", "Broker"),
    Column("user", "User"),
    Column("resource", "Resource"),
    Column("actions", "Actions"),
    Column("source_ips", "From"),
    Column("decision", "Decision"),
    Column("policy", "Policy"),
)


async def accounts(_request: Request, clients: ClusterClients) -> Page:
    """List the users and rules of each broker; where brokers have none, it says why."""
    users: list[dict[str, Any]] = []
    rules: list[dict[str, Any]] = []
    problem = None
    try:
        async with clients.access() as access:
            for broker, found in (await access.users()).items():
                users += [
                    {"broker": broker, "name": user.name, "type": user.type.value, "status": user.status.value}
                    for user in found
                ]
            for broker, acls in (await access.rules()).items():
                rules += [
                    {
                        "broker": broker,
                        "user": acl.subject.partition(":")[2],
                        "label": f"the rule of {acl.subject.partition(':')[2]} about {rule.resource}",
                        "resource": str(rule.resource),
                        "actions": ", ".join(rule.actions),
                        "source_ips": ", ".join(rule.source_ips) or None,
                        "decision": rule.decision.value,
                        "policy": policy.type.value,
                    }
                    for acl in acls
                    for policy in acl.policies
                    for rule in policy.rules
                ]
    except OrbitError as error:
        problem = str(error)
    sections = [
        Section(name="users", title="Users", columns=_USERS, rows=users, empty="There is no user."),
        Section(name="rules", title="Rules", columns=_RULES, rows=rules, empty="There is no rule."),
    ]
    return Page("accounts.html", "Users", {"problem": problem}, sections=sections)


async def _create(form: Form, clients: ClusterClients) -> Done:
    # Without a question: its form would hold the secret key.
    name = form.text("user")
    if not form.raw("password"):
        raise InvalidArgument("password", "nothing", "a secret key")
    change = UserChange(form.raw("password"), UserType(form.choice("type", ("Normal", "Super"))), UserStatus.ENABLE)
    async with clients.access() as access:
        brokers = await access.create_user(name, change)
    return Done(text=f"{name} is a user of {', '.join(brokers)}", location="/users", after={"type": change.type})


async def _ask_delete(form: Form, _clients: ClusterClients) -> Question:
    name = form.text("user")
    return Question(text=f"Delete the user {name} with its rules?", button="Delete", is_dangerous=True)


async def _delete(form: Form, clients: ClusterClients) -> Done:
    name = form.text("user")
    async with clients.access() as access:
        before = {
            broker: [str(user.type) for user in found if user.name == name]
            for broker, found in (await access.users(name)).items()
        }
        brokers = await access.delete_user(name)
    return Done(text=f"{name} is not a user of {', '.join(brokers)} any more", location="/users", before=before)


def _rule(form: Form) -> AccessRule:
    """Return the rule of a form.

    Raises:
        InvalidArgument: the resource, an action or the decision is none.
    """
    resource = parse_resource(form.text("resource"))
    if resource is None:
        raise InvalidArgument(
            "resource", form.raw("resource"), "Topic:NAME, Group:NAME, Cluster:NAME, with * at the end or alone"
        )
    actions = []
    for word in form.text("actions").replace(",", " ").split():
        action = by_name(Action, word)
        if action in (None, Action.UNKNOWN):
            raise InvalidArgument("actions", word, "some of All, Pub, Sub, Create, Update, Delete, Get, List")
        actions.append(action)
    sources = tuple(form.text("from", "").replace(",", " ").split())
    decision = AccessDecision(form.choice("decision", ("Allow", "Deny")))
    return AccessRule(resource, tuple(action for action in actions if action is not None), sources, decision)


async def _ask_rule(form: Form, _clients: ClusterClients) -> Question:
    name, rule = form.text("user"), _rule(form)
    return Question(
        text=f"{rule.decision} this to {name}? A rule about the same resource is replaced.",
        button=str(rule.decision),
        columns=("Resource", "Actions", "From"),
        rows=[(str(rule.resource), ", ".join(rule.actions), ", ".join(rule.source_ips) or "everywhere")],
    )


async def _add_rule(form: Form, clients: ClusterClients) -> Done:
    name, rule = form.text("user"), _rule(form)
    async with clients.access() as access:
        brokers = await access.add_rule(acl_of(name, rule))
    after = {"resource": str(rule.resource), "actions": list(rule.actions), "decision": rule.decision}
    return Done(text=f"{name} has the rule on {', '.join(brokers)}", location="/users", after=after)


async def _ask_delete_rule(form: Form, _clients: ClusterClients) -> Question:
    text = f"Delete the rule of {form.text('user')} about {form.text('resource')}?"
    return Question(text=text, button="Delete", is_dangerous=True)


async def _delete_rule(form: Form, clients: ClusterClients) -> Done:
    name, resource = form.text("user"), form.text("resource")
    async with clients.access() as access:
        brokers = await access.delete_rules(name, resource)
    text = f"{name} has no rule about {resource} on {', '.join(brokers)} any more"
    return Done(text=text, location="/users", before={"resource": resource})


CHANGES = (
    Change(path="/users", action="create_user", make=_create),
    Change(path="/users/{user}/delete", action="delete_user", ask=_ask_delete, make=_delete, back="/users"),
    Change(path="/rules", action="add_rule", ask=_ask_rule, make=_add_rule, back="/users"),
    Change(
        path="/rules/{user}/delete",
        action="delete_rule",
        ask=_ask_delete_rule,
        make=_delete_rule,
        back="/users",
    ),
)
