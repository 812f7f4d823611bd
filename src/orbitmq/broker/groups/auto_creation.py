"""The making of groups and topics that clients come with: all that come while a write is under way share the next one.

What is new is put into the tables when its files are on the disk, and its clients are answered then: a thousand clients
with a group each cost a write or two, on a thread, and no other client waits for them. Where the disk refuses the files, the tables
stay as they are, and the clients are served: reading must go on. Each of their next requests tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from time import perf_counter

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

COUNT_MAX = 20_000
SIZE_MAX = 64 * 1024 * 1024
"""Clients that may wait for a write, and bytes of their requests: a disk that hangs must not fill the memory."""

Admitted = Callable[[Rejected | None], None]
"""Told None when all groups are there, or would be but for the disk; otherwise why they may not be."""


Addition = Callable[[GroupConfigs, TopicTable], Generator[None, None, Rejected | None]]
"""Adds to drafts of the tables what a client lacks, name by name; says why where it may not be."""
_STEP_S = 0.002
OVERTAKEN_MAX = 3
"""After so many times in a row that the tables were changed while names were added, they are added in one step."""


@dataclass(slots=True, eq=False)
class _PendingCreation:
    """A client that came with something new.

    Args:
        is_reader: served also where the disk does not take what it lacks.
        topic: that it sends to; empty for a reader.
    """

    peer: Peer
    add: Addition
    then: Admitted
    is_reader: bool
    size: int = 0
    topic: str = ""
    has_left: bool = False


class AutoCreation:
    """Makes what clients come with and is not there: groups with the topic of their retries, and topics that are sent to.

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
        self._arrivals: list[_PendingCreation] = []
        self._under_way: list[_PendingCreation] = []
        self._task: asyncio.Task[None] | None = None
        self.count = self.size = 0
        """Clients that wait, and bytes of their requests."""
        self.awaited: Counter[str] = Counter()
        """Topics that sends wait for: later ones go behind these, also when the topic is there."""
        self._overtaken_count = 0
        self.failure_count = 0
        """Writes that the disk refused."""

    def are_known(self, groups: Sequence[str]) -> bool:
        """Return True if all groups have what their clients need."""
        for group in groups:
            config = self._groups.configs.get(group)
            if config is None or (config.retry_queue_count > 0 and self._topics.get(retry_topic(group)) is None):
                return False
        return True

    def admit(
        self,
        peer: Peer,
        groups: Sequence[str],
        now_ms: int,
        then: Admitted,
        *,
        needs_retries: bool = True,
        size: int = 0,
    ) -> None:
        """Make what groups lack; `then` is called unless the client leaves before.

        Args:
            needs_retries: topics for the groups' retries are wanted as well.
            size: bytes that the client's request keeps in memory meanwhile.

        Raises:
            Rejected: 2, too much waits: the disk does not answer.
        """

        def add(configs: GroupConfigs, topics: TopicTable) -> Generator[None, None, Rejected | None]:
            return _add_groups(groups, now_ms, configs, topics, needs_retries=needs_retries)

        self._enter(_PendingCreation(peer, add, then, is_reader=True, size=size))

    def admit_topic(
        self, peer: Peer, topic: str, make: Callable[[TopicTable], Rejected | None], then: Admitted, *, size: int = 0
    ) -> None:
        """Make a topic that a client sends to; `then` is called also when the client has left.

        Args:
            make: makes it in a draft of the topic table, unless it is there; says why where it may not be.
            size: bytes that the client's request keeps in memory meanwhile.

        Raises:
            Rejected: 2, too much waits: the disk does not answer.
        """

        def add(_: GroupConfigs, topics: TopicTable) -> Generator[None, None, Rejected | None]:
            yield
            return make(topics)

        self._enter(_PendingCreation(peer, add, then, is_reader=False, size=size, topic=topic))
        self.awaited[topic] += 1

    def _enter(self, arrival: _PendingCreation) -> None:
        if self.count >= COUNT_MAX or self.size + arrival.size > SIZE_MAX:
            raise Rejected(ResponseCode.SYSTEM_BUSY, f"{self.count} new groups and topics wait for the disk")
        self.count += 1
        self.size += arrival.size
        self._arrivals.append(arrival)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())

    def drop_connection(self, peer: Peer) -> None:
        """Forget a client that left: it must not join behind its own end. What it has sent is stored."""
        for arrival in (*self._arrivals, *self._under_way):
            if arrival.peer == peer and arrival.is_reader:
                arrival.has_left = True

    async def _work(self) -> None:
        try:
            while self._arrivals:
                self._under_way, self._arrivals = self._arrivals, []
                pace = _TimeSlice()
                for arrival, refusal in await self._make(self._under_way):
                    await pace.keep()
                    self.count -= 1
                    self.size -= arrival.size
                    if not arrival.has_left:
                        self._tell(arrival, refusal)
        finally:
            self._under_way = []
            self._task = None

    def _tell(self, arrival: _PendingCreation, refusal: Rejected | None) -> None:
        later = self.awaited.pop(arrival.topic, 0) - 1  # its own topic is open to it
        try:
            arrival.then(refusal)
        except Exception:
            log.exception("a client that came with new groups cannot be answered")
        if later > 0:
            self.awaited[arrival.topic] = later

    async def _make(self, arrivals: list[_PendingCreation]) -> list[tuple[_PendingCreation, Rejected | None]]:
        """Make what is missing, and return what to tell each waiter; none yet when another change came in between."""
        begun = self._groups.configs.version, self._topics.table.version
        configs, topics = self._groups.configs.draft(), self._topics.table.draft()
        refusals = await _add_all(arrivals, configs, topics, in_steps=self._overtaken_count < OVERTAKEN_MAX)
        if (self._groups.configs.version, self._topics.table.version) != begun:
            self._overtaken_count += 1
            self._arrivals[:0] = arrivals
            return []
        self._overtaken_count = 0
        are_topics_new = topics.version != self._topics.table.version
        are_groups_new = configs.version != self._groups.configs.version
        tickets = [self._topic_ticket(topics)] if are_topics_new else []
        if are_groups_new:
            tickets.append(self._group_ticket(configs))
        try:
            if tickets:
                await asyncio.to_thread(_write, tickets)
        except OSError as error:
            self.failure_count += 1
            if is_worth_a_line(self.failure_count):
                log.warning("new groups and topics cannot be saved: %s", error)
            return _refuse_senders(arrivals, refusals, error)
        if not all(ticket.is_in_file for ticket in tickets):
            self._arrivals[:0] = arrivals
            return []
        if are_groups_new:
            self._groups.configs.adopt(configs)
        if are_topics_new:
            self._topics.adopt(topics)
        self._groups.configs.refused_count = configs.refused_count
        self._topics.table.refused_count = topics.refused_count
        return list(zip(arrivals, refusals, strict=True))


