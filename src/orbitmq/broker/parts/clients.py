"""The clients that are there: members of groups, their locks on queues, and what is asked about them."""

from __future__ import annotations

from orbitmq.broker.groups.consumer_queries import ConsumerQueries
from orbitmq.broker.groups.members import GroupMembers
from orbitmq.broker.groups.membership import Membership
from orbitmq.broker.groups.queue_locks import QueueLocks
from orbitmq.broker.groups.topic_routes import RouteLookup
from orbitmq.broker.parts.context import BrokerContext, BrokerLinks
from orbitmq.net.dispatch.peer import Peer


class Clients:
    """The clients of a broker."""

    def __init__(self, context: BrokerContext, links: BrokerLinks) -> None:
        config = context.config
        self.locks = QueueLocks(config.rebalance_lock_max_live_time, config.rebalance_lock_grace_time)
        self.members: GroupMembers[Peer] = GroupMembers()
        self.membership = Membership(
            self.members,
            silence_ms=config.channel_expired_timeout,
            clock=context.monotonic,
            is_notifying=config.notify_consumer_ids_changed_enable,
            locks=self.locks,
        )
        self.queries = ConsumerQueries(self.members)
        self.routes = RouteLookup(links.ask_route, context.monotonic)
