import asyncio
from contextlib import asynccontextmanager

import orjson
import pytest

from orbitmq.admin.monitoring import (
    ROUTES_IN_FLIGHT,
    ask_broker_health,
    ask_brokers,
    ask_difference,
    ask_health,
    ask_history,
    take_snapshot,
)
from orbitmq.admin.route_comparison import snapshot_of
from orbitmq.codes import ResponseCode
from orbitmq.errors import ClientError, Rejected, RemoteRefused, RequestTimeout
from orbitmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute
from orbitmq.net.dispatch.handlers import LATER, Handlers, Reply
from orbitmq.net.pool import ConnectionPool
from orbitmq.net.server import Server
from orbitmq.wire.bodies.route import encode_cluster_info, encode_route
from orbitmq.wire.bodies.topics import encode_topic_list
from orbitmq.wire.headers import (
    GetAllTopics,
    GetClusterInfo,
    GetHealth,
    GetRouteDifference,
    GetRouteHistory,
    GetRouteInfo,
)

pytestmark = pytest.mark.real

BROKER = BrokerData(cluster="east", broker_name="broker-a", addresses={0: "a:1", 1: "a:2"})
INFO = ClusterInfo(brokers={"broker-a": BROKER}, clusters={"east": ("broker-a",)})
HEALTH = {"healthy": False, "alerts": [{"rule": "R", "reason": "an alert"}], "warnings": ["w"], "memory": 1.5}

handlers: Handlers["StandIn"] = Handlers()


