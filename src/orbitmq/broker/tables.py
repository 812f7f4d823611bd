"""Topics, groups and committed offsets: as they are stored, and as the broker works on them."""

from __future__ import annotations

import logging
from typing import NamedTuple

from orbitmq.broker.config import BrokerConfig
from orbitmq.broker.context import BrokerContext, BrokerLinks
from orbitmq.broker.groups.auto_creation import AutoCreation
from orbitmq.broker.groups.configs import GroupConfigs
from orbitmq.broker.groups.offsets import GroupOffsets
from orbitmq.broker.groups.registry import GroupRegistry
from orbitmq.broker.groups.request_modes import RequestModes
from orbitmq.broker.persistence import ConfigFiles
from orbitmq.broker.topics.attributes import missing_attribute
from orbitmq.broker.topics.logical_queues import StaticTopics
from orbitmq.broker.topics.registry import TopicRegistry
from orbitmq.broker.topics.static_topic_table import StaticTopicTable
from orbitmq.broker.topics.system_topics import system_topics
from orbitmq.broker.topics.table import TopicTable, plain_topic
from orbitmq.errors import StoreError
from orbitmq.store import Store
from orbitmq.store.lmq import is_lmq

log = logging.getLogger(__name__)


class StoredTables(NamedTuple):
    """The tables that outlive a run."""

    topics: TopicTable
    groups: GroupConfigs
    offsets: GroupOffsets
    mappings: StaticTopicTable

    @classmethod
    def load(cls, files: ConfigFiles, config: BrokerConfig) -> StoredTables:
        """Read them. Raises StoreError."""
        return cls(
            files.load_topics(auto_create_enable=_makes_topics(config), count_max=config.topics_max),
            files.load_groups(auto_create_enable=config.auto_create_subscription_group, count_max=config.groups_max),
            files.load_offsets(),
            files.load_mappings(),
        )

    def fit(
        self, store: Store, files: ConfigFiles, config: BrokerConfig, now_ms: int, *, is_elected: bool = False
    ) -> None:
        """Bring the tables in line with the settings and with the store, which a crash may have cut.

        Args:
            is_elected: it was a slave, and makes topics again whose first messages came just before its master was lost.

        Raises:
            StoreError: a table cannot be written.
        """
        if store.max_physical_offset and not self.topics.all:
            log.warning("%s is missing, or empty: the topics of the stored messages are not known", files.topics_path)
        for topic in self.topics.all.values():
            if topic.attributes and (attribute := missing_attribute(topic.attributes)) is not None:
                log.warning("the topic %s has %s, which has no effect here", topic.topic, attribute)
        loaded_version = self.topics.version
        self.topics.add_missing(system_topics(config), now_ms)
        if is_elected:
            for name in store.topics():
                if self.topics.get(name) is None and not is_lmq(name):
                    queue_count = max(store.queue_ids(name)) + 1
                    if self.topics.restore(name, queue_count, now_ms) is None:
                        self.topics.add_missing([plain_topic(name, queue_count)], now_ms)
        cuts = self.offsets.cut_to(store.max_offset)
        for cut in cuts:
            log.warning("a committed offset lay beyond its queue's end and was pulled back: %s", cut)
        if cuts:  # before other messages come to these places: after another crash their groups would pass them over
            try:
                files.save_offsets(self.offsets)
            except OSError as error:
                raise StoreError(f"{files.offsets_path} cannot be written: {error}") from error
        if self.topics.version != loaded_version:
            try:
                files.save_topics(self.topics)
            except OSError as error:
                raise StoreError(f"{files.topics_path} cannot be written: {error}") from error
            self.topics.keep()


def _makes_topics(config: BrokerConfig) -> bool:
    """Return True if a send makes the topic that it lacks: a slave has those of its master."""
    return config.auto_create_topic_enable and not config.is_slave


class Tables:
    """The tables with what keeps and announces their changes."""

    def __init__(self, context: BrokerContext, links: BrokerLinks, stored: StoredTables) -> None:
        config, files = context.config, context.files
        static = StaticTopics(
            stored.mappings, files.save_mappings, broker_name=config.broker_name, ask=links.ask_broker
        )
        self.topics = TopicRegistry(stored.topics, files.save_topics, links.announce, static, has_lmq=config.enable_lmq)
        self.groups = GroupRegistry(stored.groups, files.save_groups)
        self.auto_creation = AutoCreation(self.groups, self.topics, files.topic_ticket, files.group_ticket)
        self.offsets = stored.offsets
        self.request_modes = RequestModes(
            files.request_modes_path,
            default=config.default_message_request_mode,
            share_queue_count=config.default_pop_share_queue_num,
        )

    def use(self, config: BrokerConfig) -> None:
        """Let settings that may change while the broker runs count from now on."""
        self.topics.table.allow(auto_create_enable=_makes_topics(config), count_max=config.topics_max)
        self.groups.configs.allow(auto_create_enable=config.auto_create_subscription_group, count_max=config.groups_max)
