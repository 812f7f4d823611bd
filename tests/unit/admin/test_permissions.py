from contextlib import asynccontextmanager

import pytest

from orbitmq.admin.permissions import set_write_perm
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected, RemoteRefused, RequestTimeout
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.headers import AddWritePerm, AddWritePermResponse, WipeWritePerm, WipeWritePermResponse

pytestmark = pytest.mark.real

handlers: Handlers[list] = Handlers()


@handlers.on(WipeWritePerm)
def _wipe(told, call):
    told.append(call.header)
    if call.header.broker_name == "refused":
        raise Rejected(ResponseCode.NO_PERMISSION, "as the test wants")
    return LATER if call.header.broker_name == "silent" else Reply(header=WipeWritePermResponse(wipe_topic_count=7))


@handlers.on(AddWritePerm)
def _add(told, call):
    told.append(call.header)
    return Reply(header=AddWritePermResponse(add_topic_count=8))


@asynccontextmanager
async def served():
    """Yield a pool, a NameServer's address, and the list of what it was told."""
    told = []
    listener = Server(handlers, told, name="stand-in")
    port = await listener.start("127.0.0.1", 0)
    pool = ConnectionPool()
    try:
        yield pool, f"127.0.0.1:{port}", told
    finally:
        await pool.close()
        await listener.close()


async def test_write_permission_is_taken_and_given_back_and_the_topics_are_counted():
    async with served() as (pool, address, told):
        assert await set_write_perm(pool, address, "broker-a", is_writable=False) == 7
        assert await set_write_perm(pool, address, "broker-a", is_writable=True) == 8
        assert told == [WipeWritePerm(broker_name="broker-a"), AddWritePerm(broker_name="broker-a")]


async def test_a_refusal_names_the_name_server():
    async with served() as (pool, address, _):
        with pytest.raises(RemoteRefused, match=f"{address}.*as the test wants"):
            await set_write_perm(pool, address, "refused", is_writable=False)


async def test_an_answer_is_waited_for_as_long_as_is_allowed():
    async with served() as (pool, address, _):
        with pytest.raises(RequestTimeout):
            await set_write_perm(pool, address, "silent", is_writable=False, timeout_ms=20)
