"""The tables that a slave takes over from its master besides the log: topics, groups, committed offsets, and how far the
master has delivered delayed and timed messages.

Progress of deliveries is asked for every second, the others every ten seconds. Topics and groups are taken over one by one, and none is dropped in between: a
slave that begins with an empty table at each round has none when its master dies amid one (apache/rocketmq#9804). One
that cannot be taken over is left out, and the others are not (apache/rocketmq#9984).

Source: Java SlaveSynchronize.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TypeVar

from orbitmq.broker.delivery.delay_service import DelayService
from orbitmq.broker.delivery.delivered_copies import note_delivered_since
from orbitmq.broker.groups.offsets import SEPARATOR, GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.persistence import parse_offsets
from orbitmq.broker.timers.service import TimerService
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.clock import Clock
from orbitmq.errors import ConnectionFailed, OrbitError, Rejected
from orbitmq.model.topic import DataVersion
from orbitmq.store.timers.checkpoint import TimerCheckpoint, parse_timer_checkpoint
from orbitmq.wire.bodies.groups import decode_group_table
from orbitmq.wire.bodies.stats import decode_log_end
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.headers import (
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetAllSubscriptionGroups,
    GetAllTopicConfig,
    GetReplicationStatus,
    GetTimerCheckpoint,
)

log = logging.getLogger(__name__)

PERIOD_S = 10.0
_LOOK_S = 1.0
"""How often it is asked how far the master has delivered: a promotion repeats at most that much."""
_TRIES_PER_LOOK = 10
_ENDS_MAX = 60
_SEARCHED_MAX = 16 * 1024 * 1024
"""Bytes of the log, after which the place of a slave without waiting messages is kept again: a promotion searches from there."""

T = TypeVar("T")
AskMaster = Callable[[str, object], Awaitable[bytes]]
"""Asks the broker at an address, and returns the answer's body. Raises ClientError."""


async def ask_no_master(address: str, header: object) -> bytes:
    """Refuse to ask: this broker is not a slave."""
    raise ConnectionFailed(address, "this broker has no master")


class MasterProgress:
    """How far a master has delivered delayed and timed messages, taken over when this log has what it stored by then.

    Without it a slave that becomes the master would deliver everything again. Taken over earlier, messages whose copies this
    log lacks would count as delivered, and be lost.

    What the master delivers after that is found in the log, from the place on that is kept in a file of its own.

    Args:
        log_end: returns where this broker's CommitLog ends, and when the message before that was stored.
        since_path: see `delivered_copies`.
    """

    def __init__(
        self,
        ask: AskMaster,
        log_end: Callable[[], tuple[int, int]],
        delays: DelayService,
        timers: TimerService,
        since_path: Path,
    ) -> None:
        self._ask = ask
        self._log_end = log_end
        self._delays = delays
        self._timers = timers
        self._since_path = since_path
        self._ends: deque[tuple[int, int]] = deque(maxlen=_ENDS_MAX)
        """Where the log ended, look by look, and when the message before that was stored."""
        self._seen: tuple[int, int, bytes, TimerCheckpoint] | None = None
        self._since = 0

    async def look(self, master: str) -> None:
        """Ask a master how far it is.

        Raises:
            OrbitError: it does not answer, or with something else.
        """
        # Noted first: what is delivered after the master's answers lies behind this end of the log.
        self._ends.append(self._log_end())
        delays = await self._ask(master, GetAllDelayOffsets())
        timers = parse_timer_checkpoint(await self._ask(master, GetTimerCheckpoint(is_live=True)))
        # Asked last: what was delivered until now lies before this end of the master's log.
        end = decode_log_end(await self._ask(master, GetReplicationStatus()))
        # Timers tell only of times: what was due since then, and may be delivered, was stored since then.
        since = next((place for place, stored_ms in reversed(self._ends) if stored_ms < timers.read_ms), None)
        self._seen = (end, self._ends[0][0] if since is None else since, delays, timers)

    async def take_over(self) -> bool:
        """Take over what the last look has found, if this log is far enough; False: not yet.

        Raises:
            HeaderError: the master's offsets cannot be parsed.
            OSError: the disk does not take it.
        """
        if self._seen is None or self._log_end()[0] < self._seen[0]:
            return False
        _, since, delays, timers = self._seen
        self._seen = None
        has_waiting = any([await self._delays.take_over(delays), await self._timers.take_over(timers)])
        if has_waiting or since - self._since >= _SEARCHED_MAX:
            # Last: from an earlier place on the same copies are found, and others that count already.
            await asyncio.to_thread(note_delivered_since, self._since_path, since)
            self._since = since
        return True


