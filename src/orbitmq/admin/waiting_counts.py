"""Counts of messages in a master that no consumer can read yet: half messages, delayed messages, pops that are not settled."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.admin.one_broker import BrokerAdmin
from orbitmq.model.topic import HALF_TOPIC

REVIVE_PREFIX = "rmq_sys_REVIVE_LOG_"
_HALF_GROUP, _REVIVE_GROUP = "CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_REVIVE_GROUP"


async def undecided_count(broker: BrokerAdmin) -> int:
    """Return how many half messages there are from the oldest undecided one on; some of them may be decided."""
    return await _lag(broker, _HALF_GROUP, HALF_TOPIC)


async def popped_count(broker: BrokerAdmin) -> int:
    """Return how many pops and acknowledgements are not settled."""
    topics = [topic for topic in await broker.topics() if topic.startswith(REVIVE_PREFIX)]
    return sum([await _lag(broker, _REVIVE_GROUP, topic) for topic in topics])


def level_counts(info: Mapping[str, str]) -> dict[int, int]:
    """Return how many messages wait in each delay level, from a broker's run-time values `scheduleMessageOffset_N`."""
    counts: dict[int, int] = {}
    for key, value in info.items():
        level, (at, _, end) = key.removeprefix("scheduleMessageOffset_"), value.partition(",")
        if level != key and level.isdecimal() and at.isdecimal() and end.isdecimal():
            counts[int(level)] = max(0, int(end) - int(at))
    return counts


def timed_count(info: Mapping[str, str]) -> int | None:
    """Return how many messages wait for a time of their own, from a broker's run-time values; None: it does not tell."""
    text = info.get("timerCongestNum")
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


async def _lag(broker: BrokerAdmin, group: str, topic: str) -> int:
    places = (await broker.progress(group, topic)).values()
    return sum(max(0, place.behind) for place in places)
