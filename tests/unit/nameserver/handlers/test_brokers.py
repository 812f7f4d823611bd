"""Claims about brokers that renew their leases and leave."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from orbitmq.model.topic import DataVersion
from orbitmq.wire.bodies.registration import encode_data_version
from orbitmq.wire.headers import BrokerHeartbeat, QueryDataVersion, UnregisterBroker

from ..support import BROKER, Asker, asking, route_of

pytestmark = pytest.mark.real


async def test_a_broker_that_says_good_bye_is_gone(asker: Asker):
    await asker.register()
    assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0
    assert await route_of(asker) is None
    assert (await asker.ask(UnregisterBroker(**BROKER))).code == 0


async def test_the_version_query_tells_changes_and_renews(asker: Asker):
    unknown = await asker.ask(QueryDataVersion(**BROKER), encode_data_version(DataVersion(0, 0, 1)))
    assert (unknown.ext_fields, unknown.body) == ({"changed": "true"}, b"")
    await asker.register()
    for version, changed in ((DataVersion(0, 0, 1), "false"), (DataVersion(0, 0, 2), "true")):
        answer = await asker.ask(QueryDataVersion(**BROKER), encode_data_version(version))
        assert answer.ext_fields == {"changed": changed}
        assert orjson.loads(answer.body) == {"counter": 1, "stateVersion": 0, "timestamp": 0}
    assert (await asker.ask(QueryDataVersion(**BROKER))).ext_fields == {"changed": "true"}


@pytest.mark.parametrize("renewal", ["query", "heartbeat"])
async def test_a_light_heartbeat_renews_the_lease(renewal: str, tmp_path: Path):
    fields = {name: value for name, value in BROKER.items() if name != "broker_id" or renewal == "query"}
    header = QueryDataVersion(**fields) if renewal == "query" else BrokerHeartbeat(**fields)
    async with asking(tmp_path) as asker:
        assert (await asker.ask(header)).code == 0
        assert asker.server.service.tables.broker_count == 0
        await asker.register()
        asker.clock.advance(100_000)
        await asker.ask(header)
        asker.clock.advance(100_000)
        asker.server.scan()
        assert asker.server.service.tables.broker_count == 1
