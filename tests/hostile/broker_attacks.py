"""Hostile clients of a broker, each a process: `python -m hostile.broker_attacks NAME HOST PORT SHARE`.

`ready` goes out when the attack is prepared, and a line that comes in begins it. `done` follows each time when all of it
was done. It goes on until the process is ended.
"""

from __future__ import annotations

import itertools
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from typing import Any

import orjson

from hostile.figure import Size
from hostile.requests import whole_header
from orbitmq.broker.handlers import HANDLERS
from orbitmq.codes import RequestCode
from orbitmq.model.group import ConsumerInfo, Heartbeat
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.heartbeat import QueueLock, encode_heartbeat, encode_queue_lock
from orbitmq.wire.bodies.topics import encode_topic_configs
from orbitmq.wire.command import Command, encode_command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import (
    BatchAckMessages,
    CreateTopics,
    HeartbeatRequest,
    LockQueues,
    PopMessage,
    PullMessage,
    PullSysFlag,
    SendBatch,
    SendMessageV2,
    UpdateConsumerOffset,
    UpdateSubscriptionGroups,
)
from orbitmq.wire.messages.batch import encode_batch
from orbitmq.wire.pop.batch_acks import BatchAck, encode_batch_acks

MIB = 2**20
SUSPEND_MS = 30_000
_RESET = struct.pack("ii", 1, 0)
_BATCH_SIZE = 200
_HOLDING_S = 12
"""So long a broker may take to hold a hundred thousand pulls, most of which wait in its sockets before."""


def send_frame(topic: str, body: bytes = b"x", *, opaque: int = 1, queue_id: int = 0) -> bytes:
    """Encode a send."""
    header = SendMessageV2(**_send_fields(topic, queue_id))
    return encode_command(Command(RequestCode.SEND_MESSAGE_V2, opaque, ext_fields=encode_header(header), body=body))


