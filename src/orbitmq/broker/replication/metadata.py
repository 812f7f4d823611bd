"""The tables that a slave takes over from its master besides the log: topics, groups, committed offsets.

Each is asked for every ten seconds. Topics and groups are taken over one by one, and none is dropped in between: a
slave that begins with an empty table at each round has none when its master dies amid one (apache/rocketmq#9804). One
that cannot be taken over is left out, and the others are not (apache/rocketmq#9984).

Source: Java SlaveSynchronize.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from orbitmq.broker.groups.offsets import SEPARATOR, GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.persistence import parse_offsets
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.errors import ConnectionFailed, OrbitError, Rejected
from orbitmq.model.topic import DataVersion
from orbitmq.wire.bodies.groups import decode_group_table
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.headers import GetAllConsumerOffsets, GetAllSubscriptionGroups, GetAllTopicConfig

log = logging.getLogger(__name__)

_PERIOD_S = 10.0
_RETRY_S = 1.0

T = TypeVar("T")
AskMaster = Callable[[str, object], Awaitable[bytes]]
"""Asks the broker at an address, and returns the answer's body. Raises ClientError."""


async def ask_no_master(address: str, header: object) -> bytes:
    """Refuse to ask: this broker is no slave."""
    raise ConnectionFailed(address, "this broker has no master")


class MasterTables:
    """Takes over a master's tables: `run()` until it is cancelled.

    Args:
        master: returns the address where the master serves clients; empty: not known yet.
        offset_max: returns a queue's end here: what is committed beyond waits for the log.
    """

    def __init__(
        self,
        ask: AskMaster,
        master: Callable[[], str],
        topics: TopicRegistry,
        groups: GroupRegistry,
        offsets: GroupOffsets,
        offset_max: Callable[[str, int], int],
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._master = master
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._offset_max = offset_max
        self._clock = clock
        self._seen: dict[str, DataVersion] = {}

    async def run(self) -> None:
        """Take over what there is, again and again."""
        while True:
            pause_s = _RETRY_S
            if master := self._master():
                try:
                    await self.take_over(master)
                    pause_s = _PERIOD_S
                except (OrbitError, ValueError) as error:
                    log.warning("the tables of the master %s cannot be taken over: %s", master, error)
            await asyncio.sleep(pause_s)

    async def take_over(self, master: str) -> None:
        """Take over the master's tables as they are now.

        Raises:
            OrbitError: it does not answer, or with something else.
        """
        topics = decode_topic_table(await self._ask(master, GetAllTopicConfig()))
        if self._seen.get("topics") != topics.data_version:
            own = self._topics.table.get
            new = [config for config in topics.topics.values() if own(config.topic) != config]
            self._take(new, lambda configs: self._topics.update_all(configs, self._clock()))
            self._seen["topics"] = topics.data_version
        groups = decode_group_table(await self._ask(master, GetAllSubscriptionGroups()))
        if self._seen.get("groups") != groups.data_version:
            known = self._groups.configs.get
            changed = [config for config in groups.groups.values() if known(config.group) != config]
            self._take(changed, lambda configs: self._groups.update_all(configs, self._clock()))
            self._seen["groups"] = groups.data_version
        for key, queues in parse_offsets(await self._ask(master, GetAllConsumerOffsets())).all.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                offset_max = self._offset_max(topic, queue_id)
                self._offsets.commit(group, topic, queue_id, offset, offset_max=offset_max)

    def _take(self, configs: list[T], update: Callable[[Iterable[T]], None]) -> None:
        """Take over all of these together, or if one of them is refused, each by itself."""
        if not configs:
            return
        try:
            update(configs)
        except Rejected:
            for config in configs:
                try:
                    update([config])
                except Rejected as refusal:
                    log.warning("%s is not taken over from the master: %s", config, refusal.remark)
