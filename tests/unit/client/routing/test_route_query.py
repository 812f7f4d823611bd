import pytest

from orbitmq.client.routing.route_query import query_route
from orbitmq.codes import ResponseCode
from orbitmq.errors import NoNameServer, RouteNotFound
from orbitmq.model.route import TopicRoute
from unit.client.routing.support import client_of, name_servers

pytestmark = pytest.mark.real


async def test_an_answer_comes_with_the_name_server_that_gave_it():
    async with name_servers(1, {"orders": TopicRoute()}) as (server,), client_of(server) as client:
        assert await query_route(client, "orders") == (TopicRoute(), server.address)


async def test_a_topic_that_nobody_knows_is_named_with_who_was_asked():
    async with name_servers(2, {}) as servers, client_of(*servers) as client:
        first, second = client.addresses
        expected = (
            f"topic nowhere has no route: {first}, {second} do not know it. Create it .orbitmq topic create nowhere"
        )
        with pytest.raises(RouteNotFound, match=expected):
            await query_route(client, "nowhere")


async def test_why_a_name_server_could_not_be_asked_is_told_with_those_that_do_not_know():
    async with name_servers(2, {}) as servers, client_of(*servers) as client:
        dead, alive = client.addresses
        await next(server for server in servers if server.address == dead).stop()
        with pytest.raises(RouteNotFound, match=rf"{alive} does not know it; {dead}: cannot connect.* Create it"):
            await query_route(client, "orders")


async def test_a_name_server_that_does_not_know_a_topic_is_not_the_last_word():
    async with name_servers(1, {}) as (ignorant,), name_servers(1, {"orders": TopicRoute()}) as (learned,):
        for seed in range(4):
            async with client_of(ignorant, learned, seed=seed) as client:
                assert await query_route(client, "orders") == (TopicRoute(), learned.address)


async def test_a_refusal_that_says_nothing_of_the_topic_is_trouble(cluster):
    cluster.name_server.refusal = ResponseCode.SYSTEM_ERROR
    async with client_of(cluster.name_server) as client:
        with pytest.raises(NoNameServer, match=f"{cluster.name_server.address}.*as the test wants"):
            await query_route(client, "orders")


async def test_an_answer_that_is_no_route_is_explained(cluster, monkeypatch):
    monkeypatch.setattr("unit.client.fakes.encode_route", lambda *_, **__: b"<html>")
    cluster.topic("orders")
    async with client_of(cluster.name_server) as client:
        with pytest.raises(NoNameServer, match=r"answered no route.*Is it a NameServer"):
            await query_route(client, "orders")


async def test_the_json_that_every_parser_reads_is_asked_for(cluster):
    cluster.topic("orders")
    async with client_of(cluster.name_server) as client:
        await query_route(client, "orders")
    assert [command.ext_fields for command in cluster.name_server.commands] == [
        {"topic": "orders", "acceptStandardJsonOnly": "true"}
    ]
