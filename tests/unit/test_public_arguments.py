"""Every argument of every public constructor and method of the clients refuses what it cannot be, by its name.

The signatures are walked: an argument that is new has to be entered here, and in the rules, or these tests fail.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

import orbitmq
import orbitmq.blocking
from orbitmq.admin import AdminClient, ResetTo, TopicChange
from orbitmq.admin.dead_letter_client import DeadLetters
from orbitmq.client.blocking.consumers import BlockingBatch
from orbitmq.client.loop_thread import LoopThread
from orbitmq.errors import InvalidArgument, OrbitError
from orbitmq.model.message import Message, StoredMessage
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import BlockingCluster, LocalCluster
from orbitmq.wire.bodies.groups import GroupConfig

NUMBER = ["x", "1", 1.5, True, -1, 2**70]
POSITIVE = [*NUMBER, 0]
NAME = ["", "no blanks", 7, b"orders", ["orders"]]
TEXT = ["", 7, b"a"]
WORDS = [7, b"a", ["a"]]
FLAG = [0, "yes"]
FUNCTION = ["print", 7]
OBJECT = ["x", 7, b"x", object()]
QUEUE = ["orders", 7, ("orders", 0), MessageQueue("orders", "a", -1), MessageQueue("orders", "a", "0")]  # type: ignore[arg-type]
MESSAGE = ["x", 7, b"x"]

BAD: dict[str, list[Any]] = {
    "access_key": TEXT,
    "address": TEXT,
    "attempt_timeout_ms": POSITIVE,
    "avoid_slow_brokers": FLAG,
    "batch_count_max": POSITIVE,
    "batch_size_max": [*POSITIVE, 1023, 2**23],
    "begin_ms": NUMBER,
    "body": ["text", 7, ["a"]],
    "body_size_max": NUMBER,
    "broker": TEXT,
    "brokers": [*POSITIVE, 27],
    "change": OBJECT,
    "changes": [7, "a", {"a": 1}, {1: "a"}],
    "check": FUNCTION,
    "client_id": TEXT,
    "cluster": TEXT,
    "commit_interval_ms": POSITIVE,
    "compress_over": NUMBER,
    "concurrency": POSITIVE,
    "config": OBJECT,
    "consume_from": ["LAST", 7, []],
    "consume_from_ms": NUMBER,
    "consume_timeout_ms": POSITIVE,
    "close_timeout_ms": POSITIVE,
    "count_max": POSITIVE,
    "credentials": [*OBJECT, ("key", "secret")],
    "data_dir": [7, b"a"],
    "decision": ["COMMIT", 7],
    "delay_level": [*NUMBER, 1_001],
    "delay_ms": NUMBER,
    "deliver_at": ["tomorrow", 7],
    "priority": [-1, "1", True, 1.5],
    "dry_run": FLAG,
    "end_ms": NUMBER,
    "execute": FUNCTION,
    "flag": ["x", 1.5, 2**31],
    "force": FLAG,
    "group": NAME,
    "handle": [7, "", b"a"],
    "handler": FUNCTION,
    "heartbeat_interval_ms": POSITIVE,
    "in_reply_to": OBJECT,
    "index": [*NUMBER, 1],
    "instance": TEXT,
    "invisible_ms": NUMBER,
    "key": WORDS,
    "keys": [7, "a", [42], ["a b"], [""], {"a": "b"}],
    "masters": [7, "a", {"a": 1}, {1: "a"}],
    "max_attempts": POSITIVE,
    "message": MESSAGE,
    "message_handler": FUNCTION,
    "message_id": TEXT,
    "message_model": ["both", 7],
    "messages": [7, "x", ["x"]],
    "name": [7, "", "broker-z"],
    "name_servers": [7, "", [], "h:0", [7], b"h:1"],
    "offset_dir": [7, b"a"],
    "offsets": [7, [("orders", "a", 0)], {"orders": 0}, {MessageQueue("orders", "a", 0): -1}],
    "ordered": FLAG,
    "only_existing": FLAG,
    "only_unsent": FLAG,
    "again": FLAG,
    "poll_interval_ms": POSITIVE,
    "processes": FLAG,
    "properties": [7, "a", {"a": 1}, {1: "a"}],
    "pull_count_max": POSITIVE,
    "queue": QUEUE,
    "queue_count": POSITIVE,
    "queue_id": NUMBER,
    "queue_offset": NUMBER,
    "queues": [7, "orders", ["orders"], [None]],
    "read_queue_count": POSITIVE,
    "rebalance_interval_ms": POSITIVE,
    "request": [*MESSAGE, Message("orders", b"")],
    "requests_max": POSITIVE,
    "retries": NUMBER,
    "retry_delay_ms": NUMBER,
    "secret_key": TEXT,
    "security_token": TEXT,
    "selection": OBJECT,
    "send_timeout_ms": NUMBER,
    "sends_max": POSITIVE,
    "settings": [7, "a", {"flushDisk": 1}, {7: 1}],
    "sharding_key": WORDS,
    "soon_count_max": POSITIVE,
    "soon_size_max": POSITIVE,
    "source": NAME,
    "silent": [7, "a", {"a": 1}, {1: "a"}],
    "sql": [7, b"a", "", "price >"],
    "strategy": FUNCTION,
    "tag": [7, b"a", ["a"]],
    "target": NAME,
    "timeout_ms": NUMBER,
    "timestamp_ms": NUMBER,
    "tls": [*OBJECT, True],
    "to": OBJECT,
    "topic": NAME,
    "topics": ["orders", 7, [7], ["no blanks"]],
    "trace": FLAG,
    "trace_topic": NAME,
    "upto": MESSAGE,
    "window_count_max": POSITIVE,
    "window_size_max": POSITIVE,
    "windows_size_max": POSITIVE,
    "window_span_max": POSITIVE,
    "with_secrets": FLAG,
    "with_stacks": FLAG,
    "with_topics": FLAG,
}
"""Values that an argument of this name must refuse, wherever it is."""

ELSEWHERE: dict[str, list[Any]] = {
    "AdminClient.broker_stats.name": TEXT,
    "AdminClient.consume_directly.message": [7, "x", Message("orders", b"")],
    "AdminClient.groups.names": ["group", 7, [7]],
    "BlockingProducer.send_all.key": FUNCTION,
    "LocalCluster.__init__.name_servers": [*POSITIVE, 27],
    "LocalCluster.__init__.replicas": [*POSITIVE, 8],
    "LocalCluster.running.name_servers": [*POSITIVE, 27],
    "LocalCluster.running.replicas": [*POSITIVE, 8],
    "PushConsumer.__init__.key": FUNCTION,
    "SimpleConsumer.ack.messages": [7, "x", ["x"], [Message("orders", b"")]],
    "SimpleConsumer.receive.count_max": [*POSITIVE, 33],
}
"""The same where an argument means something else than others of its name."""

STORED = StoredMessage(
    topic="orders",
    body=b"",
    properties={"CORRELATION_ID": "1", "REPLY_TO_CLIENT": "c", "CLUSTER": "c"},
    queue_id=0,
    queue_offset=0,
    physical_offset=0,
    store_size=0,
)
GOOD: dict[str, Any] = {
    "access_key": "key",
    "address": "127.0.0.1:1",
    "body": b"",
    "client_id": "client",
    "change": TopicChange(),
    "changes": {},
    "config": TopicConfig(topic="orders"),
    "decision": orbitmq.Decision.COMMIT,
    "execute": lambda message: orbitmq.Decision.COMMIT,
    "group": "g",
    "handle": "handle",
    "invisible_ms": 0,
    "key": "k",
    "message": Message("orders", b""),
    "message_id": "id",
    "messages": [Message("orders", b"")],
    "name": "x",
    "name_servers": "127.0.0.1:1",
    "offsets": {},
    "queue": MessageQueue("orders", "a", 0),
    "queue_offset": 0,
    "queues": [],
    "masters": {},
    "read_queue_count": 1,
    "request": STORED,
    "secret_key": "secret",
    "source": "g",
    "target": "h",
    "timestamp_ms": 0,
    "to": ResetTo.earliest(),
    "topic": "orders",
}
"""Values for arguments that have to be given."""

STORED_IN = {"consume_directly", "change_invisible_time", "ack", "commit", "retry", "reject"}
"""Methods whose `message` is one that was received."""

CLIENTS: list[type] = [
    orbitmq.Producer,
    orbitmq.TransactionProducer,
    orbitmq.PushConsumer,
    orbitmq.PullConsumer,
    orbitmq.SimpleConsumer,
    AdminClient,
    DeadLetters,
    orbitmq.blocking.Producer,
    orbitmq.blocking.TransactionProducer,
    orbitmq.blocking.PushConsumer,
    orbitmq.blocking.PullConsumer,
    orbitmq.blocking.SimpleConsumer,
]
VALUES: list[type] = [Message, orbitmq.Credentials, LocalCluster]
"""Further classes whose constructors users call."""


def settler() -> Any:
    return SimpleNamespace(done=None, failed=None, suspended=None, rejected=None, batch_ended=None)


def batch() -> orbitmq.Batch:
    return orbitmq.Batch(MessageQueue("orders", "a", 0), [STORED], settler())


def transaction() -> Any:
    return orbitmq.Transaction(Message("orders", b""), None, None)  # type: ignore[arg-type]


class Case(NamedTuple):
    """An argument of a method, or of a constructor."""

    owner: type
    method: str
    argument: str

    def __str__(self) -> str:
        return f"{self.owner.__module__.rsplit('.', 1)[-1]}.{self.owner.__name__}.{self.method}.{self.argument}"


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = inspect.signature(function).parameters.values()
    return [each for each in found if each.name != "self" and each.kind is not inspect.Parameter.VAR_KEYWORD]


def constructor(owner: type) -> list[inspect.Parameter]:
    """Return what a constructor takes, also where it hands its settings on."""
    inner = getattr(orbitmq, owner.__name__.removeprefix("Blocking"), owner)
    bases = (owner, inner, orbitmq.Producer) if issubclass(inner, orbitmq.Producer) else (owner, inner)
    return list({each.name: each for base in reversed(bases) for each in parameters(base)}.values())


def methods(owner: type) -> Iterator[tuple[str, list[inspect.Parameter]]]:
    for name, function in inspect.getmembers(owner, inspect.isfunction):
        if not name.startswith("_") and parameters(function):
            yield name, parameters(function)


def cases() -> list[Case]:
    found = [Case(owner, "__init__", each.name) for owner in CLIENTS + VALUES for each in constructor(owner)]
    for owner in (*CLIENTS, LocalCluster, StoredMessage, orbitmq.Batch, BlockingBatch, orbitmq.Transaction):
        found += [Case(owner, name, each.name) for name, taken in methods(owner) for each in taken]
    return [case for case in found if not hasattr(Sequence, case.method) or case.method == "__init__"]


CASES = cases()


def needed(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a good value for each argument that has to be given."""
    return {each.name: GOOD[each.name] for each in parameters(function) if each.default is each.empty}


