"""An open session on the fake cluster, for tests of the parts that use one."""

import asyncio
from contextlib import asynccontextmanager, contextmanager

from orbitmq.client.session.session import ClientSession


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


@contextmanager
def noted_pauses(monkeypatch):
    """Let no `asyncio.sleep` take time; yield the list of the pauses that were asked for, in ms, but those of routes."""
    pauses, sleep = [], asyncio.sleep

    async def note(pause_s, *_):
        name = asyncio.current_task().get_name()
        if pause_s and not name.startswith(("orbitmq routes", "orbitmq follow-up")):
            pauses.append(round(pause_s * 1000))
        await sleep(0)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "sleep", note)
        yield pauses
