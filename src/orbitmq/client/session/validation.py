"""The door of the clients: every argument of every public call is checked before anything is done with it.

A class that is decorated with `checked` has its rules looked up when it is defined, by the arguments' names; an argument
without a rule is refused there and then, so that none can be forgotten.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from inspect import Parameter, iscoroutinefunction, isfunction, signature
from pathlib import Path
from typing import Any, TypeVar, cast

from orbitmq.client.session.arguments import (
    DURATION_MS_MAX,
    LONG_MAX,
    Rule,
    choice,
    each,
    flag,
    function,
    instance,
    message,
    named,
    offsets,
    optional,
    queue,
    servers,
    text,
    texts,
    whole,
)
from orbitmq.errors import InvalidArgument
from orbitmq.model.group import ConsumeFrom, MessageModel
from orbitmq.model.message import BODY_SIZE_MAX, Message, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import GROUP_LENGTH_MAX, TopicConfig
from orbitmq.wire.signature import Credentials

K = TypeVar("K", bound=type)

COUNT = whole(1)
PAUSE_MS = whole(0, DURATION_MS_MAX)
INTERVAL_MS = whole(1, DURATION_MS_MAX)
TIME_MS = whole(0, LONG_MAX)
SIZE = whole(1, LONG_MAX)
STORED = instance(StoredMessage, allowed="a message that receive() returned, or that a batch holds")

RULES: Mapping[str, Rule] = {
    "address": text,
    "attempt_timeout_ms": INTERVAL_MS,
    "avoid_slow_brokers": flag,
    "batch_count_max": COUNT,
    "batch_size_max": whole(1024, BODY_SIZE_MAX),
    "begin_ms": TIME_MS,
    "body": instance(bytes, bytearray, memoryview, allowed="bytes"),
    "body_size_max": whole(0, BODY_SIZE_MAX),
    "broker": text,
    "check": function,
    "client_id": text,
    "close_timeout_ms": INTERVAL_MS,
    "cluster": text,
    "commit_interval_ms": INTERVAL_MS,
    "compress_over": whole(0),
    "concurrency": COUNT,
    "config": instance(TopicConfig, allowed="a TopicConfig"),
    "consume_from": choice(ConsumeFrom),
    "consume_from_ms": TIME_MS,
    "consume_timeout_ms": INTERVAL_MS,
    "count_max": COUNT,
    "credentials": instance(Credentials, allowed="Credentials(access_key, secret_key)"),
    "data_dir": instance(Path, str, allowed="a Path or a text"),
    "dry_run": flag,
    "end_ms": TIME_MS,
    "execute": function,
    "force": flag,
    "group": named(GROUP_LENGTH_MAX),
    "handle": text,
    "handler": function,
    "heartbeat_interval_ms": INTERVAL_MS,
    "index": whole(0),
    "instance": text,
    "invisible_ms": PAUSE_MS,
    "key": instance(str, allowed="a text"),
    "masters": texts,
    "max_attempts": COUNT,
    "message": message,
    "message_handler": function,
    "message_id": text,
    "message_model": choice(MessageModel),
    "messages": each(message, "a list of Messages"),
    "name": text,
    "name_servers": servers,
    "offset_dir": instance(Path, str, allowed="a Path or a text"),
    "offsets": offsets,
    "ordered": flag,
    "poll_interval_ms": INTERVAL_MS,
    "processes": flag,
    "properties": texts,
    "pull_count_max": COUNT,
    "queue": queue,
    "queue_count": COUNT,
    "queue_id": whole(0),
    "queue_offset": TIME_MS,
    "queues": each(queue, "a list of MessageQueues, such as queues() returns"),
    "read_queue_count": COUNT,
    "rebalance_interval_ms": INTERVAL_MS,
    "request": STORED,
    "requests_max": COUNT,
    "retries": whole(0),
    "retry_delay_ms": PAUSE_MS,
    "send_timeout_ms": PAUSE_MS,
    "sends_max": COUNT,
    "settings": instance(Mapping, allowed="a dict"),
    "silent": texts,
    "soon_count_max": COUNT,
    "soon_size_max": SIZE,
    "source": named(GROUP_LENGTH_MAX),
    "sql": instance(str, allowed="an SQL92 expression"),
    "strategy": function,
    "tag": instance(str, allowed='a tag, several as "A || B", or "*"'),
    "target": named(GROUP_LENGTH_MAX),
    "timeout_ms": PAUSE_MS,
    "timestamp_ms": TIME_MS,
    "tls": instance(ssl.SSLContext, allowed="an ssl.SSLContext"),
    "topic": named(),
    "topics": each(named(), "a list of topics"),
    "trace": flag,
    "trace_topic": named(),
    "window_count_max": COUNT,
    "window_size_max": SIZE,
    "window_span_max": COUNT,
    "windows_size_max": SIZE,
    "with_secrets": flag,
    "with_stacks": flag,
    "with_topics": flag,
}
"""The rules of arguments by their names; None passes as well where the signature says so.

