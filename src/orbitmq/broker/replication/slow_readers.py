"""Slow readers: those that read what their master has no longer in memory, and that a slave can serve.

Reading from the disk disturbs all clients that send and read what is new. With slaveReadEnable the master suggests its
slave to them in the answers to their pulls, and clients go there next.

Source: Java DefaultMessageStore.getMessage, DefaultPullMessageResultHandler. Java suggests a slave whether one follows or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orbitmq.broker.delivery import in_memory_check
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.store import Store
from orbitmq.wire.bodies.stats import SlaveStatus

MASTER_ID = 0


class SlowReaders:
    """Says which broker of its name a reader should ask next.

    Args:
        slaves: returns those that follow now.
    """

    def __init__(self, store: Store, groups: GroupConfigs, slaves: Callable[[], Sequence[SlaveStatus]]) -> None:
        self._store = store
        self._groups = groups
        self._slaves = slaves

    def suggest(self, topic: str, group: str, queue_id: int, next_offset: int) -> int:
        """Return the id of the broker that a reader at `next_offset` should ask."""
        config = self._groups.get(group)
        if config is None:
            return MASTER_ID
        read = self._store.queue_entries(topic, queue_id, next_offset - 1, 1)
        if not read:
            return config.broker_id
        physical_offset = read[0][0]
        is_slow = self._store.max_physical_offset - physical_offset > in_memory_check.IN_MEMORY_SIZE
        if is_slow and any(slave.acknowledged > physical_offset for slave in self._slaves()):
            return config.which_broker_when_consume_slowly
        return config.broker_id
