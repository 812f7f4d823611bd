"""Claims about administrative calls for users, rules and write permissions."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import pytest

from orbitmq.admin.access import AccessClient, acl_of
from orbitmq.admin.monitoring import set_write_perm
from orbitmq.codes import ResponseCode
from orbitmq.errors import InvalidArgument, Rejected, RemoteRefused, RequestTimeout
from orbitmq.model.access import AccessDecision, AccessRule, Action, Resource, ResourceType, User, UserStatus
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.headers import AddWritePerm, AddWritePermResponse, WipeWritePerm, WipeWritePermResponse
from orbitmq.wire.signature import Credentials

pytestmark = pytest.mark.real

ROOT = Credentials("root", "root-secret")
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"root-secret"}',
}
RULE = AccessRule(Resource(ResourceType.TOPIC, "orders"), (Action.PUB,), ("10.0.0.1",), AccessDecision.ALLOW)


async def test_users_and_rules_of_two_brokers():
    async with LocalCluster(brokers=2, settings=ON) as cluster:
        async with AccessClient(cluster.name_servers, credentials=ROOT) as client:
            both = ["broker-a", "broker-b"]
            assert await client.create_user("anna", UserChange("pw")) == both
            assert (
                await client.update_user("anna", UserChange(status=UserStatus.DISABLE), broker="broker-b") == both[1:]
            )
            assert await client.users("ann") == {
                "broker-a": (User("anna", "pw"),),
                "broker-b": (User("anna", "pw", status=UserStatus.DISABLE),),
            }
            assert await client.add_rule(acl_of("anna", RULE)) == both
            assert await client.rules("anna", "orders") == dict.fromkeys(both, (acl_of("anna", RULE),))
            assert await client.delete_rules("anna", "Topic:orders", broker="broker-a") == ["broker-a"]
            assert await client.rules() == {"broker-a": (), "broker-b": (acl_of("anna", RULE),)}
            assert await client.delete_rules("anna", broker="broker-b") == ["broker-b"]
            assert await client.delete_user("anna") == both
            with pytest.raises(RemoteRefused, match="not exist"):
                await client.update_user("anna", UserChange("pw"))
            with pytest.raises(InvalidArgument, match="broker-a, broker-b"):
                await client.users(broker="nosuch")
        async with AccessClient(cluster.name_servers) as stranger:
            with pytest.raises(RemoteRefused, match="username cannot be null"):
                await stranger.users()


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
        await pool.connect(address)  # the time is for the answer alone
        with pytest.raises(RequestTimeout):
            await set_write_perm(pool, address, "silent", is_writable=False, timeout_ms=20)
