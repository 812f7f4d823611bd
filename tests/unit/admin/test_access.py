"""Claims about administrative calls for users and rules."""

from __future__ import annotations

from typing import Any

import pytest

from orbitmq.admin.access import AccessClient, acl_of
from orbitmq.errors import InvalidArgument, RemoteRefused
from orbitmq.model.access import Action, Decision, Resource, ResourceType, Rule, User, UserStatus
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.access.users import UserChange
from orbitmq.wire.signature import Credentials

pytestmark = pytest.mark.real

ROOT = Credentials("root", "root-secret")
ON: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": '{"username":"root","password":"root-secret"}',
}
RULE = Rule(Resource(ResourceType.TOPIC, "orders"), (Action.PUB,), ("10.0.0.1",), Decision.ALLOW)


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
