"""A NameServer under attack: in a thread of its own or in a process of its own, and blocking clients that ask it.

The clients are not on the server's loop, so that what is measured there is the server alone.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from children import freeze
from orbitmq.address import parse_address
from orbitmq.client.loop_thread import LoopThread
from orbitmq.model.route import ClusterInfo, TopicRoute
from orbitmq.model.topic import DataVersion, TopicConfig
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.wire.bodies.registration import encode_registration
from orbitmq.wire.bodies.route import decode_cluster_info, decode_route
from orbitmq.wire.command import Command, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import code_of, encode_header
from orbitmq.wire.headers import (
    BrokerHeartbeat,
    GetClusterInfo,
    GetRouteInfo,
    QueryDataVersion,
    RegisterBroker,
    UnregisterBroker,
)
from unit.nameserver.support import address_of, registration

T = TypeVar("T")

TIMEOUT_S = 20
"""Ends a wait in vain; no bound."""
_CHILD = Path(__file__).with_name("nameserver_child.py")


def frame(header: object, body: bytes = b"", *, opaque: int = 1, **ext_fields: str) -> bytes:
    """Encode a request; `ext_fields` are added to the header's own."""
    fields = {**encode_header(header), **ext_fields}
    return encode_command(Command(code_of(type(header)), opaque, ext_fields=fields, body=body))


class Link:
    """A blocking connection."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(parse_address(address), TIMEOUT_S)
        self._decoder = FrameDecoder()
        self._answers: dict[int, Command] = {}
        self._opaque = 0

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, header: object, body: bytes = b"", **ext_fields: str) -> int:
        """Send a request and return its opaque."""
        self._opaque += 1
        self.send_bytes(frame(header, body, opaque=self._opaque, **ext_fields))
        return self._opaque

    def send_bytes(self, data: bytes) -> None:
        """Send anything."""
        self._socket.sendall(data)

    def receive(self, opaque: int) -> Command:
        """Wait for the answer to a request."""
        while opaque not in self._answers:
            data = self._socket.recv(1 << 20)
            if not data:
                raise EOFError("closed instead of answering")
            for found in map(decode_command, self._decoder.feed(data)):
                self._answers[found.opaque] = found
        return self._answers.pop(opaque)

    def ask(self, header: object, body: bytes = b"", **ext_fields: str) -> Command:
        """Send a request and return the answer."""
        return self.receive(self.send(header, body, **ext_fields))

    def register(self, name: str, *topics: str, **options: Any) -> Command:
        """Register a broker; options as in `unit.nameserver.support.registration`."""
        answer = self.ask(*registration(name, *(topics or ("T1", "T2")), **options))
        assert answer.code == 0, answer
        return answer

    def route(self, topic: str) -> TopicRoute | None:
        """Ask for a route, always with the same words; None when there is none."""
        answer = self.ask(GetRouteInfo(topic=topic))
        assert answer.code in (0, 17), answer
        return decode_route(answer.body) if answer.code == 0 else None

    def brokers(self) -> set[str]:
        """Return the names of all brokers."""
        return set(self.cluster_info().brokers)

    def cluster_info(self) -> ClusterInfo:
        """Return all brokers of all clusters."""
        return decode_cluster_info(self.ask(GetClusterInfo()).body)

    def close(self) -> None:
        """End the connection."""
        self._socket.close()


class Served:
    """A NameServer in a thread of its own."""

    def __init__(self, server: NameServer, background: LoopThread) -> None:
        self.server = server
        self._background = background
        self._loop = background.apply(asyncio.get_running_loop)

    @property
    def address(self) -> str:
        return self.server.address

    def link(self) -> Link:
        return Link(self.address)

    def apply(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call something on the server's thread."""
        return self._background.apply(function, *arguments)

    @contextmanager
    def blocked(self) -> Iterator[None]:
        """Keep the loop from turning inside, as a long request does: where it reads, so that its timers come next."""
        began, go_on = threading.Event(), threading.Event()
        ours, theirs = socket.socketpair()

        def wait() -> None:
            self._loop.remove_reader(theirs)
            began.set()
            go_on.wait(TIMEOUT_S)

        self._loop.call_soon_threadsafe(self._loop.add_reader, theirs, wait)
        ours.send(b"x")
        assert began.wait(TIMEOUT_S)
        try:
            yield
        finally:
            go_on.set()
            self.apply(theirs.close)
            ours.close()

    @contextmanager
    def turns(self) -> Iterator[Turns]:
        """Measure the loop's turns inside."""
        measured = Turns()
        self.apply(measured.start)
        try:
            yield measured
        finally:
            self.apply(measured.stop)


