"""Starting processes again that have ended."""

import asyncio

from orbitmq.cli.servers.restarts import keep_running
from orbitmq.errors import OrbitError
from waiting import until


class Dying:
    """A process that ends, does not start twice, and then runs."""

    def __init__(self):
        self.starts = 0

    async def start(self):
        self.starts += 1
        if self.starts < 3:
            raise (OrbitError("broker did not start: {}\norbitmq: the port is in use"), NotADirectoryError("gone"))[
                self.starts - 1
            ]

    async def ended(self):
        if self.starts:
            await asyncio.Event().wait()
        return -9


async def test_a_process_that_does_not_start_is_tried_again_after_longer_pauses(capsys):
    process = Dying()
    keeping = asyncio.create_task(keep_running("the dashboard", process, 0.001))
    await until(lambda: process.starts == 3)
    keeping.cancel()
    assert capsys.readouterr().err.splitlines() == [
        "the dashboard has ended (SIGKILL); it is started again in 0.001 s",
        "the dashboard has not started (the port is in use); it is started again in 0.002 s",
        "the dashboard has not started (gone); it is started again in 0.004 s",
        "the dashboard is there again",
    ]