@pytest.fixture(scope="module")
def instances() -> Iterator[Callable[[type], Any]]:
    """Return an instance of each class: clients that are not open, so that nothing but a check can refuse a call."""
    loop_thread = LoopThread("tests")
    special: dict[type, Callable[[], Any]] = {
        LocalCluster: LocalCluster,
        StoredMessage: lambda: STORED,
        orbitmq.Batch: batch,
        BlockingBatch: lambda: BlockingBatch(batch(), loop_thread),
        orbitmq.Transaction: transaction,
    }
    made: dict[type, Any] = {}

    def instance(owner: type) -> Any:
        if owner not in made:
            made[owner] = special[owner]() if owner in special else owner(**needed(owner))
        return made[owner]

    yield instance
    for client in made.values():
        if hasattr(client, "_loop_thread"):
            client._loop_thread.stop()
    loop_thread.stop()


def good_values(case: Case) -> dict[str, Any]:
    values = needed(case.owner if case.method == "__init__" else getattr(case.owner, case.method))
    if "message" in values and case.method in STORED_IN:
        values["message"] = STORED
    if case.method == "create_group":
        values["config"] = GroupConfig(group="g")
    if "messages" in values and case.method in STORED_IN:
        values["messages"] = [STORED]
    return values


def bad_values(case: Case) -> list[Any]:
    owner = case.owner.__name__.removeprefix("Blocking")
    places = (str(case).split(".", 1)[1], f"{owner}.{case.method}.{case.argument}")
    listed = next((ELSEWHERE[place] for place in places if place in ELSEWHERE), None) or BAD.get(case.argument)
    assert listed is not None, f"{case}: which values does it refuse? Enter them in BAD, and a rule in RULES"
    taken = constructor(case.owner) if case.method == "__init__" else parameters(getattr(case.owner, case.method))
    (annotation,) = [str(each.annotation) for each in taken if each.name == case.argument]
    return listed if annotation.endswith("None") else [*listed, None]


