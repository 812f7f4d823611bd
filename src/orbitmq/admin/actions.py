"""The changes that the dashboard and the tools for assistants make: who may make each, and what is checked before. One table.

`python -m orbitmq.admin.actions` prints it as `docs/howto/dashboard.md` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orbitmq.admin.system_names import check_group, check_topic

if TYPE_CHECKING:
    from orbitmq.admin.client import AdminClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One kind of change.

    Args:
        role: what a user of the dashboard has to be, at least.
        rule: what the brokers' rules (ACL 2.0) have to allow; None: no broker judges it, so that it is for super users.
        is_asked: the dashboard asks before it is made. Assistants' tools say first what they would do, all of them.
        topics: the arguments that name topics, with what is done with each.
        groups: the arguments that name groups which are changed.
        existing: topics that have to exist: to make one is another action.
        hidden: arguments that the audit log leaves out, besides secrets.
    """

    role: str
    rule: str | None
    is_asked: bool = True
    topics: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    hidden: frozenset[str] = frozenset()

    async def check(self, admin: AdminClient, values: Mapping[str, Any]) -> None:
        """Refuse what is not for users: changes of what the system owns, and sends to topics that do not exist.

        Args:
            values: arguments by their names; empty ones are passed over.

        Raises:
            InvalidArgument: the system owns a topic or a group.
            RouteNotFound: a topic does not exist.
        """
        await self.check_owner(admin, values)
        for name in self.existing:
            if values.get(name):
                await admin.topic_route(values[name])

    async def check_owner(self, admin: AdminClient, values: Mapping[str, Any]) -> None:
        """Refuse changes of what the system owns. Args, Raises: as `check`."""
        for name in self.groups:
            if values.get(name):
                check_group(values[name], name=name)
        for name, what in self.topics.items():
            if values.get(name):
                check_topic(values[name], what, await admin.own_topics(), name=name)


_CREATE, _CHANGE, _DELETE = {"topic": "create"}, {"topic": "change"}, {"topic": "delete"}
ACTIONS: Mapping[str, Action] = {
    "create_topic": Action(role="admin", rule="Create on the topic", topics=_CREATE),
    "change_topic": Action(role="admin", rule="Create on the topic", topics=_CHANGE),
    "delete_topic": Action(role="admin", rule="Delete on the topic", topics=_DELETE),
    "create_group": Action(role="admin", rule="Create or Update on the group", groups=("group",)),
    "delete_group": Action(role="admin", rule="Delete on the group", groups=("group",)),
    "reset_group": Action(
        role="operator", rule="Update on the group and the topic", topics={"topic": "reset"}, groups=("group",)
    ),
    "clone_group": Action(
        role="operator", rule="Update on the target and its topics", topics={"topic": "reset"}, groups=("target",)
    ),
    "send_message": Action(
        role="operator",
        rule="Pub on the topic",
        is_asked=False,
        topics={"topic": "send"},
        existing=("topic",),
        hidden=frozenset(("body", "properties")),
    ),
    "send_message_again": Action(
        role="operator", rule="Pub on the topic that it goes to", topics={"to": "send"}, existing=("to",)
    ),
    "resend_dead_letters": Action(
        role="operator", rule="Pub on the topics that they go to", topics={"topic": "send"}, existing=("topic",)
    ),
    "consume_directly": Action(role="operator", rule="Sub on the group and the topic"),
    "change_setting": Action(role="admin", rule="Update on the cluster"),
    "set_write_permission": Action(role="operator", rule=None),
    "create_user": Action(role="admin", rule="Update on the cluster", is_asked=False, hidden=frozenset(("password",))),
    "delete_user": Action(role="admin", rule="Update on the cluster"),
    "add_rule": Action(role="admin", rule="Update on the cluster"),
    "delete_rule": Action(role="admin", rule="Update on the cluster"),
}


def format_table() -> str:
    """Return the table in Markdown."""
    lines = [
        "| action | role | what brokers' rules have to allow | asked first | not in the audit log |",
        "|---|---|---|---|---|",
    ]
    for name, action in ACTIONS.items():
        rule = action.rule or "no rule: for super users of the brokers"
        cells = (f"`{name}`", action.role, rule, "yes" if action.is_asked else "no", ", ".join(sorted(action.hidden)))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(format_table())
