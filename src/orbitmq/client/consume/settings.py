"""The settings of a PushConsumer as one value."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orbitmq.client.consume.allocation import Strategy
from orbitmq.client.consume.handler_pools import Handler, KeyOf, MessageHandler
from orbitmq.client.consume.pull_request import PullSettings
from orbitmq.client.consume.redelivery import RedeliveryPolicy
from orbitmq.client.consume.start_offsets import check_start
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom, MessageModel
from orbitmq.model.topic import RETRY_PREFIX
from orbitmq.wire.signature import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The arguments of a PushConsumer, which says what they mean; here they are checked against one another.

    Raises:
        InvalidArgument: one of them does not go with another.
    """

    group: str
    name_servers: str | Iterable[str]
    handler: Handler | None
    message_handler: MessageHandler | None
    key: KeyOf | None
    ordered: bool
    max_attempts: int | None
    consume_timeout_ms: int
    close_timeout_ms: int
    message_model: MessageModel
    consume_from: ConsumeFrom
    consume_from_ms: int | None
    batch_count_max: int
    concurrency: int
    pull_count_max: int
    window_count_max: int
    window_size_max: int
    window_span_max: int
    windows_size_max: int
    retry_delay_ms: int
    commit_interval_ms: int
    rebalance_interval_ms: int
    heartbeat_interval_ms: int
    poll_interval_ms: int
    instance: str | None
    offset_dir: Path | str | None
    strategy: Strategy
    credentials: Credentials | None
    tls: ssl.SSLContext | None
    trace: bool
    trace_topic: str

    def __post_init__(self) -> None:
        if self.handler is not None and self.message_handler is not None:
            raise InvalidArgument("message_handler", self.message_handler, "none next to handler")
        if self.key is not None and self.message_handler is None:
            raise InvalidArgument("key", self.key, "none without message_handler: batches keep their queue's order")
        check_start(self.consume_from, self.consume_from_ms)

    @property
    def retry_topic(self) -> str:
        """The topic from which the group's failed messages come again."""
        return RETRY_PREFIX + self.group

    @property
    def is_broadcasting(self) -> bool:
        """True for a consumer that reads all queues, whatever other consumers read."""
        return self.message_model is MessageModel.BROADCASTING

    @property
    def has_handler(self) -> bool:
        """False for a consumer that is iterated over."""
        return self.handler is not None or self.message_handler is not None

    @property
    def locks_queues(self) -> bool:
        """True for a consumer that reads only queues whose locks it holds."""
        return self.ordered and not self.is_broadcasting

    @property
    def policy(self) -> RedeliveryPolicy:
        """What becomes of messages that were not done."""
        return RedeliveryPolicy(
            is_in_place=self.ordered or self.is_broadcasting,
            max_attempts=self.max_attempts,
            retry_delay_ms=self.retry_delay_ms,
        )

    @property
    def pull_settings(self) -> PullSettings:
        """How queues are pulled; their span has a limit only where messages overtake one another."""
        return PullSettings(
            pull_count_max=self.pull_count_max,
            window_count_max=self.window_count_max,
            window_size_max=self.window_size_max,
            window_span_max=None if self.message_handler is None else self.window_span_max,
        )
