import asyncio
import gc
import logging
from contextlib import asynccontextmanager
from random import Random

import pytest

from orbitmq.client.routing.routes import Routes
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, InvalidArgument, NoNameServer, RouteNotFound
from orbitmq.model.route import TopicRoute
from orbitmq.net.pool import ConnectionPool
from orbitmq.wire.headers import GetRouteInfo
from unit.client.fakes import FakeNameServer


@asynccontextmanager
async def routes_of(*servers, **settings):
    pool = ConnectionPool()
    routes = Routes([getattr(server, "address", server) for server in servers], pool, random=Random(7), **settings)
    try:
        yield routes
    finally:
        await routes.close()
        await pool.close()


@asynccontextmanager
async def name_servers(count, routes):
    servers = [FakeNameServer(routes) for _ in range(count)]
    for server in servers:
        await server.start()
    try:
        yield servers
    finally:
        for server in servers:
            await server.stop()


async def test_a_route_is_asked_for_once_and_then_known(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        found = await asyncio.gather(*(routes.find("orders") for _ in range(20)))
        assert found == [cluster.routes["orders"]] * 20
        assert await routes.find("orders") == cluster.routes["orders"]
        assert routes.address("broker-a") == cluster.a.address
        assert cluster.name_server.asked == ["orders"]


async def test_a_topic_that_nobody_knows_is_named_with_who_was_asked(cluster):
    async with routes_of(cluster.name_server) as routes:
        with pytest.raises(
            RouteNotFound, match=f"nowhere.*{cluster.name_server.address}.*orbitmq topic create nowhere"
        ):
            await routes.find("nowhere")


async def test_a_name_server_that_does_not_know_a_topic_is_not_the_last_word():
    async with name_servers(1, {}) as (ignorant,), name_servers(1, {"orders": TopicRoute()}) as (learned,):
        for seed in range(4):
            pool = ConnectionPool()
            routes = Routes([ignorant.address, learned.address], pool, random=Random(seed))
            assert await routes.find("orders") == TopicRoute()
            await routes.close()
            await pool.close()


async def test_when_nobody_answers_every_address_and_its_trouble_is_named():
    async with name_servers(2, {}) as (first, second):
        await first.stop()
        await second.stop()
        async with routes_of(first, second) as routes:
            with pytest.raises(NoNameServer) as caught:
                await routes.find("orders")
            assert first.address in str(caught.value)
            assert second.address in str(caught.value)
            assert "refused" in str(caught.value).lower() or "connect" in str(caught.value).lower()


async def test_a_refusal_that_says_nothing_of_the_topic_is_trouble(cluster):
    cluster.name_server.refusal = ResponseCode.SYSTEM_ERROR
    async with routes_of(cluster.name_server) as routes:
        with pytest.raises(NoNameServer, match="as the test wants"):
            await routes.find("orders")


async def test_a_client_goes_on_to_the_next_name_server_and_stays_there():
    async with name_servers(2, {"orders": TopicRoute()}) as servers, routes_of(*servers) as routes:
        await routes.refresh("orders")
        (chosen,) = [server for server in servers if server.asked]
        (other,) = [server for server in servers if not server.asked]
        await chosen.stop()
        await routes.refresh("orders")
        await chosen.start()
        await routes.refresh("orders")
        assert len(other.asked) == 2
        assert len(chosen.asked) == 1


async def test_a_name_server_that_failed_is_asked_last_even_when_the_others_say_no():
    async with name_servers(2, {}) as servers, routes_of(*servers) as routes:
        first = routes._asking._servers.in_turn()[0]
        (dead,) = [server for server in servers if server.address == first]
        await dead.stop()
        with pytest.raises(RouteNotFound, match=first):  # why it could not be asked is told, too
            await routes.find("orders")
        assert routes._asking._servers.in_turn()[-1] == first


async def test_watched_topics_are_refreshed_by_themselves_and_listeners_hear_of_changes_only(cluster):
    cluster.topic("orders")
    heard = asyncio.Queue()
    async with routes_of(cluster.name_server, poll_interval_ms=1) as routes:
        routes.on_change.append(lambda topic, route: heard.put_nowait((topic, route)))
        routes.watch("orders")
        routes.start()
        assert await heard.get() == ("orders", cluster.routes["orders"])
        asked = len(cluster.name_server.asked)
        while len(cluster.name_server.asked) < asked + 3:
            await asyncio.sleep(0.001)
        assert heard.empty()
        cluster.topic("orders", cluster.a, cluster.b)
        assert await heard.get() == ("orders", cluster.routes["orders"])
        assert routes.address("broker-b") == cluster.b.address


async def test_known_routes_survive_an_outage_and_a_name_server_that_forgot_them(cluster, caplog):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        routes.watch("orders")
        route = await routes.find("orders")
        await cluster.name_server.stop()
        with caplog.at_level(logging.WARNING):
            await routes.refresh_all()
            await routes.refresh_all()
        assert await routes.find("orders") == route
        assert len([line for line in caplog.messages if "Known routes stay in use" in line]) == 1

        cluster.routes.clear()
        await cluster.name_server.start()
        await routes.refresh_all()
        assert await routes.find("orders") == route


async def test_other_name_servers_may_be_configured_while_running_2042():
    async with name_servers(2, {"orders": TopicRoute()}) as (first, second), routes_of(first) as routes:
        await routes.find("orders")
        routes.configure(second.address)
        assert await routes.refresh("orders") is False
        assert (len(first.asked), len(second.asked)) == (1, 1)
        assert routes.name_servers == (second.address,)
        with pytest.raises(InvalidArgument):
            routes.configure("")


async def test_a_host_name_is_looked_up_and_followed_2042(cluster, monkeypatch):
    cluster.topic("orders")
    port = cluster.name_server.address.partition(":")[2]
    answers = [[], [("127.0.0.1", 0)]]

    async def getaddrinfo(host, port, **_):
        assert host == "ns.example"
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if not found:
            raise OSError("no such name")
        return [(0, 0, 0, "", address) for address in found]

    async with routes_of(f"ns.example:{port}") as routes:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
        with pytest.raises(NoNameServer, match=r"ns\.example"):
            await routes.find("orders")
        routes.configure(f"ns.example:{port}")
        assert await routes.find("orders") == cluster.routes["orders"]
        with pytest.raises(RouteNotFound, match=f"127.0.0.1:{port} .from ns.example:{port}."):
            await routes.find("nowhere")


async def test_everybody_can_be_asked_at_once():
    async with name_servers(2, {}) as (first, second):
        await second.stop()
        async with routes_of(first, second) as routes:
            found = await routes.ask_all(GetRouteInfo(topic="orders"))
            assert found[first.address].code == ResponseCode.TOPIC_NOT_EXIST
            assert isinstance(found[second.address], ConnectionFailed)


async def test_any_question_goes_to_the_first_that_answers():
    async with name_servers(2, {}) as (first, second):
        await first.stop()
        async with routes_of(first, second) as routes:
            answer = await routes.ask(GetRouteInfo(topic="orders"))
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST
            await second.stop()
            with pytest.raises(NoNameServer):
                await routes.ask(GetRouteInfo(topic="orders"))


async def test_a_broker_that_no_route_names_is_explained(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        await routes.find("orders")
        with pytest.raises(RouteNotFound, match="broker-x"):
            routes.address("broker-x")
        assert cluster.name_server.address in routes.teacher("broker-a")


async def test_a_topic_no_longer_watched_is_forgotten(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        routes.watch("orders")
        await routes.find("orders")
        routes.unwatch("orders")
        assert routes.cached("orders") is None


async def test_an_answer_that_is_no_route_is_explained(cluster, monkeypatch):
    monkeypatch.setattr("unit.client.fakes.encode_route", lambda *_, **__: b"<html>")
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        with pytest.raises(NoNameServer, match="Is it a NameServer"):
            await routes.find("orders")


async def test_after_a_change_the_topic_is_looked_at_again_soon(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.routing.routes.FOLLOW_UP_MS", (1, 1))
    cluster.topic("orders")
    changed = asyncio.Queue()
    async with routes_of(cluster.name_server) as routes:
        routes.on_change.append(lambda topic, _route: changed.put_nowait(topic))
        routes.watch("orders")
        routes.start()
        assert await changed.get() == "orders"
        cluster.topic("orders", cluster.a, cluster.b)
        assert await changed.get() == "orders"
        while len(cluster.name_server.asked) < 4:
            await asyncio.sleep(0.001)


async def test_nobody_is_told_of_a_refresh_that_fails_after_everybody_has_gone(cluster, caplog):
    async with routes_of(cluster.name_server) as routes:
        waiting = asyncio.create_task(routes.refresh("nowhere"))
        await asyncio.sleep(0)
        asking = routes._refreshing["nowhere"]
        waiting.cancel()
        await asyncio.wait([asking, waiting])
        del asking, waiting
        gc.collect()  # a task whose error nobody has seen says so when it is collected
    assert not caplog.records
