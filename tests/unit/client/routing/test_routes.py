import asyncio
import gc
import logging

import pytest

from orbitmq.client.routing import routes as routes_module
from orbitmq.codes import ResponseCode
from orbitmq.errors import RouteNotFound
from unit.client.routing.support import routes_of
from unit.client.support import noted_pauses
from waiting import until


async def test_a_route_is_asked_for_once_and_then_known(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        found = await asyncio.gather(*(routes.find("orders") for _ in range(20)))
        assert found == [cluster.routes["orders"]] * 20
        assert await routes.find("orders") == cluster.routes["orders"]
        assert routes.address("broker-a") == cluster.a.address
        assert cluster.name_server.asked == ["orders"]


async def test_watched_topics_are_refreshed_by_themselves_and_listeners_hear_of_changes_only(cluster):
    cluster.topic("orders")
    heard = asyncio.Queue()
    async with routes_of(cluster.name_server, poll_interval_ms=1) as routes:
        routes.add_listener(lambda topic, route: heard.put_nowait((topic, route)))
        routes.watch("orders")
        routes.start()
        assert await heard.get() == ("orders", cluster.routes["orders"])
        asked = len(cluster.name_server.asked)
        await until(lambda: len(cluster.name_server.asked) >= asked + 3)
        assert heard.empty()
        cluster.topic("orders", cluster.a, cluster.b)
        assert await heard.get() == ("orders", cluster.routes["orders"])
        assert routes.address("broker-b") == cluster.b.address


async def test_watched_topics_are_looked_at_10_ms_after_the_start(cluster, monkeypatch):
    async with routes_of(cluster.name_server) as routes:
        with noted_pauses(monkeypatch, but=()) as pauses:
            routes.start()
            await until(lambda: pauses)
    assert pauses[0] == 10


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


async def test_a_route_whose_broker_has_failed_is_asked_for_until_it_changes(cluster, monkeypatch):
    monkeypatch.setattr(routes_module, "CHASE_MS", 1)
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        await routes.find("orders")
        routes.chase("orders")
        routes.chase("orders")
        await until(lambda: len(cluster.name_server.asked) >= 4)
        cluster.topic("orders", cluster.b)
        await until(lambda: not routes._chasing)
        assert routes.address("broker-b") == cluster.b.address
        assert len(cluster.name_server.asked) <= 1 + routes_module.CHASE_COUNT


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
        assert "orders" not in routes.known.routes


async def test_after_a_change_the_topic_is_looked_at_again_soon(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.routing.routes.FOLLOW_UP_MS", (1, 1))
    cluster.topic("orders")
    changed = asyncio.Queue()
    async with routes_of(cluster.name_server) as routes:
        routes.add_listener(lambda topic, _route: changed.put_nowait(topic))
        routes.watch("orders")
        routes.start()
        assert await changed.get() == "orders"
        cluster.topic("orders", cluster.a, cluster.b)
        assert await changed.get() == "orders"
        await until(lambda: len(cluster.name_server.asked) >= 4)


async def test_a_refresh_that_fails_after_all_have_gone_is_not_reported(cluster, caplog):
    async with routes_of(cluster.name_server) as routes:
        waiting = asyncio.create_task(routes.refresh("nowhere"))
        await asyncio.sleep(0)
        asking = routes._refreshing["nowhere"]
        waiting.cancel()
        await asyncio.wait([asking, waiting])
        del asking, waiting
        gc.collect()  # a task with an unseen error says so when it is collected
    assert not caplog.records


async def test_a_watched_topic_that_does_not_exist_yet_is_asked_for_often_but_no_retry_topic(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.routing.routes.MISSING_POLL_MS", 1)
    cluster.topic("bills")
    heard = asyncio.Queue()
    async with routes_of(cluster.name_server) as routes:
        routes.add_listener(lambda topic, _route: heard.put_nowait(topic))
        for topic in ("bills", "orders", "%RETRY%group"):
            routes.watch(topic)
        routes.start()
        assert await heard.get() == "bills"
        asked = cluster.name_server.asked
        await until(lambda: asked.count("orders") >= 3)
        cluster.topic("orders")
        assert await heard.get() == "orders"
        assert asked.count("bills") == asked.count("%RETRY%group") == 1


async def test_a_topic_that_is_unknown_keeps_no_other_from_being_refreshed(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        routes.watch("a-missing-one")
        routes.watch("orders")
        await routes.refresh_all()
        assert list(routes.known.routes) == ["orders"]


async def test_while_no_server_answers_only_one_topic_is_asked_for(cluster):
    cluster.name_server.refusal = ResponseCode.SYSTEM_ERROR
    async with routes_of(cluster.name_server) as routes:
        for topic in ("orders", "bills", "parcels"):
            routes.watch(topic)
        await routes.refresh_all()
        assert cluster.name_server.asked == ["bills"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_the_end_of_an_outage_is_told_once_whatever_the_answer(cluster, caplog, is_known):
    async with routes_of(cluster.name_server) as routes:
        routes.watch("orders")
        with caplog.at_level(logging.INFO, "orbitmq.client.routing"):
            for _ in range(2):
                await cluster.name_server.stop()
                await routes.refresh_all()
                await cluster.name_server.start()
                if is_known:
                    cluster.topic("orders")
                await routes.refresh_all()
                await routes.refresh_all()
    told = [line for line in caplog.messages if "answers again" in line]
    assert told == [f"a NameServer answers again: {cluster.name_server.address}"] * 2
    assert len([line for line in caplog.messages if "Known routes stay in use" in line]) == 2


async def test_a_member_that_a_broker_group_lacks_is_named_with_the_name_servers(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        await routes.find("orders")
        assert routes.address("broker-a", 7) == cluster.a.address
        server = f"NameServer {cluster.name_server.address}"
        with pytest.raises(RouteNotFound, match=f"broker-a has a member with id 7 in no route from {server}"):
            routes.address("broker-a", 7, only_this=True)
        with pytest.raises(RouteNotFound, match=f"broker-b has a master in no route from {server}"):
            routes.address("broker-b", only_this=True)
        with pytest.raises(RouteNotFound, match="broker-b has no member in no route"):
            routes.address("broker-b")
        assert routes.teacher("broker-b") == server


async def test_a_further_change_restarts_the_checks(cluster):
    def following():
        return [task for task in asyncio.all_tasks() if task.get_name() == "orbitmq follow-up of orders"]

    async with routes_of(cluster.name_server) as routes:
        routes.start()
        routes.watch("orders")
        for count in range(1, 5):
            cluster.topic("orders", count=count)
            await routes.refresh("orders")
            await until(lambda: len(following()) == 1)
    assert following() == []


async def test_a_refresh_tells_whether_the_route_is_another_one(cluster):
    cluster.topic("orders")
    async with routes_of(cluster.name_server) as routes:
        assert [await routes.refresh("orders") for _ in range(2)] == [True, False]
        cluster.topic("orders", count=7)
        assert [await routes.refresh("orders") for _ in range(2)] == [True, False]


async def test_a_topic_that_is_watched_while_it_is_known_is_forgotten_when_it_is_gone(cluster, monkeypatch):
    monkeypatch.setattr("orbitmq.client.routing.routes.FORGET_AFTER_S", 0.0)
    cluster.topic("orders")
    told = []
    async with routes_of(cluster.name_server) as found:
        found.add_listener(lambda topic, route: told.append((topic, len(route.queues))))
        await found.find("orders")
        found.watch("orders", while_known=True)
        del cluster.routes["orders"]
        with pytest.raises(RouteNotFound):
            await found.refresh("orders")
        assert not found.is_watched("orders")
        assert "orders" not in found.known.routes
    assert told == [("orders", 1), ("orders", 0)]


async def test_one_topic_is_asked_for_on_behalf_of_all_that_a_failed_broker_holds(cluster, monkeypatch):
    """A consumer of 100 topics with one broker away asked its NameServer 425 times a second."""
    monkeypatch.setattr(routes_module, "CHASE_MS", 1)
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        cluster.topic(topic, cluster.a, cluster.b)
    async with routes_of(cluster.name_server) as routes:
        for topic in topics:
            await routes.find(topic)
            routes.watch(topic)
        cluster.name_server.asked.clear()
        for _ in range(3):  # after the first chase that brings no change there is a pause
            for topic in topics:
                routes.chase(topic, "broker-b")
            await until(lambda: not routes._chasing)
        assert cluster.name_server.asked == ["t0"] * routes_module.CHASE_COUNT


async def test_a_change_that_a_chase_finds_refreshes_every_topic_of_the_broker(cluster):
    topics = [f"t{number}" for number in range(20)]
    for topic in topics:
        cluster.topic(topic, cluster.a, cluster.b)
    async with routes_of(cluster.name_server) as routes:
        for topic in topics:
            await routes.find(topic)
            routes.watch(topic)
            cluster.topic(topic, cluster.a)
        routes.chase("t0", "broker-b")
        await until(lambda: {len(routes.known.routes[topic].brokers) for topic in topics} == {1})