class _TimeSlice:
    """Lets others have their turn every few milliseconds."""

    def __init__(self) -> None:
        self._ends = perf_counter() + _STEP_S

    async def keep(self) -> None:
        """Come back immediately, or after a turn of the loop."""
        if perf_counter() > self._ends:
            await asyncio.sleep(0)
            self._ends = perf_counter() + _STEP_S


async def _add_all(
    arrivals: list[_PendingCreation], configs: GroupConfigs, topics: TopicTable, *, in_steps: bool
) -> list[Rejected | None]:
    """Add to drafts what clients lack; return the refused ones with the reason."""
    refusals, pace = [], _TimeSlice()
    for arrival in arrivals:
        adding = arrival.add(configs, topics)
        while True:
            if in_steps:
                await pace.keep()
            try:
                next(adding)
            except StopIteration as end:
                refusals.append(end.value)
                break
    return refusals


def _refuse_senders(
    arrivals: list[_PendingCreation], refusals: list[Rejected | None], error: OSError
) -> list[tuple[_PendingCreation, Rejected | None]]:
    """Nothing is there that the disk has not; but readers need not wait until it has room."""
    refused = Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, f"the topic table cannot be saved: {error.strerror}")
    return [
        (arrival, refusal if arrival.is_reader else refusal or refused)
        for arrival, refusal in zip(arrivals, refusals, strict=True)
    ]


def _add_groups(
    groups: Sequence[str], now_ms: int, configs: GroupConfigs, topics: TopicTable, *, needs_retries: bool
) -> Generator[None, None, Rejected | None]:
    """Add what a client's groups lack; say why where one of them may not be."""
    for group in groups:
        yield
        config = configs.get(group) or configs.auto_create(group, now_ms)
        if config is None:
            return Rejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{group:.80}] does not exist"
            )
        if needs_retries and config.retry_queue_count > 0:
            topics.create_retry_topic(retry_topic(group), config.retry_queue_count, now_ms)
    return None


def _write(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.write()
