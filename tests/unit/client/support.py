"""An open session on the fake cluster, for tests of the parts that use one."""

from contextlib import asynccontextmanager

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
