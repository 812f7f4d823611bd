"""A slave's connection to its master: what comes is appended, checked record by record, at the place that it has there.

The decisions are `ha.slave`'s. Where the master is, NameServers say in their answers to registrations.
Source: Java DefaultHAClient, which reports nothing in its first five seconds; this reports immediately.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from orbitmq.address import parse_address
from orbitmq.broker.replication.comparison import check_copy
from orbitmq.broker.replication.role import ControlledRole
from orbitmq.errors import OrbitError, StoreError
from orbitmq.ha.slave import REPORT, FollowedLog, Hello, format_hello
from orbitmq.store import Store

log = logging.getLogger(__name__)

_READ_SIZE = 256 * 1024
_RETRY_S = 1.0
"""How long after a connection's end the next is tried."""
_MEMBER_RETRY_S = 0.1
"""Of a member of a controlled group: until it follows again, it is not in the sync set."""


class Follower:
    """Follows a master: `run()` until it is cancelled.

    Args:
        ask: asks the broker at an address, and returns the answer's body; it raises ClientError.
        master: the master's HA address, host:port; empty: NameServers tell it (`learn`).
        has_name_servers: NameServers tell where the master serves clients: no log is followed that was not compared.
        heartbeat_ms: how often it reports when nothing comes.
        silence_ms: a master that has sent nothing for so long is gone.
        role: of a member of a controlled group: says whom it follows.
    """

    def __init__(
        self,
        store: Store,
        segment_size: int,
        ask: Callable[[str, object], Awaitable[bytes]],
        *,
        master: str,
        has_name_servers: bool,
        heartbeat_ms: int,
        silence_ms: int,
        role: ControlledRole | None = None,
    ) -> None:
        self.master = master if role is None else role.master_ha_address
        """The master's HA address; empty: not known yet."""
        self.master_broker = "" if role is None else role.master_address
        """The address where the master serves clients."""
        self._is_fixed = bool(master)
        self._role = role
        self._hello = b"" if role is None else format_hello(Hello(role.broker_id, role.epoch))
        self._has_name_servers = has_name_servers
        self._store = store
        self._ask = ask
        self._segment_size = segment_size
        self._heartbeat_s = heartbeat_ms / 1000
        self._silence_s = silence_ms / 1000
        self.prepare: Callable[[str], Awaitable[None]] | None = None
        """Called with the address where the master serves clients, before its log is followed."""
        self.before_report: Callable[[], None] | None = None
        """Called when there is more of the log, before the master is told."""
        self._said = ""
        self._report = 0
        self._writer: asyncio.StreamWriter | None = None

    def learn(self, ha_address: str | None, broker_address: str | None) -> None:
        """Take note of where the master is, as a NameServer says; members of a controlled group ask their controllers."""
        if self._role is not None:
            return
        if broker_address:
            self.master_broker = broker_address
        if ha_address and not self._is_fixed and ha_address != self.master:
            self.master, self.master_broker = ha_address, broker_address or ""
            if self._writer is not None:
                self._writer.close()  # its reader wakes: the old master may be silent for long

    async def run(self) -> None:
        """Follow, and come again when the connection ends."""
        while True:
            master = self.master
            if master:
                try:
                    await self._compare()
                    if self.prepare is not None:
                        await self.prepare(self.master_broker)
                    await self._follow(master)
                except (OSError, OrbitError, TimeoutError, ValueError) as error:
                    self._say(f"the master {master} cannot be followed: {error or type(error).__name__}")
            await asyncio.sleep(_RETRY_S if self._role is None else _MEMBER_RETRY_S)

    async def _compare(self) -> None:
        """Make sure that this log is a copy of the master's. Raises OrbitError: it is not, or the master does not answer."""
        if self.master_broker:
            await check_copy(self._store, partial(self._ask, self.master_broker))
        elif self._has_name_servers and self._store.newest_places():
            # With haMasterAddress the port is known before the first registration is answered.
            raise StoreError("no NameServer has told yet where the master serves clients: the logs cannot be compared")
        elif not self._has_name_servers:
            log.warning("no NameServer tells where the master serves clients: its log is followed without comparing")

    async def _follow(self, master: str) -> None:
        async with asyncio.timeout(self._silence_s):
            reader, writer = await asyncio.open_connection(*parse_address(master))
        self._writer = writer
        beat = asyncio.get_running_loop().create_task(self._beat(writer))
        try:
            followed = FollowedLog(self._store.max_physical_offset, self._segment_size)
            self._report = followed.report
            writer.write(self._hello + REPORT.pack(followed.report))
            log.info("following %s from %d", master, followed.report)
            while self.master == master:
                async with asyncio.timeout(self._silence_s):
                    data = await reader.read(_READ_SIZE)
                if not data:
                    raise ConnectionError("it has closed the connection; its log says why")
                before = followed.report
                for found, content in followed.feed(data):
                    self._store.append_copy(found, content)
                self._said = ""
                if followed.report != before:
                    self._report_when_durable(writer, followed.report)
        finally:
            self._writer = None
            beat.cancel()
            writer.close()
            await asyncio.wait([beat])  # to await it itself would take this task's cancellation for the one of the beat
            if not beat.cancelled():
                beat.exception()  # a writer that is broken; the reader tells of it

    def _report_when_durable(self, writer: asyncio.StreamWriter, position: int) -> None:
        """Report that the log is here up to `position`; with SYNC_FLUSH as soon as the disk has it."""

        def report(is_durable: bool | None) -> None:
            if is_durable and writer is self._writer:
                self._report = max(self._report, position)
                if self.before_report is not None:
                    self.before_report()
                writer.write(REPORT.pack(self._report))

        if self._store.wait_durable(position, report):
            report(True)

    async def _beat(self, writer: asyncio.StreamWriter) -> None:
        """Report now and then, for the master takes a slave that is silent for one that is gone."""
        while True:
            await asyncio.sleep(self._heartbeat_s)
            writer.write(REPORT.pack(self._report))

    def _say(self, what: str) -> None:
        """Warn of what is new."""
        log.log(logging.DEBUG if what == self._said else logging.WARNING, "%s", what)
        self._said = what