class MasterTables:
    """Takes over a master's tables: `run()` until it is cancelled.

    Args:
        progress: of the master's deliveries.
        master: returns the address where the master serves clients; empty: not known yet.
        offset_max: returns a queue's end here: what is committed beyond waits for the log.
        period_s: how often all of them are asked for.
        drops_missing: forget topics, groups and committed offsets that the master has no more.
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
        progress: MasterProgress,
        period_s: float = PERIOD_S,
        *,
        drops_missing: bool = False,
    ) -> None:
        self._drops_missing = drops_missing
        self._ask = ask
        self._master = master
        self._period_s = period_s
        self._progress = progress
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._offset_max = offset_max
        self._clock = clock
        self._seen: dict[str, DataVersion] = {}
        self._waiting: dict[tuple[str, str, int], int] = {}
        """Committed offsets by group, topic and queue that this log has not come to yet."""
        self._failure: str | None = None
        """Why the last round failed: what repeats is said once."""

    async def run(self) -> None:
        """Take over what there is, again and again."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            if master := self._master():
                failure = None
                try:
                    if loop.time() >= due_s:
                        await self.take_over(master)
                        due_s = loop.time() + self._period_s
                    await self._progress.look(master)
                except (OrbitError, ValueError) as error:
                    failure = f"the tables of the master {master} cannot be taken over: {error}"
                if failure is not None and failure != self._failure:
                    log.warning("%s", failure)
                self._failure = failure
            for _ in range(_TRIES_PER_LOOK):
                await asyncio.sleep(_LOOK_S / _TRIES_PER_LOOK)
                await self.take_over_progress()

    async def take_over_progress(self) -> None:
        """Take over how far the master has delivered, as far as this log covers it; what fails is tried again."""
        try:
            await self._progress.take_over()
        except (OrbitError, OSError) as error:
            log.warning("how far the master has delivered cannot be taken over: %s", error)

    async def take_over(self, master: str) -> None:
        """Take over the master's tables as they are now.

        Raises:
            OrbitError: it does not answer, or with something else.
        """
        topics = decode_topic_table(await self._ask(master, GetAllTopicConfig()))
        if self._seen.get("topics") != topics.data_version:
            own = self._topics.table.get
            new = [config for config in topics.topics.values() if own(config.topic) != config]
            self._take(new, lambda configs: self._topics.copy_all(configs, self._clock()))
            if self._drops_missing:
                for topic in self._topics.table.all.keys() - topics.topics.keys():
                    self._topics.delete(topic, self._clock(), lambda: None)  # its queues went when the log said so
            self._seen["topics"] = topics.data_version
        groups = decode_group_table(await self._ask(master, GetAllSubscriptionGroups()))
        if self._seen.get("groups") != groups.data_version:
            known = self._groups.configs.get
            changed = [config for config in groups.groups.values() if known(config.group) != config]
            self._take(changed, lambda configs: self._groups.update_all(configs, self._clock()))
            if self._drops_missing:
                for group in self._groups.configs.all.keys() - groups.groups.keys():
                    self._groups.delete(group, self._clock())
            self._seen["groups"] = groups.data_version
        told = parse_offsets(await self._ask(master, GetAllConsumerOffsets()))
        self._waiting = {}
        for key, queues in told.all.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, offset in queues.items():
                self._waiting[group, topic, queue_id] = offset
        if self._drops_missing:
            for group in self._offsets.groups - told.groups:
                self._offsets.forget_group(group)
        self.take_over_waiting()
        # Pops that the master has answered since are made good from the log when this broker becomes the master.
        self._offsets.note_copied(told.version)

    def take_over_waiting(self) -> None:
        """Set the committed offsets that the master told last, as far as this log has come."""
        for (group, topic, queue_id), offset in tuple(self._waiting.items()):
            offset_max = self._offset_max(topic, queue_id)
            self._offsets.commit(group, topic, queue_id, offset, offset_max=offset_max)
            if offset <= offset_max:
                del self._waiting[group, topic, queue_id]

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
