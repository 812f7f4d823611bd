"""Rows that the official Python client of 5.x walks through a proxy, a line of JSON each: python grpc_client.py PROXY ROW...

`java/src/main/java/peers/GrpcClient.java` walks the same rows. Topics and groups are the test's.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)

WAIT_S = 60
CONFIGURATION = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=30)


class Checker(TransactionChecker):
    """Says of every undecided transaction: it is committed."""

    def check(self, message: Message) -> Any:
        return TransactionResolution.COMMIT


class Listener(MessageListener):
    """Hands messages over, and answers what `judge` says."""

    def __init__(self, judge: Callable[[Message], Any]) -> None:
        self.judge = judge
        self.seen: queue.Queue[tuple[str, int]] = queue.Queue()

    def consume(self, message: Message) -> Any:
        self.seen.put((message.body.decode(), message.delivery_attempt))
        return self.judge(message)


@contextmanager
def producing(topic: str, checker: TransactionChecker | None = None) -> Iterator[Producer]:
    producer = Producer(CONFIGURATION, (topic,), checker)
    producer.startup()
    yield producer
    producer.shutdown()


@contextmanager
def receiving(topic: str, group: str) -> Iterator[SimpleConsumer]:
    consumer = SimpleConsumer(CONFIGURATION, group, {topic: FilterExpression()}, await_duration=2)
    consumer.startup()
    yield consumer
    consumer.shutdown()


@contextmanager
def listening(topic: str, group: str, judge: Callable[[Message], Any]) -> Iterator[Listener]:
    listener = Listener(judge)
    consumer = PushConsumer(CONFIGURATION, group, listener, {topic: FilterExpression()})
    consumer.startup()
    yield listener
    consumer.shutdown()


def message(topic: str, body: str, **fields: Any) -> Message:
    made = Message()
    made.topic = topic
    made.body = body.encode()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def receive(consumer: SimpleConsumer, count: int = 1, invisible_s: int = 60) -> list[Message]:
    """Return so many messages, of as many calls as it takes."""
    found: list[Message] = []
    give_up_at = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < give_up_at:
        try:
            found += consumer.receive(8, invisible_s) or ()
        except Exception as error:  # the proxy takes no questions before it has a new client's settings
            print(error, file=sys.stderr)
            time.sleep(0.2)
    return found


def is_empty(consumer: SimpleConsumer) -> bool:
    return not (consumer.receive(8, 60) or ())


def send() -> dict[str, Any]:
    sent = message("normal", "hello", tag="a", keys="k1")
    sent.add_property("colour", "blue")
    with producing("normal") as producer, receiving("normal", "g-send") as consumer:
        receipt = producer.send(sent)
        (got,) = receive(consumer)
        consumer.ack(got)
        return {
            "body": got.body.decode(),
            "tag": got.tag,
            "keys": sorted(got.keys),
            "colour": got.properties["colour"],
            "attempt": got.delivery_attempt,
            "same_id": got.message_id == receipt.message_id,
            "empty": is_empty(consumer),
        }


def delay() -> dict[str, Any]:
    with producing("delayed") as producer, receiving("delayed", "g-delay") as consumer:
        due_s = int(time.time()) + 4
        producer.send(message("delayed", "later", delivery_timestamp=due_s))
        (got,) = receive(consumer)
        consumer.ack(got)
        return {"body": got.body.decode(), "in_time": time.time() >= due_s - 0.5}


def fifo() -> dict[str, Any]:
    with listening("ordered", "g-fifo", lambda _: ConsumeResult.SUCCESS) as listener, producing("ordered") as producer:
        for number in range(10):
            for key in "xy":
                producer.send(message("ordered", f"{key}{number}", message_group=key))
        bodies = [listener.seen.get(timeout=WAIT_S)[0] for _ in range(20)]
    return {key: [body[1:] for body in bodies if body[0] == key] == [str(n) for n in range(10)] for key in "xy"}


def transaction() -> dict[str, Any]:
    with producing("transactional", Checker()) as producer, receiving("transactional", "g-tx") as consumer:
        for body in ("committed", "rolled back", "checked"):
            begun = producer.begin_transaction()
            producer.send(message("transactional", body), begun)
            if body == "committed":
                begun.commit()
            elif body == "rolled back":
                begun.rollback()
        found = receive(consumer, 2)
        for got in found:
            consumer.ack(got)
        return {"bodies": sorted(got.body.decode() for got in found), "empty": is_empty(consumer)}


def simple() -> dict[str, Any]:
    with producing("simple") as producer, receiving("simple", "g-simple") as consumer:
        producer.send(message("simple", "again"))
        (first,) = receive(consumer, invisible_s=60)
        consumer.change_invisible_duration(first, 2)
        (second,) = receive(consumer)
        consumer.ack(second)
        return {
            "attempts": [first.delivery_attempt, second.delivery_attempt],
            "same_id": first.message_id == second.message_id,
            "empty": is_empty(consumer),
        }


def push() -> dict[str, Any]:
    with listening("pushed", "g-push", lambda _: ConsumeResult.SUCCESS) as listener, producing("pushed") as producer:
        for number in range(20):
            producer.send(message("pushed", str(number)))
        found = [listener.seen.get(timeout=WAIT_S) for _ in range(20)]
    return {
        "bodies": sorted(int(body) for body, _ in found) == list(range(20)),
        "attempts": sorted({attempt for _, attempt in found}),
    }


def retry() -> dict[str, Any]:
    def judge(got: Message) -> Any:
        return ConsumeResult.SUCCESS if got.body == b"second" and got.delivery_attempt == 2 else ConsumeResult.FAILURE

    with listening("failing", "g-retry", judge) as listener, producing("failing") as producer:
        for body in ("never", "second"):
            producer.send(message("failing", body))
        found = [listener.seen.get(timeout=WAIT_S) for _ in range(4)]
        time.sleep(1)  # the last answer is under way
    return {"seen": sorted(found)}


def priority() -> dict[str, Any]:
    """All are sent, then all are received: [priority, messages] of each run, and whether a priority's kept their order."""
    with producing("urgent") as producer, receiving("urgent", "g-priority") as consumer:
        for number in range(10_000):
            producer.send(message("urgent", str(number), priority=number % 3))
        found = [(got.priority, int(got.body)) for got in receive(consumer, 10_000, 600)]
    return {
        "runs": [[of, len(list(run))] for of, run in groupby(of for of, _ in found)],
        "sorted": all(numbers == sorted(numbers) for numbers in ([n for p, n in found if p == of] for of in range(3))),
    }


def walk(row: Callable[[], dict[str, Any]]) -> str:
    try:
        told = row()
    except Exception as error:
        told = {"error": f"{type(error).__name__}: {error}"}
    return json.dumps({"row": row.__name__, **told})


with ThreadPoolExecutor() as threads:  # they wait most of the time
    for line in threads.map(walk, [globals()[name] for name in sys.argv[2:]]):
        print(line, flush=True)