class StandIn:
    """A NameServer that knows these routes by topic, and lists topics that it may not know."""

    def __init__(self, routes=None, *, is_java=False):
        self.routes = routes or {}
        self.is_java = is_java
        self.listed = list(self.routes)
        self.asked = []
        self.asking = self.most = 0
        self.refusal = None
        self.is_silent = False
        self.health = HEALTH

    def answer_as_ours(self, call, document):
        self.asked.append(call.header)
        if self.is_java:
            raise Rejected(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
        return Reply(body=orjson.dumps(document))


@handlers.on(GetClusterInfo)
def _cluster(server, _call):
    return LATER if server.is_silent else Reply(body=encode_cluster_info(INFO))


@handlers.on(GetAllTopics)
def _topics(server, _call):
    return Reply(body=encode_topic_list(server.listed))


@handlers.on(GetRouteInfo)
def _route(server, call):
    server.asking += 1
    server.most = max(server.most, server.asking)
    asyncio.get_running_loop().call_later(0.01, _answer_route, server, call)
    return LATER


def _answer_route(server, call):
    server.asking -= 1
    if server.refusal is not None:
        call.answer(Reply(server.refusal, remark="as the test wants"))
    elif call.header.topic in server.routes:
        call.answer(Reply(body=encode_route(server.routes[call.header.topic], standard=False)))
    else:
        call.answer(Reply(ResponseCode.TOPIC_NOT_EXIST))


@handlers.on(GetHealth)
def _health(server, call):
    return server.answer_as_ours(call, server.health)


@handlers.on(GetRouteHistory)
def _history(server, call):
    return server.answer_as_ours(call, [{"number": 7}])


@handlers.on(GetRouteDifference)
def _difference(server, call):
    return server.answer_as_ours(call, {"complete": True})


@asynccontextmanager
async def served(server):
    """Yield a pool and the server's address."""
    listener = Server(handlers, server, name="stand-in")
    port = await listener.start("127.0.0.1", 0)
    pool = ConnectionPool()
    try:
        yield pool, f"127.0.0.1:{port}"
    finally:
        await pool.close()
        await listener.close()


def route(perm=6):
    queue = QueueData(broker_name="broker-a", read_queue_count=4, write_queue_count=4, perm=perm)
    return TopicRoute(queues=(queue,), brokers=(BROKER,))


async def test_a_snapshot_holds_every_broker_and_every_route():
    server = StandIn({"orders": route(), "bills": route(4)})
    async with served(server) as (pool, address):
        assert await take_snapshot(pool, address) == snapshot_of(INFO, server.routes)


async def test_a_topic_that_has_gone_since_the_list_was_made_is_left_out():
    server = StandIn({"orders": route()})
    server.listed.append("gone")
    async with served(server) as (pool, address):
        assert await take_snapshot(pool, address) == snapshot_of(INFO, server.routes)


async def test_any_other_refusal_ends_the_snapshot():
    server = StandIn({"orders": route()})
    server.refusal = ResponseCode.SYSTEM_ERROR
    async with served(server) as (pool, address):
        with pytest.raises(RemoteRefused, match=f"{address}.*as the test wants"):
            await take_snapshot(pool, address)


async def test_many_routes_are_asked_for_together_but_not_all():
    server = StandIn({f"t{number}": route() for number in range(2 * ROUTES_IN_FLIGHT + 1)})
    async with served(server) as (pool, address):
        assert await take_snapshot(pool, address) == snapshot_of(INFO, server.routes)
    assert server.most == ROUTES_IN_FLIGHT == 64


async def test_a_server_that_says_nothing_is_waited_for_as_long_as_is_allowed():
    server = StandIn()
    server.is_silent = True
    async with served(server) as (pool, address):
        await pool.connect(address)  # the time is for the answer alone
        with pytest.raises(RequestTimeout):
            await take_snapshot(pool, address, timeout_ms=20)


async def test_our_name_server_tells_its_health():
    async with served(StandIn()) as (pool, address):
        assert await ask_health(pool, address) == HEALTH


async def test_of_javas_only_that_it_answers_and_its_brokers():
    async with served(StandIn(is_java=True)) as (pool, address):
        found = await ask_health(pool, address)
    assert (found["healthy"], found["ready"], found["alerts"], found["brokers"]) == (True, True, [], 2)
    assert "not an orbitmq NameServer" in found["warnings"][0]


async def test_history_is_asked_for_as_the_caller_says():
    server = StandIn()
    async with served(server) as (pool, address):
        assert await ask_history(pool, address) == [{"number": 7}]
        await ask_history(pool, address, topic="orders", broker_name="broker-a", since_ms=5, count_max=3)
    assert server.asked == [
        GetRouteHistory(topic=None, broker_name=None, since_ms=0, count_max=200),
        GetRouteHistory(topic="orders", broker_name="broker-a", since_ms=5, count_max=3),
    ]


async def test_differences_are_asked_for_from_a_time_on():
    server = StandIn()
    async with served(server) as (pool, address):
        assert await ask_difference(pool, address, 77) == {"complete": True}
    assert server.asked == [GetRouteDifference(at_ms=77)]


async def test_javas_keeps_no_history():
    async with served(StandIn(is_java=True)) as (pool, address):
        with pytest.raises(RemoteRefused, match=f"{address}.*it is not an orbitmq NameServer and keeps no history"):
            await ask_history(pool, address)
        with pytest.raises(RemoteRefused, match="keeps no history"):
            await ask_difference(pool, address, 0)


async def test_our_broker_tells_its_health_and_of_javas_it_is_known_that_it_answers():
    async with served(StandIn()) as (pool, address):
        assert await ask_broker_health(pool, address) == HEALTH
    async with served(StandIn(is_java=True)) as (pool, address):
        found = await ask_broker_health(pool, address)
    assert (found["healthy"], found["ready"], found["alerts"]) == (True, True, [])
    assert found["warnings"] == ["not an orbitmq broker: it answers, and tells nothing else"]


async def test_brokers_are_told_by_address_slaves_too():
    async with served(StandIn()) as (pool, address):
        found = await ask_brokers(pool, address)
    assert found == dict.fromkeys(BROKER.addresses.values(), BROKER.broker_name)


@pytest.mark.parametrize(
    "document",
    [
        "text",
        [],
        {},
        {"healthy": 1, "alerts": []},
        {"healthy": True},
        {"healthy": True, "alerts": 5},
        {"healthy": True, "alerts": ["an alert"]},
        {"healthy": True, "alerts": [{"rule": "R"}]},
        {"healthy": True, "alerts": [{"rule": "R", "reason": None}]},
        {"healthy": True, "alerts": [{"rule": "R", "reason": "r", "subjects": [7]}]},
        {"healthy": True, "alerts": [{"rule": "R", "reason": "r", "subjects": "all"}]},
        {"healthy": True, "alerts": [], "warnings": [7]},
        {"healthy": True, "alerts": [], "memory": "much"},
        {"healthy": True, "alerts": [], "diskUsedRatio": []},
    ],
)
@pytest.mark.parametrize("ask", [ask_health, ask_broker_health])
async def test_what_is_no_health_document_is_refused_by_its_server(ask, document):
    server = StandIn()
    server.health = document
    async with served(server) as (pool, address):
        with pytest.raises(ClientError, match=f"{address} answered with no health document"):
            await ask(pool, address)