What a name means otherwise in one method has its rule there, with `checked`.
"""

_PLAIN = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def checked(*, inline: Collection[str] = (), **special: Mapping[str, Rule]) -> Callable[[K], K]:
    """Return a class decorator: public methods, and the constructor, check their arguments before they begin.

    They get the values that the rules return: ints for numbers of other kinds.

    Where the class has a method `_check_loop`, that is called as well: nothing of a client is touched from another loop.

    Args:
        inline: methods that check for themselves, because every message passes through them.
        special: by method (`init` for the constructor), rules of arguments that are not what their name says elsewhere.

    Raises, when the class is defined:
        TypeError: an argument has no rule.
    """

    def decorate(kind: K) -> K:
        for name, method in tuple(vars(kind).items()):
            is_public = name == "__init__" or not name.startswith("_")
            if is_public and isfunction(method) and not getattr(method, "__isabstractmethod__", False):
                rules = _rules_of(kind, method, special.get(name.strip("_"), {}))
                checks_loop = name != "__init__" and hasattr(kind, "_check_loop")
                if name not in inline:
                    setattr(kind, name, _guarded(method, rules, checks_loop=checks_loop))
        return kind

    return decorate


def check_send(message: Message, *, queue: MessageQueue | None, key: str | None) -> MessageQueue | None:
    """Check the arguments of a send, but for its time; return the queue with an int as its number.

    Raises:
        InvalidArgument: the first one that does not keep to its rule; or a queue of another topic than the message's.
    """
    if not isinstance(message, Message):
        RULES["message"]("message", message)
    if key is not None:
        RULES["key"]("key", key)
    if queue is None:
        return None
    found = RULES["queue"]("queue", queue)
    if not isinstance(queue, MessageQueue) or queue.topic != message.topic:
        raise InvalidArgument("queue", tuple(queue), f"a MessageQueue of the message's topic {message.topic}")
    return cast(MessageQueue, found)


def _rules_of(kind: type, method: Callable[..., Any], special: Mapping[str, Rule]) -> dict[str, Rule]:
    rules = {}
    for name, parameter in tuple(signature(method).parameters.items())[1:]:
        if parameter.kind not in _PLAIN:
            continue
        rule = special.get(name) or RULES.get(name)
        if rule is None:
            raise TypeError(f"{kind.__name__}.{method.__name__}: no rule says what {name} may be; add one to RULES")
        rules[name] = optional(rule) if str(parameter.annotation).endswith("None") else rule
    return rules


def _guarded(method: Callable[..., Any], rules: Mapping[str, Rule], *, checks_loop: bool) -> Callable[..., Any]:
    names = tuple(rules)

    def check(self: Any, values: tuple[Any, ...], others: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = [rules[name](name, value) for name, value in zip(names, values, strict=False)]
        # Others than these go to a further constructor, or are refused by Python.
        named = {name: rules[name](name, value) if name in rules else value for name, value in others.items()}
        if checks_loop:
            self._check_loop()
        return (*found, *values[len(found) :]), named

    if iscoroutinefunction(method):

        @wraps(method)
        async def call_later(self: Any, *values: Any, **others: Any) -> Any:
            values, others = check(self, values, others)
            return await method(self, *values, **others)

        return call_later

    @wraps(method)
    def call(self: Any, *values: Any, **others: Any) -> Any:
        values, others = check(self, values, others)
        return method(self, *values, **others)

    return call