class Turns:
    """The longest turn of a loop so far, in CPU seconds of its thread: what other processes take does not count."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._last_s = 0.0
        self._is_over = False

    def start(self) -> None:
        self._last_s = time.thread_time()
        asyncio.get_running_loop().call_soon(self._tick)

    def stop(self) -> None:
        self._is_over = True

    def _tick(self) -> None:
        now_s = time.thread_time()
        self.longest_s = max(self.longest_s, now_s - self._last_s)
        self._last_s = now_s
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self._tick)


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Served]:
    """Run a NameServer with true clocks in a thread of its own."""
    config = NameServerConfig(
        bind_address="127.0.0.1",
        listen_port=0,
        kv_config_path=folder / "kvConfig.json",
        config_store_path=folder / "namesrv.properties",
        **settings,
    )
    background = LoopThread("name server")
    try:
        server = background.apply(NameServer, config)
        background.call(server.start())
        try:
            yield Served(server, background)
        finally:
            background.call(server.stop())
    finally:
        background.stop()


class Child:
    """A NameServer in a process of its own, which can be stopped and whose wall clock can jump.

    Args:
        descriptors: how many files and connections it may have open; None: as many as this process.
        settings: RocketMQ's keys for its properties file.
    """

    def __init__(self, folder: Path, *, descriptors: int | None = None, **settings: object) -> None:
        limited = ["sh", "-c", f'ulimit -n {descriptors} && exec "$0" "$@"'] if descriptors else []
        config = folder / "namesrv.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        words = ["-c", config, "--host", "127.0.0.1", "--port", "0", "--data-dir", folder, "--metrics-port", "0"]
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *limited,
                    sys.executable,
                    _CHILD,
                    "nameserver",
                    *map(str, words),
                    "-o",
                    "json",
                    "--log-level",
                    "warning",
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (folder / "log").read_text(errors="replace")
        self.address: str = json.loads(line)["nameserver"]
        self.process_id = self._process.pid

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def link(self) -> Link:
        return Link(self.address)

    def jump(self, by_ms: int) -> None:
        """Let its wall clock jump."""
        self._tell("jump", by_ms)

    def block(self, ms: int) -> None:
        """Keep everything in it from running for so long, its event loop for one."""
        self._tell("block", ms)

    def slow_disk(self, ms: int) -> None:
        """Let each write of a small file take so much longer from now on."""
        self._tell("disk", ms)

    def _tell(self, command: str, number: int) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command} {number}\n")
        assert self._process.stdout.readline() == "done\n"

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process inside."""
        freeze(self.process_id)
        try:
            yield
        finally:
            os.kill(self.process_id, signal.SIGCONT)


class Heartbeats:
    """Brokers that live: each registers on a connection of its own and renews its lease again and again, inside `with`.

    Args:
        say: what a broker says to renew its lease.
    """

    def __init__(
        self, address: str, count: int, *, lease_ms: int, say: Callable[[str], tuple[object, bytes]] | None = None
    ) -> None:
        self.names = [f"broker-{number}" for number in range(count)]
        self._say = say or (lambda name: (heartbeat_of(name), b""))
        self._pause_s = lease_ms / 1000 / 10
        self._links = {name: Link(address) for name in self.names}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        for name, link in self._links.items():
            link.register(name, heartbeat_timeout_millis=lease_ms)

    def __enter__(self) -> Heartbeats:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for link in self._links.values():
            link.close()

    def fall_silent(self) -> None:
        """Renew nothing any more; the connections stay."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._pause_s):
            for name, link in self._links.items():
                link.send(*self._say(name))


def heartbeat_of(name: str) -> BrokerHeartbeat:
    return BrokerHeartbeat(cluster_name="c", broker_addr=address_of(name), broker_name=name)


def data_version_of(name: str) -> QueryDataVersion:
    return QueryDataVersion(cluster_name="c", broker_addr=address_of(name), broker_name=name, broker_id=0)


def leaving_of(name: str) -> UnregisterBroker:
    return UnregisterBroker(cluster_name="c", broker_addr=address_of(name), broker_name=name, broker_id=0)


def giant(name: str, count: int, *, version: int = 1, **options: Any) -> tuple[RegisterBroker, bytes]:
    """Build a registration of so many topics that it is taken in in slices; all giants have the same ones."""
    body = _giant_body(count, version)
    header, _ = registration(name, "T1", "T2", **options)
    return replace(header, body_crc32=zlib.crc32(body) & 0x7FFFFFFF), body


@cache
def _giant_body(count: int, version: int) -> bytes:
    topics = (f"giant-topic-{number:07}" for number in range(count))
    return encode_registration(DataVersion(0, 0, version), {topic: TopicConfig(topic=topic) for topic in topics})


@contextmanager
def kept_bytes() -> Iterator[Callable[[], int]]:
    """Measure how many bytes of Python's memory are kept more than at the beginning."""

    def measured() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    before = measured()
    try:
        yield lambda: measured() - before
    finally:
        tracemalloc.stop()
