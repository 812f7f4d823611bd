"""The settings of a topic on every broker that has it: asked for (351), and changed (17)."""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.admin.messages import Tell
from orbitmq.admin.topics.values import TopicChange, format_attribute_changes
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused, RouteNotFound
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig
from orbitmq.wire.bodies.topics import decode_topic_config
from orbitmq.wire.headers import CreateTopic, GetTopicConfig


async def find_configs(tell: Tell, masters: Mapping[str, str], topic: str) -> dict[str, TopicConfig]:
    """Return a topic's settings by the names of the brokers that have it.

    Raises:
        RouteNotFound: none of these brokers has the topic.
    """
    found = {}
    for broker, address in sorted(masters.items()):
        try:
            found[broker] = decode_topic_config((await tell(address, GetTopicConfig(topic=topic))).body)
        except RemoteRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
    if not found:
        raise RouteNotFound(f"the topic {topic} is on none of the brokers {', '.join(sorted(masters))}")
    return found


async def change_configs(
    tell: Tell, masters: Mapping[str, str], topic: str, change: TopicChange
) -> dict[str, TopicConfig]:
    """Change a topic on every broker that has it; return its settings afterwards, as each broker tells them.

    Raises:
        RouteNotFound: none of these brokers has the topic.
        RemoteRefused: a broker refused; those before it in the order of names have accepted.
    """
    present = await find_configs(tell, masters, topic)
    for broker, config in present.items():
        await tell(masters[broker], create_header(change.applied_to(config)))
    return await find_configs(tell, {broker: masters[broker] for broker in present}, topic)


def create_header(config: TopicConfig) -> CreateTopic:
    """Return the request that makes a topic, or changes it."""
    return CreateTopic(
        topic=config.topic,
        default_topic=AUTO_CREATE_TOPIC,
        read_queue_nums=config.read_queue_count,
        write_queue_nums=config.write_queue_count,
        perm=config.perm,
        topic_filter_type=config.topic_filter_type,
        topic_sys_flag=config.topic_sys_flag,
        order=config.order,
        attributes=format_attribute_changes(config.attributes),
    )
