"""An open session on the fake cluster, for tests of the parts that use one."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

from orbitmq.client.session.session import ClientSession
from orbitmq.model.group import ConsumerInfo, Heartbeat


@asynccontextmanager
async def open_session(cluster, *topics, **settings):
    """Open a session that knows the routes of `topics`."""
    session = ClientSession(cluster.name_servers, **{"instance": "me", **settings})
    session.open()
    try:
        for topic in topics:
            await session.routes.find(topic)
        yield session
    finally:
        await session.close()


def describe(client_id):
    """Return the heartbeat of a member of group `g`."""
    return Heartbeat(client_id=client_id, consumers=(ConsumerInfo(group="g"),))


SESSIONS_OWN = ("orbitmq routes", "orbitmq follow-up", "orbitmq heartbeats", "orbitmq failover of")
"""Names of the tasks that every session has: what they wait for is not a pause of the part under test."""


@contextmanager
def noted_pauses(monkeypatch, *, but=SESSIONS_OWN):
    """Let no `asyncio.sleep` take time; yield the list of the pauses that were asked for, in ms.

    Tasks whose names begin with one of `but` sleep as they always do, and so do those of other loops: a cluster of the whole
    session runs in threads of this process.
    """
    pauses, sleep, loop = [], asyncio.sleep, asyncio.get_running_loop()

    async def note(pause_s, *_):
        if asyncio.get_running_loop() is not loop or asyncio.current_task().get_name().startswith(but):
            await sleep(pause_s)
            return
        if pause_s:
            pauses.append(round(pause_s * 1000))
        await sleep(0)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", note)
        yield pauses
