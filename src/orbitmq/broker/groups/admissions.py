"""The making of groups that clients come with: all that come while a write is under way share the next one.

What is new is put into the tables when its files are on the disk, and who came with it is told then: a thousand clients
with a group each cost a write or two, on a thread, and nobody else waits for them. Where the disk refuses the files, the tables
stay as they are, and the clients are served: reading must go on. Each of their next requests tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.groups.table_file import Ticket
from orbitmq.broker.topics.registry import TopicRegistry, retry_topic
from orbitmq.broker.topics.table import TopicTable
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.counters import is_worth_a_line
from orbitmq.net.dispatch.peer import Peer

log = logging.getLogger(__name__)

Admitted = Callable[[Rejected | None], None]
"""Told None when all groups are there, or would be but for the disk; otherwise why they may not be."""


@dataclass(slots=True, eq=False)
class _Arrival:
    """A client that came with groups, one of them new at least."""

    peer: Peer
    groups: Sequence[str]
    now_ms: int
    then: Admitted
    needs_retries: bool
    """Whether topics for the groups' retries are wanted as well."""
    has_left: bool = False


class GroupAdmissions:
    """Makes what consumer groups need before their clients may join: settings, and the topic of their retries.

    Args:
        topic_ticket: a ticket for the file of a topic table.
        group_ticket: a ticket for the file of the groups' settings.
    """

    def __init__(
        self,
        groups: GroupRegistry,
        topics: TopicRegistry,
        topic_ticket: Callable[[TopicTable], Ticket],
        group_ticket: Callable[[GroupConfigs], Ticket],
    ) -> None:
        self._groups = groups
        self._topics = topics
        self._topic_ticket = topic_ticket
        self._group_ticket = group_ticket
        self._arrivals: list[_Arrival] = []
        self._under_way: list[_Arrival] = []
        self._task: asyncio.Task[None] | None = None
        self.failure_count = 0
        """Writes that the disk refused."""

    def are_known(self, groups: Sequence[str]) -> bool:
        """Say whether all groups have what their clients need."""
        for group in groups:
            config = self._groups.configs.get(group)
            if config is None or (config.retry_queue_count > 0 and self._topics.get(retry_topic(group)) is None):
                return False
        return True

    def admit(
        self, peer: Peer, groups: Sequence[str], now_ms: int, then: Admitted, *, needs_retries: bool = True
    ) -> None:
        """Make what is missing; `then` is called unless the client leaves before."""
        self._arrivals.append(_Arrival(peer, groups, now_ms, then, needs_retries))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def drop_connection(self, peer: Peer) -> None:
        """Forget a client that left: it must not join behind its own end."""
        for arrival in (*self._arrivals, *self._under_way):
            if arrival.peer == peer:
                arrival.has_left = True

    async def _work(self) -> None:
        try:
            while self._arrivals:
                self._under_way, self._arrivals = self._arrivals, []
                for arrival, refusal in await self._make(self._under_way):
                    if not arrival.has_left:
                        _tell(arrival, refusal)
        finally:
            self._under_way = []
            self._task = None

    async def _make(self, arrivals: list[_Arrival]) -> list[tuple[_Arrival, Rejected | None]]:
        """Make what is missing, and return what to tell whom; nobody yet when another change came in between."""
        configs, topics = self._groups.configs.draft(), self._topics.table.draft()
        refusals = [_add(arrival, configs, topics) for arrival in arrivals]
        are_topics_new = topics.version != self._topics.table.version
        are_groups_new = configs.version != self._groups.configs.version
        tickets = [self._topic_ticket(topics)] if are_topics_new else []
        if are_groups_new:
            tickets.append(self._group_ticket(configs))
        try:
            if tickets:
                await asyncio.to_thread(_write, tickets)
        except OSError as error:
            # Nothing is there that the disk has not: but who only reads need not wait until it has room.
            self.failure_count += 1
            if is_worth_a_line(self.failure_count):
                log.warning(
                    "new groups cannot be saved, their clients are served as if they had the defaults: %s", error
                )
            return list(zip(arrivals, refusals, strict=True))
        if not all(ticket.is_in_file for ticket in tickets):
            self._arrivals[:0] = arrivals
            return []
        if are_groups_new:
            self._groups.configs.adopt(configs)
        if are_topics_new:
            self._topics.adopt(topics)
        self._groups.configs.refused_count = configs.refused_count
        return list(zip(arrivals, refusals, strict=True))


def _add(arrival: _Arrival, configs: GroupConfigs, topics: TopicTable) -> Rejected | None:
    """Add what a client's groups lack; say why where one of them may not be."""
    for group in arrival.groups:
        config = configs.get(group) or configs.auto_create(group, arrival.now_ms)
        if config is None:
            return Rejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group:.80}] does not exist"
            )
        if arrival.needs_retries and config.retry_queue_count > 0:
            topics.create_retry_topic(retry_topic(group), config.retry_queue_count, arrival.now_ms)
    return None


def _tell(arrival: _Arrival, refusal: Rejected | None) -> None:
    try:
        arrival.then(refusal)
    except Exception:
        log.exception("a client that came with new groups cannot be answered")


def _write(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.write()
