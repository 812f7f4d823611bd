"""Reading with our consumers until everything that was expected is there."""

from __future__ import annotations

import time
from typing import Any

from orbitmq import RouteNotFound
from orbitmq.blocking import PullConsumer, PushConsumer
from orbitmq.model.message import StoredMessage
from waiting import wait_for

TIMEOUT_S = 60


def read_all(
    name_servers: str, topic: str, count: int, group: str = "interop-readers", **settings: Any
) -> list[StoredMessage]:
    """Read `count` messages of a topic from its beginning with our PullConsumer; `settings` are the consumer's.

    A topic that its first message made is waited for: a broker registers it after it has answered.
    """
    found: list[StoredMessage] = []
    with PullConsumer(group, name_servers, **settings) as consumer:
        queues = wait_for(lambda: consumer.queues(topic), f"a route of {topic}", errors=RouteNotFound)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek_to_begin(queue)
        deadline = time.monotonic() + TIMEOUT_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
            found += consumer.poll(timeout_ms=1000)
    return found


def consume(consumer: PushConsumer, count: int) -> list[StoredMessage]:
    """Take `count` messages from a running PushConsumer of ours and commit them."""
    found: list[StoredMessage] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} messages came"
        batch = consumer.next_batch(timeout_ms=1000)
        if batch is not None:
            found += list(batch)
            batch.commit()
    return found


def bodies(messages: list[Any]) -> list[bytes]:
    """The bodies of messages of ours or of Java's, sorted."""
    return sorted(bytes(item["body"] if isinstance(item, dict) else item.body) for item in messages)
