"""A proxy between a slave and its master that forges the slave's reports."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from crash.replicas import HOST
from orbitmq.ha.slave import REPORT


class Proxy:
    """Stands between a slave and its master; once armed it withholds the log, and reports more than was sent."""

    def __init__(self, random: Random) -> None:
        self.forged = 0
        self.address = ""
        self.is_armed = False
        self._random = random
        self._target = ("", 0)

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._relay, HOST, 0)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def stand_before(self, target: tuple[str, int]) -> None:
        """Relay to a master."""
        self._target = target

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        master_reader, master_writer = await asyncio.open_connection(*self._target)
        sent_at_most = 0

        async def down() -> None:
            nonlocal sent_at_most
            while data := await master_reader.read(65_536):
                sent_at_most += len(data)
                if self.is_armed:
                    master_writer.write(REPORT.pack(sent_at_most + self._random.choice([1, 100, 2**40])))
                    self.forged += 1
                else:
                    writer.write(data)

        async def up() -> None:
            nonlocal sent_at_most
            with suppress(asyncio.IncompleteReadError):
                while True:
                    report = await reader.readexactly(REPORT.size)
                    sent_at_most = max(sent_at_most, REPORT.unpack(report)[0])
                    if not self.is_armed:
                        master_writer.write(report)

        tasks = [asyncio.create_task(down()), asyncio.create_task(up())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            writer.close()
            master_writer.close()
