"""A change of a topic's settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.errors import InvalidArgument
from orbitmq.model.topic import TopicConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """What is to be different about a topic; None leaves it as it is.

    Args:
        read_queue_count: queues that consumers read, on each broker.
        write_queue_count: queues that producers send to.
        perm: 4 to read, 2 to write, 6 for both.
        order: whether its messages have an order that a broker's absence must not change.
        attributes: `{"+message.type": "FIFO"}` sets one, `{"-message.type": ""}` takes it away.

    Raises:
        InvalidArgument: a name of an attribute has no sign.
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
        """Return a topic's settings as a broker is asked for them: with the changes of its attributes, not with all."""
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
    """Return changes of attributes as requests carry them (Java: AttributeParser.parseToString); None for none."""
    words = (f"{name}={value}" if name.startswith("+") else name for name, value in changes.items())
    return ",".join(words) or None


def parse_attribute_change(text: str) -> tuple[str, str]:
    """Return the name, with its sign, and the value of `+NAME=VALUE` or `-NAME`.

    Raises:
        InvalidArgument: it is neither of them.
    """
    name, separator, value = text.partition("=")
    is_one = len(name) > 1 and name[0] == ("+" if separator else "-") and (value or not separator)
    if not is_one or "," in text:
        raise InvalidArgument("attribute", text, "+NAME=VALUE, or -NAME to take one away")
    return name, value


def _either(wanted: int | None, present: int) -> int:
    return present if wanted is None else wanted