def call(case: Case, instances: Callable[[type], Any], values: dict[str, Any]) -> None:
    made = case.owner(**values) if case.method == "__init__" else getattr(instances(case.owner), case.method)(**values)
    if inspect.iscoroutine(made):
        asyncio.run(made)
    elif hasattr(made, "__enter__") and case.method == "running":
        made.__enter__()
    elif inspect.isasyncgen(made):
        asyncio.run(made.asend(None))  # type: ignore[arg-type]


def refusal(case: Case, instances: Callable[[type], Any], values: dict[str, Any]) -> InvalidArgument | None:
    """Return the error that names an argument, None where there is none."""
    try:
        call(case, instances, values)
    except InvalidArgument as error:
        return error
    except OrbitError:  # it is not open, or no server is there
        return None
    return None


def test_a_bad_argument_is_refused_by_its_name_before_anything_is_done(instances):
    wrong = []
    for case, bad in [(found, value) for found in CASES for value in bad_values(found)]:
        error = refusal(case, instances, {**good_values(case), case.argument: bad})
        if error is None or error.field != case.argument or not error.allowed:
            wrong.append(f"{case} takes {bad!r}" if error is None else f"{case} refuses {bad!r} with {error}")
    assert not wrong


@pytest.mark.real
def test_good_arguments_are_not_what_is_refused(instances):
    calls = [case._replace(argument="") for case in CASES if case.owner in CLIENTS and case.method != "__init__"]
    for case in dict.fromkeys(calls):
        error = refusal(case, instances, good_values(case))
        # No broker has given that handle, that queue is not assigned, and no SimpleConsumer has received that message.
        assert error is None or error.field in ("handle", "queue") or error.value == STORED.topic, f"{case}: {error}"


def test_the_walk_finds_what_there_is():
    names = {str(case).split(".", 1)[1] for case in CASES}
    assert len(names) > 250
    assert {"Producer.send.timeout_ms", "BlockingProducer.send_all.key", "AdminClient.__init__.timeout_ms"} <= names
    assert {"BlockingPushConsumer.__init__.concurrency", "TransactionProducer.__init__.retries"} <= names
    assert {"LocalCluster.running.brokers", "BlockingCluster.stop_broker.name"} & names == {
        "LocalCluster.running.brokers"
    }
    assert BlockingCluster.__name__ == "BlockingCluster", "its methods hand everything to LocalCluster's"
