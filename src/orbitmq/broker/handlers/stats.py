"""Figures: what was counted of one thing (315), how far all groups are behind (317).

Source: Java AdminBrokerProcessor.ViewBrokerStatsData, fetchAllConsumeStatsInBroker.
"""

from __future__ import annotations

from collections.abc import Generator

from orbitmq.broker.monitoring.progress import group_progress
from orbitmq.broker.service import BrokerService
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Call, Handlers, Later, Reply
from orbitmq.net.dispatch.work import in_turns
from orbitmq.wire.bodies.stats import TopicProgress, encode_broker_consume_stats, encode_stats
from orbitmq.wire.headers import GetBrokerConsumeStats, ViewBrokerStats

QUEUES_PER_TURN = 500
"""Queues that are looked at in one turn of the loop: about a millisecond's worth."""
QUEUES_MAX = 50_000
"""Ours: queues that one answer holds; each is some 160 bytes of it, and a frame has at most 16 MiB."""


handlers: Handlers[BrokerService] = Handlers()


@handlers.on(ViewBrokerStats)
def view_broker_stats(broker: BrokerService, call: Call[ViewBrokerStats]) -> Reply:
    """Answer with what was counted in the last minute, hour and day."""
    name, key = call.header.stats_name, call.header.stats_key
    stats_of = broker.monitoring.stats.stats_of(name, key, broker.config.broker_cluster_name)
    if stats_of is None:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"The stats <{name:.140}> <{key:.400}> not exist")
    return Reply(body=encode_stats(stats_of))


@handlers.on(GetBrokerConsumeStats)
def get_broker_consume_stats(broker: BrokerService, call: Call[GetBrokerConsumeStats]) -> Reply | Later:
    """Answer with how far every group is behind, some queues in each turn."""
    return in_turns(call, _consume_stats(broker, call))


def _consume_stats(broker: BrokerService, call: Call[GetBrokerConsumeStats]) -> Generator[None, None, Reply]:
    found: dict[str, list[TopicProgress]] = {}
    queue_count = looked_at = 0
    topics_by_group = broker.tables.offsets.topics_by_group()
    for group in tuple(broker.tables.groups.configs.all):
        listed = found[group] = []
        consumers = broker.clients.members.find(group)
        for topic in topics_by_group.get(group, ()):
            config = broker.tables.topics.get(topic)
            if config is None or (call.header.is_order and not config.order):
                continue
            if consumers is not None and consumers.subscriptions and topic not in consumers.subscriptions:
                continue
            queues = group_progress(
                broker.store,
                broker.tables.offsets,
                broker.monitoring.stats.pulled,
                broker.config.broker_name,
                group,
                topic,
                config.write_queue_count,
            )
            listed.append(TopicProgress(queues, broker.monitoring.stats.gets.rate((topic, group))))
            queue_count += len(queues)
            if queue_count > QUEUES_MAX:
                remark = f"more than {QUEUES_MAX} queues: ask for one group at a time (208)"
                raise Rejected(ResponseCode.SYSTEM_ERROR, remark)
            if queue_count - looked_at >= QUEUES_PER_TURN:
                looked_at = queue_count
                yield
    return Reply(body=encode_broker_consume_stats(broker.address.announced, found))