def batch_frame(topic: str, size: int) -> bytes:
    """Encode a batch of as many empty messages as it takes to fill `size` bytes."""
    item = encode_batch([(0, b"", b"")])
    header = SendBatch(**_send_fields(topic, 0), batch=True)
    return encode_command(
        Command(RequestCode.SEND_BATCH_MESSAGE, 1, ext_fields=encode_header(header), body=item * (size // len(item)))
    )


def _send_fields(topic: str, queue_id: int) -> dict[str, Any]:
    return {
        "producer_group": "p", "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4,
        "queue_id": queue_id, "sys_flag": 0, "born_at_ms": 1, "flag": 0, "properties": "",
    }  # fmt: skip


def request_frame(code: RequestCode, header: object, body: bytes = b"") -> bytes:
    """Encode a request."""
    return encode_command(Command(code, 1, ext_fields=encode_header(header), body=body))


def pop_frame(group: str, *, poll_ms: int = 0) -> bytes:
    """Encode a pop."""
    header = PopMessage(
        consumer_group=group, topic="t", queue_id=-1, count_max=32, invisible_ms=60_000, poll_ms=poll_ms, init_mode=0
    )
    return request_frame(RequestCode.POP_MESSAGE, header)


def pull_frame(
    topic: str, offset: int, *, opaque: int = 1, group: str = "g", suspend_ms: int = 0, sql: str | None = None
) -> bytes:
    """Encode a pull."""
    header = PullMessage(
        consumer_group=group, topic=topic, queue_id=0, queue_offset=offset, count_max=32, commit_offset=0,
        sys_flag=PullSysFlag.SUBSCRIPTION | (PullSysFlag.SUSPEND if suspend_ms else 0),
        suspend_timeout_ms=suspend_ms, subscription=sql or "*", sub_version=0,
        expression_type="SQL92" if sql else None,
    )  # fmt: skip
    return encode_command(Command(RequestCode.PULL_MESSAGE, opaque, ext_fields=encode_header(header)))


MANY = 5_000
"""Topics and groups of a broker that is asked for everything."""
ANSWER_S = 5.0
"""Who has no answer after so long asks for the next thing."""


class Attacker:
    """Connections to one broker, and how much of an attack is done."""

    def __init__(self, host: str, port: int, size: Size) -> None:
        self.size = size
        self._address = (host, port)
        self._opened: list[socket.socket] = []

    def connect(self, *, receive_size: int = 0) -> socket.socket:
        """Open a connection that stays open."""
        peer = socket.socket()
        if receive_size:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_size)
        peer.connect(self._address)
        self._opened.append(peer)
        return peer

    def ask(self, frame: bytes) -> None:
        """Send a request and wait until its answer begins."""
        with socket.create_connection(self._address) as peer:
            peer.sendall(frame)
            peer.recv(65536)

    def fill(self, topic: str, count: int, size: int) -> None:
        """Store messages."""
        for _ in range(count):
            self.ask(send_frame(topic, bytes(size)))

    def visit(self) -> None:
        """Open a connection and reset it."""
        with suppress(OSError), socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            peer.settimeout(1)
            peer.connect(self._address)


def wait_for_start() -> None:
    """Say that all is ready, and wait for the word to begin."""
    print("ready", flush=True)
    sys.stdin.readline()


def idle_connections(attacker: Attacker) -> Iterator[None]:
    """Open connections beyond the limit, again and again."""
    wait_for_start()
    while True:
        for _ in range(attacker.size.of(300)):
            with suppress(OSError):
                attacker.connect()
        yield
        time.sleep(0.2)


def held_and_large(attacker: Attacker) -> Iterator[None]:
    """Let pulls wait on as many connections, send one large message, read it everywhere; and again."""
    count = attacker.size.of(300)
    attacker.fill("large", 1, 10)
    peers = [attacker.connect() for _ in range(count)]
    body, offset = bytes(4 * MIB - 1024), 1
    wait_for_start()
    while True:
        for peer in peers:
            peer.setblocking(True)
            peer.sendall(pull_frame("large", offset, suspend_ms=SUSPEND_MS))
        time.sleep(0.2)
        attacker.ask(send_frame("large", body))
        _read_answers(peers)
        offset += 1
        yield


def _read_answers(peers: list[socket.socket]) -> None:
    """Read one answer from each, in the order of their coming."""
    selector = selectors.DefaultSelector()
    left = dict.fromkeys(peers, 0)
    for peer in peers:
        peer.setblocking(False)
        selector.register(peer, selectors.EVENT_READ)
    buffer = bytearray(MIB)
    while selector.get_map():
        for key, _ in selector.select():
            assert isinstance(key.fileobj, socket.socket)
            peer = key.fileobj
            try:
                count = peer.recv_into(buffer)
            except BlockingIOError:
                continue
            if not left[peer]:
                left[peer] = 4 + int.from_bytes(buffer[:4], "big")
            left[peer] -= count
            if left[peer] <= 0 or not count:
                selector.unregister(peer)
    selector.close()


def held_and_small(attacker: Attacker) -> Iterator[None]:
    """Let a hundred thousand pulls wait on a few connections, and send a small message; and again."""
    count, offset = attacker.size.of(100_000), 1
    attacker.fill("small", 1, 10)
    peers = [attacker.connect() for _ in range(10)]
    for peer in peers:
        threading.Thread(target=_read_all, args=(peer,), daemon=True).start()
    wait_for_start()
    while True:
        frames = pull_frame("small", offset, suspend_ms=SUSPEND_MS) * _BATCH_SIZE
        for number in range(count // _BATCH_SIZE):
            peers[number % len(peers)].sendall(frames)
        time.sleep(attacker.size.of(_HOLDING_S))
        attacker.ask(send_frame("small"))
        offset += 1
        time.sleep(1)
        yield


def _read_all(peer: socket.socket, pause_s: float = 0.0, size: int = MIB) -> None:
    buffer = bytearray(size)
    with suppress(OSError):
        while peer.recv_into(buffer):
            time.sleep(pause_s)


def deaf_pullers(attacker: Attacker) -> Iterator[None]:
    """Pull large answers on many connections and read none; come again when one is cut off."""
    yield from _pull_without_reading(attacker, attacker.size.of(100), 20)


def pipelining_non_readers(attacker: Attacker) -> Iterator[None]:
    """Pull large answers on a few connections, as many as go out, and read none."""
    yield from _pull_without_reading(attacker, attacker.size.of(20), 100_000)


def _pull_without_reading(attacker: Attacker, count: int, pipelined: int) -> Iterator[None]:
    attacker.fill("full", 16, MIB)
    frames = pull_frame("full", 0) * min(pipelined, 1_000)

    def pull() -> None:
        while True:
            with suppress(OSError):
                peer = attacker.connect(receive_size=4096)
                for _ in range(max(1, pipelined // 1_000)):
                    peer.sendall(frames)
                while peer.recv(1, socket.MSG_PEEK):  # until it is cut off
                    time.sleep(0.5)
            time.sleep(0.2)

    wait_for_start()
    for _ in range(count):
        threading.Thread(target=pull, daemon=True).start()
    yield
    while True:
        time.sleep(0.1)
        yield


def half_frames(attacker: Attacker) -> Iterator[None]:
    """Send half of a frame of 16 MiB on many connections."""
    wait_for_start()
    data = struct.pack(">II", 16 * MIB - 100, 100) + bytes(8 * MIB)
    while True:
        for _ in range(attacker.size.of(100)):
            with suppress(OSError):
                attacker.connect().sendall(data)
        yield


def slow_readers(attacker: Attacker) -> Iterator[None]:
    """Pull large answers on many connections, and read ten kilobytes a second."""
    attacker.fill("full", 16, MIB)
    wait_for_start()
    for _ in range(attacker.size.of(100)):
        peer = attacker.connect(receive_size=4096)
        peer.sendall(pull_frame("full", 0) * 10)
        threading.Thread(target=_read_all, args=(peer, 0.1, 1024), daemon=True).start()
    yield
    while True:
        time.sleep(0.1)
        yield


def connection_storm(attacker: Attacker) -> Iterator[None]:
    """Open connections and reset them, as fast as it goes."""
    wait_for_start()
    while True:
        for _ in range(attacker.size.of(2_000)):
            attacker.visit()
        yield


def new_groups(attacker: Attacker) -> Iterator[None]:
    """Pull as a thousand groups that it is unknown."""
    attacker.fill("t", 1, 10)
    yield from _send_a_thousand(attacker, lambda number: pull_frame("t", 0, group=f"group-{number}"))


def new_topics(attacker: Attacker) -> Iterator[None]:
    """Send to a thousand topics that it is unknown."""
    yield from _send_a_thousand(attacker, lambda number: send_frame(f"topic-{number}"))


def _send_a_thousand(attacker: Attacker, frame_of: Callable[[int], bytes]) -> Iterator[None]:
    """Send frames that differ in their numbers, and read the answers; again and again."""
    peer, made = attacker.connect(), 0
    threading.Thread(target=_read_all, args=(peer,), daemon=True).start()
    wait_for_start()
    while True:
        for _ in range(attacker.size.of(1_000)):
            peer.sendall(frame_of(made))
            made += 1
        yield
        time.sleep(30)


def giant_batches(attacker: Attacker) -> Iterator[None]:
    """Send batches of 4 MiB that hold as many messages as they can."""
    frame = batch_frame("batches", attacker.size.of(4 * MIB, 22))
    wait_for_start()
    while True:
        attacker.ask(frame)
        yield


def greedy(attacker: Attacker, frames: Callable[[int], Iterator[bytes]]) -> Iterator[None]:
    """Send what is dear on many connections, each of which waits for its answer before it sends the next."""
    wait_for_start()

    def ask(number: int) -> None:
        with suppress(OSError):
            peer = attacker.connect()
            peer.settimeout(ANSWER_S)
            for frame in frames(number):
                peer.sendall(frame)
                with suppress(TimeoutError):
                    peer.recv(MIB)

    for number in range(attacker.size.of(20)):
        threading.Thread(target=ask, args=(number,), daemon=True).start()
    while True:
        time.sleep(0.1)
        yield


def new_expressions(attacker: Attacker) -> Iterator[None]:
    """Pull by ever new SQL92 expressions of 16 KiB."""
    attacker.fill("t", 1, 10)

    def frames(number: int) -> Iterator[bytes]:
        for count in itertools.count():
            terms = " AND ".join(f"a{number}x{count}x{term} = {term}" for term in range(attacker.size.of(700, 1)))
            yield pull_frame("t", 0, sql=terms[:16_000].rpartition(" AND ")[0])

    yield from greedy(attacker, frames)


def batch_acks(attacker: Attacker) -> Iterator[None]:
    """Acknowledge messages of four thousand checkpoints with each request."""
    attacker.fill("t", 1, 10)

    def frames(number: int) -> Iterator[bytes]:
        for count in itertools.count():
            places = range(count * 1_000_000, count * 1_000_000 + 32 * attacker.size.of(4_000), 32)
            acks = [BatchAck("g", "t", "0", at, 0, 0, number, 60_000, range(at, at + 32)) for at in places]
            body = encode_batch_acks("", acks)
            yield request_frame(RequestCode.BATCH_ACK_MESSAGE, BatchAckMessages(), body)

    yield from greedy(attacker, frames)


def many_locks(attacker: Attacker) -> Iterator[None]:
    """Lock twenty thousand queues with each request."""
    queues = tuple(MessageQueue("t", "victim", number) for number in range(attacker.size.of(20_000)))

    def frames(number: int) -> Iterator[bytes]:
        body = encode_queue_lock(QueueLock(group=f"g{number}", client_id=f"c{number}", queues=queues))
        while True:
            yield request_frame(RequestCode.LOCK_BATCH_MQ, LockQueues(), body)

    yield from greedy(attacker, frames)


def hundreds_of_groups(attacker: Attacker) -> Iterator[None]:
    """Make a hundred thousand groups, in heartbeats of hundreds."""
    attacker.fill("t", 1, 10)

    def frames(number: int) -> Iterator[bytes]:
        for count in itertools.count():
            groups = range(count * 250, count * 250 + attacker.size.of(250))
            consumers = tuple(ConsumerInfo(group=f"group-{number}-{one}") for one in groups)
            body = encode_heartbeat(Heartbeat(client_id=f"c{number}", consumers=consumers))
            yield request_frame(RequestCode.HEART_BEAT, HeartbeatRequest(), body)

    yield from greedy(attacker, frames)


def every_request(attacker: Attacker) -> Iterator[None]:
    """Ask a broker with thousands of topics and groups for everything that it knows, by every request code."""
    make_many(attacker, attacker.size.of(MANY))
    yield from greedy(attacker, lambda number: every_frame(range(number, MANY, 20)))


def make_many(attacker: Attacker, count: int) -> None:
    """Make topics, and groups that have offsets in them."""
    for start in range(0, count, 500):
        numbers = range(start, min(start + 500, count))
        topics = [TopicConfig(topic=f"t{number}", read_queue_count=8, write_queue_count=8) for number in numbers]
        attacker.ask(
            request_frame(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, CreateTopics(), encode_topic_configs(topics))
        )
        groups = orjson.dumps({"groupConfigList": [{"groupName": f"g{number}"} for number in numbers]})
        attacker.ask(
            request_frame(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, UpdateSubscriptionGroups(), groups)
        )
        for number in numbers:
            offset = UpdateConsumerOffset(consumer_group=f"g{number}", topic="t0", queue_id=0, commit_offset=0)
            attacker.ask(request_frame(RequestCode.UPDATE_CONSUMER_OFFSET, offset))


def every_frame(names: Iterable[int], codes: Iterable[int] = tuple(sorted(HANDLERS.codes))) -> Iterator[bytes]:
    """Yield a request of each code for each of the topics and groups that `make_many` has made."""
    for number in names:
        for code in codes:
            header: Any = whole_header(code)
            named = {
                field.name: f"t{number}" if "topic" in field.name else f"g{number}"
                for field in fields(header)
                if field.name in ("topic", "consumer_group", "group", "group_name") and field.default is MISSING
            }
            yield request_frame(RequestCode(code), replace(header, **named), b"{}")


def popping_groups(attacker: Attacker) -> Iterator[None]:
    """Pop as ever new groups."""
    attacker.fill("t", 1, 10)

    def frames(number: int) -> Iterator[bytes]:
        for count in itertools.count():
            yield pop_frame(f"group-{number}-{count}")

    yield from greedy(attacker, frames)


def held_pops(attacker: Attacker) -> Iterator[None]:
    """Let sixty thousand pops wait, and send messages that wake them."""
    attacker.fill("t", 1, 10)
    peers = [attacker.connect() for _ in range(20)]
    for peer in peers:
        threading.Thread(target=_read_all, args=(peer,), daemon=True).start()
    attacker.ask(pop_frame("g"))
    wait_for_start()
    while True:
        frames = pop_frame("g", poll_ms=SUSPEND_MS) * _BATCH_SIZE
        for number in range(attacker.size.of(60_000) // _BATCH_SIZE):
            peers[number % len(peers)].sendall(frames)
        for _ in range(100):
            attacker.ask(send_frame("t"))
            time.sleep(0.05)
        yield


ATTACKS: dict[str, Callable[[Attacker], Iterator[None]]] = {
    "idle-connections": idle_connections,
    "held-and-large": held_and_large,
    "held-and-small": held_and_small,
    "deaf-pullers": deaf_pullers,
    "half-frames": half_frames,
    "pipelining-non-readers": pipelining_non_readers,
    "slow-readers": slow_readers,
    "connection-storm": connection_storm,
    "new-groups": new_groups,
    "new-topics": new_topics,
    "giant-batches": giant_batches,
    "new-expressions": new_expressions,
    "batch-acks": batch_acks,
    "many-locks": many_locks,
    "hundreds-of-groups": hundreds_of_groups,
    "popping-groups": popping_groups,
    "every-request": every_request,
    "held-pops": held_pops,
}


def main() -> None:
    """Run one attack until the process is ended."""
    name, host, port, share = sys.argv[1:]
    if hasattr(os, "nice"):  # where cores are few, those whose answers are timed go first
        os.nice(5)
    attack = ATTACKS[name](Attacker(host, int(port), Size(float(share), 0)))
    with suppress(OSError):
        for _ in attack:
            print("done", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
