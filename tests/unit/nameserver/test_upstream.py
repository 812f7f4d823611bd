"""Claims about cluster-test mode in its 4.x form (Java: ClusterTestRequestProcessorTest)."""

from __future__ import annotations

from pathlib import Path

import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.headers import GetClusterInfo, GetRouteInfo, PutKvConfig
from waiting import until

from .support import asking

pytestmark = pytest.mark.real


async def test_an_unknown_topic_is_asked_for_in_the_product_environment(tmp_path: Path):
    (tmp_path / "product").mkdir()
    async with asking(tmp_path / "product") as product:
        await product.register("live", "everywhere", "live-only")
        addresses = f"127.0.0.1:1; {product.server.address}"
        async with asking(tmp_path, cluster_test=True, product_name_servers=addresses) as test:
            await test.register("test", "everywhere", "test-only")

            async def brokers(topic: str) -> list[str]:
                answer = await test.ask(GetRouteInfo(topic=topic))
                return [found.broker_name for found in decode_route(answer.body).brokers]

            assert await brokers("everywhere") == ["test"]
            assert await brokers("live-only") == ["live"]
            assert (await test.ask(GetRouteInfo(topic="nowhere"))).code == 17
            assert (await test.ask(GetClusterInfo())).code == 0


async def test_without_a_product_environment_an_unknown_topic_is_unknown(tmp_path: Path):
    async with asking(tmp_path, cluster_test=True) as test:
        assert (await test.ask(GetRouteInfo(topic="nowhere"))).code == 17


async def test_ordered_topics_are_shown_and_no_command_waits_for_brokers(tmp_path: Path):
    async with asking(tmp_path, cluster_test=True, need_wait_for_service=True) as test:
        await test.register()
        await test.ask(PutKvConfig(namespace="ORDER_TOPIC_CONFIG", key="T1", value="a:4"))
        answer = await test.ask(GetRouteInfo(topic="T1"))
        assert decode_route(answer.body).order_topic_conf == "a:4"


async def test_a_stop_gives_up_what_is_being_asked(tmp_path: Path):
    async with asking(tmp_path, cluster_test=True, product_name_servers="192.0.2.1:9876") as test:
        connection = await test.pool.connect(test.server.address)
        connection.send_oneway(GetRouteInfo(topic="nowhere"))
        await until(lambda: bool(test.server.service.upstream._tasks))
        await test.server.stop()
        await until(lambda: not test.server.service.upstream._tasks)


def test_an_address_that_is_none_is_refused():
    with pytest.raises(InvalidArgument, match="nowhere"):
        NameServerConfig(product_name_servers="nowhere:x")
