"""A broker as its own process, spoken to over the wire alone: killed, limited, started again on what is left.

`ORBITMQ_UNDER_TEST=/path/to/.venv/bin/orbitmq` runs the tests that use it against another version.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from orbitmq.net.pool import ConnectionPool
from orbitmq.store.lmq import lmq_offsets
from orbitmq.wire.bodies.groups import GroupConfig, encode_group_config
from orbitmq.wire.command import Command
from orbitmq.wire.headers import (
    CreateTopic,
    DeleteTopicInBroker,
    PullMessage,
    PullSysFlag,
    SendMessageV2,
    UpdateSubscriptionGroup,
)
from orbitmq.wire.messages.properties import format_properties
from orbitmq.wire.messages.record import Record, iter_records

NOWHERE = "127.0.0.1:9"
"""The NameServer that these brokers cannot reach: no client asks for a route here."""

_FOUND = 0


def command() -> tuple[list[str], dict[str, str]]:
    """Return the command line of the version under test, and its environment."""
    other = os.environ.get("ORBITMQ_UNDER_TEST")
    if other is None:
        return [sys.executable, "-m", "orbitmq"], dict(os.environ)
    return [other], {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class BrokerProcess:
    """`orbitmq broker` on one directory.

    Args:
        home: gets the configuration, the log and the store.
        settings: RocketMQ's own keys.
        descriptors: the limit of open files; None: as it is.
        file_size: the limit of a file's bytes; None: as it is.
    """

    def __init__(
        self,
        home: Path,
        settings: Mapping[str, object] | None = None,
        descriptors: int | None = None,
        file_size: int | None = None,
    ):
        self.store = home / "store"
        self.log = home / "broker.log"
        self.address = ""
        self._config = home / "broker.conf"
        self._config.write_text("".join(f"{key}={value}\n" for key, value in (settings or {}).items()))
        self._limits = {resource.RLIMIT_NOFILE: descriptors, resource.RLIMIT_FSIZE: file_size}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            RuntimeError: it ended instead; with its log.
        """
        process = self._spawn()
        assert process.stdout is not None
        ready = process.stdout.readline()
        if not ready:
            self.kill()
            raise RuntimeError(self.log.read_text())
        self.address = json.loads(ready)["broker"]

    def start_and_kill(self, within_s: float) -> bool:
        """Start it, and kill -9 it after so long, or when it serves; return whether it was still starting."""
        process = self._spawn()
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], within_s)
        self.kill()
        return not ready

    def _spawn(self) -> subprocess.Popen[str]:
        def limit() -> None:
            for kind, most in self._limits.items():
                if most is not None:
                    resource.setrlimit(kind, (most, most))

        version, environment = command()
        line = [
            *version, "broker", "-c", str(self._config), "-n", NOWHERE, "--host", "127.0.0.1", "--port", "0",
            "--name", "broker-a", "--data-dir", str(self.store), "-o", "json",
        ]  # fmt: skip
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                line, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, preexec_fn=limit,
                start_new_session=True,
            )  # fmt: skip
        return self._process

    def kill(self) -> None:
        """Kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Stop it in order; return its exit code."""
        return self._end(signal.SIGTERM)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process = None
        return code


class Wire:
    """Requests to one broker."""

    def __init__(self, pool: ConnectionPool, address: str) -> None:
        self._pool = pool
        self._address = address

    async def ask(self, header: Any, body: bytes = b"") -> Command:
        """Return the answer, whatever its code."""
        connection = await self._pool.connect(self._address)
        return await connection.request(header, body, timeout_ms=60_000)

    async def send(self, topic: str, body: bytes, queue_id: int = 0, **properties: str) -> int:
        """Send a message; return the answer's code."""
        return await self.send_raw(topic, body, format_properties(properties).decode(), queue_id)

    async def send_raw(self, topic: str, body: bytes, properties: str, queue_id: int = 0) -> int:
        """Send a message whose properties are written out."""
        header = SendMessageV2(
            producer_group="p", topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
            sys_flag=0, born_at_ms=1, flag=0, properties=properties,
        )  # fmt: skip
        return (await self.ask(header, body)).code

    async def send_all(self, topic: str, bodies: Iterable[bytes], queue_id: int = 0) -> list[bytes]:
        """Send messages, many at a time; return those that were acknowledged, in order."""
        found = list(bodies)
        codes = await asyncio.gather(*[self.send(topic, body, queue_id) for body in found])
        return [body for body, code in zip(found, codes, strict=True) if code == 0]

    async def read(self, topic: str, queue_id: int = 0, offset: int = 0) -> list[bytes]:
        """Return the bodies of all messages of a queue from an offset on."""
        bodies: list[bytes] = []
        while True:
            answer = await self.ask(
                PullMessage(
                    consumer_group="g",
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=offset,
                    count_max=1000,
                    sys_flag=PullSysFlag.SUBSCRIPTION,
                    commit_offset=0,
                    suspend_timeout_ms=0,
                    subscription="*",
                    sub_version=0,
                )
            )
            if answer.code != _FOUND:
                return bodies
            records = list(iter_records(answer.body, check_crc=False))
            found = [_number_in(topic, record) for record in records]
            assert found == list(range(offset, offset + len(found))), f"asked for {offset}, got {found[:5]}"
            bodies += [bytes(record.body) for record in records]
            offset = found[-1] + 1

    async def offset(self, header: Any) -> int:
        """Return the offset that a request asks for."""
        answer = await self.ask(header)
        assert answer.code == 0, answer.remark
        return int((answer.ext_fields or {})["offset"])

    async def create(self, topic: str, queue_count: int = 1) -> int:
        """Create a topic; return the answer's code."""
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queue_count, write_queue_nums=queue_count, perm=6,
            topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        return (await self.ask(header)).code

    async def create_group(self, group: str) -> int:
        """Create a consumer group; return the answer's code."""
        return (await self.ask(UpdateSubscriptionGroup(), encode_group_config(GroupConfig(group=group)))).code

    async def delete(self, topic: str) -> int:
        """Delete a topic; return the answer's code."""
        return (await self.ask(DeleteTopicInBroker(topic=topic))).code


def _number_in(topic: str, record: Record) -> int:
    """Return a message's number in the queue that it was read from, which may be an LMQ."""
    return lmq_offsets(record.topic, record.properties).get(topic, record.queue_offset)


@asynccontextmanager
async def wire_to(broker: BrokerProcess) -> AsyncIterator[Wire]:
    """Connect to a broker that runs."""
    pool = ConnectionPool()
    try:
        yield Wire(pool, broker.address)
    finally:
        await pool.close()
