"""The settings of a topic on every broker that has it: read (request 351) and changed (17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.admin.each_master import SendRequest, ask_all, ask_each, change_each
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, RemoteRefused, RouteNotFound
from orbitmq.model.topic import AUTO_CREATE_TOPIC, TopicConfig
from orbitmq.wire.bodies.topics import decode_topic_config, decode_topic_stats
from orbitmq.wire.headers import GetTopicStats
from orbitmq.wire.headers.topics import CreateTopic, GetTopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """Changes of a topic's settings; None leaves one as it is.

    Args:
        read_queue_count: queues that consumers read, on each broker.
        write_queue_count: queues that producers send to.
        perm: 4 to read, 2 to write, 6 for both.
        order: its key-to-queue mapping must not change while a broker is away (Java: an ordered topic).
        attributes: `{"+message.type": "FIFO"}` sets one, `{"-message.type": ""}` removes it.

    Raises:
        InvalidArgument: an attribute's name begins with neither + nor -.
    """

    read_queue_count: int | None = None
    write_queue_count: int | None = None
    perm: int | None = None
    order: bool | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.attributes:
            if name[:1] not in ("+", "-") or len(name) < 2:
                raise InvalidArgument("attributes", name, "+NAME, which sets one, or -NAME, which takes one away")

    def applied_to(self, config: TopicConfig) -> TopicConfig:
        """Return the settings to send to a broker: it replaces all but the attributes, of which only changes are sent."""
        return TopicConfig(
            topic=config.topic,
            read_queue_count=_either(self.read_queue_count, config.read_queue_count),
            write_queue_count=_either(self.write_queue_count, config.write_queue_count),
            perm=_either(self.perm, config.perm),
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order if self.order is None else self.order,
            attributes=self.attributes,
        )


def format_attribute_changes(changes: Mapping[str, str]) -> str | None:
    """Encode changes of attributes for a request (Java: AttributeParser.parseToString); None without changes."""
    words = (f"{name}={value}" if name.startswith("+") else name for name, value in changes.items())
    return ",".join(words) or None


def attribute_changes(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """Return the changes that turn the attributes `present` into `wanted`: +NAME sets one, -NAME removes one."""
    changes = {f"+{name.lstrip('+-')}": value for name, value in wanted.items() if present.get(name) != value}
    return changes | {f"-{name.lstrip('+-')}": "" for name in present if name not in wanted}


def parse_attribute_change(text: str) -> tuple[str, str]:
    """Parse `+NAME=VALUE` or `-NAME`; return the name with its sign, and the value.

    Raises:
        InvalidArgument: it has neither form.
    """
    name, separator, value = text.partition("=")
    is_one = len(name) > 1 and name[0] == ("+" if separator else "-") and (value or not separator)
    if not is_one or "," in text:
        raise InvalidArgument("attribute", text, "+NAME=VALUE, or -NAME to take one away")
    return name, value


def _either(wanted: int | None, present: int) -> int:
    return present if wanted is None else wanted


async def find_configs(request: SendRequest, masters: Mapping[str, str], topic: str) -> dict[str, TopicConfig]:
    """Return a topic's settings by the names of the brokers that have it.

    Raises:
        RouteNotFound: none of these brokers has the topic.
    """
    answers = await ask_all(dict(sorted(masters.items())), lambda _name, address: _find_config(request, address, topic))
    found = {broker: config for broker, config in answers.items() if config is not None}
    if not found:
        raise _no_such_topic(topic, masters)
    return found


async def find_known_configs(
    request: SendRequest, masters: Mapping[str, str], topic: str
) -> tuple[dict[str, TopicConfig], dict[str, str]]:
    """Return a topic's settings on the brokers that answer, and what is wrong with each other one.

    Raises:
        RouteNotFound: all brokers answer, and none of them has the topic.
        ClientError: no broker answers.
    """
    answers, problems = await ask_each(
        dict(sorted(masters.items())), lambda _name, address: _find_config(request, address, topic), needs_one=True
    )
    found = {broker: config for broker, config in answers.items() if config is not None}
    if not found and not problems:
        raise _no_such_topic(topic, masters)
    return found, problems


async def _find_config(request: SendRequest, address: str, topic: str) -> TopicConfig | None:
    try:
        return decode_topic_config((await request(address, GetTopicConfig(topic=topic))).body)
    except RemoteRefused as refusal:
        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return None


def _no_such_topic(topic: str, masters: Mapping[str, str]) -> RouteNotFound:
    return RouteNotFound(f"the topic {topic} is on none of the brokers {', '.join(sorted(masters))}")


async def change_configs(
    request: SendRequest, masters: Mapping[str, str], topic: str, change: TopicChange, *, force: bool = False
) -> dict[str, TopicConfig]:
    """Change a topic on every broker that has it; return its settings as each broker reports them afterwards.

    Raises:
        InvalidArgument: without `force`: messages would be hidden.
        RouteNotFound: none of these brokers has the topic.
        PartlyDone: only some brokers have made the change.
    """
    present = await find_configs(request, masters, topic)
    owners = {broker: masters[broker] for broker in present}
    if change.read_queue_count is not None and not force:
        await check_read_queues(request, owners, topic, change.read_queue_count)

    async def make_change(broker: str, address: str) -> None:
        await request(address, create_header(change.applied_to(present[broker])))

    await change_each(owners, make_change)
    return await find_configs(request, owners, topic)


async def hidden_messages(
    request: SendRequest, masters: Mapping[str, str], topic: str, read_queue_count: int
) -> dict[str, int]:
    """Count by broker the messages in queues that consumers would no longer read; brokers without any are left out."""

    async def count(_broker: str, address: str) -> int:
        try:
            answer = await request(address, GetTopicStats(topic=topic))
        except RemoteRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return 0
        queues = decode_topic_stats(answer.body).items()
        return sum(stats.max_offset - stats.min_offset for queue, stats in queues if queue.queue_id >= read_queue_count)

    counts = await ask_all(dict(sorted(masters.items())), count)
    return {broker: hidden for broker, hidden in counts.items() if hidden}


async def check_read_queues(
    request: SendRequest, masters: Mapping[str, str], topic: str, read_queue_count: int
) -> None:
    """Check that no queue with messages would no longer be read.

    Raises:
        InvalidArgument: one would; it names the messages of each broker, and what to do first.
    """
    hidden = await hidden_messages(request, masters, topic, read_queue_count)
    if hidden:
        counts = ", ".join(f"{count} messages on {broker}" for broker, count in hidden.items())
        allowed = (
            f"a number that leaves no queue with messages unread: {counts} would be hidden from all consumers. "
            "Set the write queues first, and the read queues when these are consumed and deleted; or force it"
        )
        raise InvalidArgument("read queues", read_queue_count, allowed)


def create_header(config: TopicConfig) -> CreateTopic:
    """Return the request that creates a topic or changes it."""
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
