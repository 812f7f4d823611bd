"""The smallest possible client: one request over a blocking socket, written out by hand.

The orchestrator times servers with it, so it depends on nothing that it might measure.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.load import BenchmarkError

RETRY_S = 0.002
RUNTIME_INFO = 28


class Answer(NamedTuple):
    """An answer's header and body."""

    header: dict[str, Any]
    body: bytes


def ask(port: int, code: int, fields: Mapping[str, str], body: bytes = b"", *, timeout_s: float = 5) -> Answer:
    """Send one request and return its answer."""
    header = json.dumps(
        {
            "code": code,
            "extFields": fields,
            "flag": 0,
            "language": "JAVA",
            "opaque": 1,
            "serializeTypeCurrentRPC": "JSON",
            "version": 479,
        }
    ).encode()
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as connection:
        connection.sendall(struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body)
        size, mark = struct.unpack(">II", _receive(connection, 8))
        rest = _receive(connection, size - 4)
    header_size = mark & 0xFFFFFF
    return Answer(json.loads(rest[:header_size]), rest[header_size:])


def ask_route(port: int, topic: str) -> Answer:
    """Ask a NameServer for a topic's route."""
    return ask(port, 105, {"topic": topic})


def ask_send(port: int, topic: str, *, queues: int = 8, body: bytes = b"first") -> Answer:
    """Send one message, creating the topic with `queues` queues when it is missing."""
    properties = f"UNIQ_KEY\x017F00000100000000000000000000{time.time_ns() & 0xFFFF:04X}\x02WAIT\x01true\x02"
    fields = {"a": "bench-producer", "b": topic, "c": "TBW102", "d": str(queues), "e": "0", "f": "0"}
    fields |= {"g": str(time.time_ns() // 1_000_000), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false"}
    return ask(port, 310, fields, body)


def ask_topic(port: int, topic: str, *, queues: int = 8) -> Answer:
    """Create a topic with `queues` queues."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(queues), "writeQueueNums": str(queues)}
    fields |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    answer = ask(port, 17, fields)
    if answer.header["code"]:
        raise BenchmarkError(f"topic {topic} could not be created: {answer.header}")
    return answer


def ask_count(port: int, topic: str, *, queues: int = 8) -> int:
    """Count the messages of a topic that can be read."""
    answers = (ask(port, 30, {"topic": topic, "queueId": str(queue)}) for queue in range(queues))
    return sum(int(answer.header["extFields"]["offset"]) for answer in answers)


def wait_for(
    question: Callable[[], Answer],
    *,
    codes: tuple[int, ...],
    timeout_s: float = 60,
    alive: Callable[[], bool] = lambda: True,
) -> Answer:
    """Ask again and again until the server listens and answers with one of `codes` (none given: any)."""
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        if not alive():
            raise BenchmarkError("the process ended")
        try:
            answer = question()
        except OSError as error:
            last = error
        else:
            if not codes or answer.header["code"] in codes:
                return answer
            last = answer.header
        time.sleep(RETRY_S)
    raise BenchmarkError(f"no good answer within {timeout_s:g} s; the last was {last}")


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionResetError("the server closed the connection")
        data += part
    return bytes(data)
