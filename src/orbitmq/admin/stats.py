"""Figures that brokers have counted of topics and groups in the last minute, hour and day (315), for all that they have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from orbitmq.admin.each_master import SendRequest, ask_all, ask_each
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused
from orbitmq.wire.bodies.groups import decode_group_list
from orbitmq.wire.bodies.stats import BrokerStatsData, decode_stats
from orbitmq.wire.bodies.topics import decode_topic_table
from orbitmq.wire.headers.admin import ViewBrokerStats
from orbitmq.wire.headers.topics import GetAllTopicConfig, QueryTopicConsumers

_AT_A_TIME = 32
"""Topics of one broker that are asked for at the same time."""


class Traffic(NamedTuple):
    """Messages of one topic at one broker.

    `group` is the one that got them; None: they were sent to the topic.
    """

    broker_name: str
    topic: str
    group: str | None
    stats: BrokerStatsData


async def find_traffic(
    request: SendRequest, masters: Mapping[str, str], topic: str | None = None, group: str | None = None
) -> list[Traffic]:
    """Return what each broker has counted, without what it has not counted anything of.

    Args:
        topic: only of this topic.
        group: only what this group got.
    """

    async def ask(broker: str, address: str) -> list[Traffic]:
        return await _BrokerTraffic(request, broker, address).find(topic, group)

    answers = await ask_all(dict(sorted(masters.items())), ask)
    return [traffic for found in answers.values() for traffic in found]


async def find_known_traffic(
    request: SendRequest, masters: Mapping[str, str], topic: str | None = None, group: str | None = None
) -> tuple[list[Traffic], dict[str, str]]:
    """Return what `find_traffic` does, of the brokers that answer, and what is wrong with each other one.

    Raises:
        ClientError: no broker answers.
    """

    async def ask(broker: str, address: str) -> list[Traffic]:
        return await _BrokerTraffic(request, broker, address).find(topic, group)

    answers, problems = await ask_each(dict(sorted(masters.items())), ask, needs_one=True)
    return [traffic for found in answers.values() for traffic in found], problems


class _BrokerTraffic:
    """One broker's figures."""

    def __init__(self, request: SendRequest, broker: str, address: str) -> None:
        self._request = request
        self._broker = broker
        self._address = address

    async def find(self, topic: str | None, group: str | None) -> list[Traffic]:
        """Return what the broker has counted, in the topics' order."""
        topics = [topic] if topic is not None else await self._topics()
        found: dict[str, list[Traffic]] = {name: [] for name in topics}
        left = iter(topics)

        async def ask() -> None:
            for name in left:
                found[name] = await self._of_topic(name, group)

        # As many tasks as requests: one for each topic of a large broker would stop the user's loop while they are made.
        await asyncio.gather(*(ask() for _ in range(_AT_A_TIME)))
        return [traffic for listed in found.values() for traffic in listed]

    async def _topics(self) -> list[str]:
        table = (await self._request(self._address, GetAllTopicConfig())).body
        return sorted((await asyncio.to_thread(decode_topic_table, table)).topics)

    async def _of_topic(self, topic: str, group: str | None) -> list[Traffic]:
        groups = sorted(await self._groups(topic)) if group is None else [group]
        found = [await self._stats("GROUP_GET_NUMS", topic, name) for name in groups]
        if group is None:
            found.insert(0, await self._stats("TOPIC_PUT_NUMS", topic, None))
        return [traffic for traffic in found if traffic is not None]

    async def _groups(self, topic: str) -> Iterable[str]:
        return decode_group_list((await self._request(self._address, QueryTopicConsumers(topic=topic))).body)

    async def _stats(self, name: str, topic: str, group: str | None) -> Traffic | None:
        key = topic if group is None else f"{topic}@{group}"
        try:
            answer = await self._request(self._address, ViewBrokerStats(stats_name=name, stats_key=key))
        except RemoteRefused as refusal:
            if refusal.code != ResponseCode.SYSTEM_ERROR:
                raise
            return None  # a broker has no item for what never happened
        return Traffic(self._broker, topic, group, decode_stats(answer.body))
