import asyncio
from collections import defaultdict

import pytest

from orbitmq.client.routing.nameserver_client import query_route
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConnectionFailed, InvalidArgument, NoNameServer, RouteNotFound
from orbitmq.model.route import TopicRoute
from orbitmq.wire.headers import GetRouteInfo
from unit.client.routing.support import client_of, name_servers
from waiting import until

pytestmark = pytest.mark.real

QUERY = GetRouteInfo(topic="orders")


async def test_the_first_answer_counts_and_its_server_is_asked_first_from_then_on():
    async with name_servers(2, {}) as servers, client_of(*servers) as client:
        await client.ask(QUERY)
        (chosen,) = [server for server in servers if server.asked]
        (other,) = [server for server in servers if not server.asked]
        await chosen.stop()
        await client.ask(QUERY)
        await chosen.start()
        await client.ask(QUERY)
        assert len(other.asked) == 2
        assert len(chosen.asked) == 1
        assert client.addresses == [other.address, chosen.address]


async def test_a_server_that_failed_is_asked_last_even_when_no_answer_is_accepted():
    async with name_servers(2, {}) as servers, client_of(*servers) as client:
        first = client.addresses[0]
        (dead,) = [server for server in servers if server.address == first]
        await dead.stop()
        causes = []
        assert await client.ask_until(QUERY, lambda *_: None, causes) is None
        assert client.addresses[-1] == first
        (cause,) = causes
        assert cause.startswith(f"{first}: ")


async def test_the_next_answer_is_asked_for_until_one_is_accepted():
    async with name_servers(2, {}) as servers, client_of(*servers) as client:
        second = client.addresses[1]
        found = await client.ask_until(QUERY, lambda address, answer: (address == second or None) and answer, [])
        assert found.code == ResponseCode.TOPIC_NOT_EXIST
        assert client.addresses[0] == second


async def test_a_silent_server_is_passed_after_its_time():
    async with name_servers(2, {}) as servers, client_of(*servers, timeout_ms=500) as client:
        (silent,) = [server for server in servers if server.address == client.addresses[0]]
        silent.is_silent = True
        assert (await client.ask(QUERY)).code == ResponseCode.TOPIC_NOT_EXIST
        assert client.addresses[-1] == silent.address


async def test_when_no_server_answers_every_address_and_its_error_is_named():
    async with name_servers(2, {}) as (first, second), client_of(first, second) as client:
        await first.stop()
        await second.stop()
        with pytest.raises(NoNameServer, match=r"no NameServer answered: .*; .* Check that one is running") as caught:
            await client.ask(QUERY)
        for server in (first, second):
            assert f"{server.address}: cannot connect" in str(caught.value)


async def test_other_name_servers_may_be_configured_while_running_2042():
    async with name_servers(2, {}) as (first, second), client_of(first) as client:
        await client.ask(QUERY)
        assert first.connections
        client.configure(second.address)
        await client.ask(QUERY)
        assert (len(first.asked), len(second.asked)) == (1, 1)
        assert client.configured == (second.address,)
        await until(lambda: not first.connections)
        with pytest.raises(InvalidArgument):
            client.configure("")


@pytest.fixture
def names(monkeypatch):
    """Host names of this test: each one's answers, the last of which stays; how often they were asked for."""
    answers = defaultdict(list)
    asked = []

    async def getaddrinfo(host, port, **_):
        asked.append(host)
        found = answers[host].pop(0) if len(answers[host]) > 1 else answers[host][0]
        if not found:
            raise OSError("no such name")
        return [(0, 0, 0, "", (address, 0)) for address in found]

    def use():
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo, raising=False)
        return answers, asked

    return use


async def test_a_host_name_is_resolved_before_the_first_request_and_again_when_told_2042(names):
    async with name_servers(1, {}) as (server,):
        answers, asked = names()
        port = server.address.partition(":")[2]
        answers["ns.example"] = [[], ["127.0.0.1"]]
        async with client_of(f"ns.example:{port}") as client:
            with pytest.raises(NoNameServer, match=r"ns\.example"):
                await client.ask(QUERY)
            assert asked == ["ns.example"]
            client.resolve_again()
            await asyncio.gather(client.ask(QUERY), client.ask(QUERY))
            assert asked == ["ns.example"] * 2
            assert client.describe(server.address) == f"{server.address} (from ns.example:{port})"


async def test_the_connection_to_an_address_that_a_name_no_longer_has_is_closed_2042(names):
    async with name_servers(1, {}) as (server,):
        answers, _ = names()
        answers["ns.example"] = [["127.0.0.1"], ["127.0.0.2"]]
        async with client_of(f"ns.example:{server.address.partition(':')[2]}") as client:
            await client.ask(QUERY)
            client.resolve_again()
            with pytest.raises(NoNameServer, match=r"127\.0\.0\.2"):
                await client.ask(QUERY)
            await until(lambda: not server.connections)


async def test_the_names_of_a_new_list_are_resolved_2042(names):
    async with name_servers(1, {}) as (server,):
        answers, _ = names()
        port = server.address.partition(":")[2]
        answers["old.example"], answers["new.example"] = [["127.0.0.2"]], [["127.0.0.1"]]
        async with client_of(f"old.example:{port}", timeout_ms=1_000) as client:
            with pytest.raises(NoNameServer):
                await client.ask(QUERY)
            client.configure(f"new.example:{port}")
            assert (await client.ask(QUERY)).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_caller_that_gives_up_waiting_for_a_name_leaves_it_to_the_others(names):
    async with name_servers(1, {}) as (server,):
        answers, asked = names()
        answers["ns.example"] = [["127.0.0.1"]]
        async with client_of(f"ns.example:{server.address.partition(':')[2]}") as client:
            first, second = asyncio.create_task(client.ask(QUERY)), asyncio.create_task(client.ask(QUERY))
            await asyncio.sleep(0)
            first.cancel()
            assert (await second).code == ResponseCode.TOPIC_NOT_EXIST
            assert asked == ["ns.example"]


async def test_all_can_be_asked_together():
    async with name_servers(2, {}) as (first, second), client_of(first, second) as client:
        await second.stop()
        found = await client.ask_all(QUERY)
        assert sorted(found) == sorted([first.address, second.address])
        assert found[first.address].code == ResponseCode.TOPIC_NOT_EXIST
        assert isinstance(found[second.address], ConnectionFailed)


async def test_a_host_name_is_resolved_before_all_are_asked(names):
    async with name_servers(2, {}) as (first, second):
        answers, asked = names()
        answers["ns.example"] = [["127.0.0.1"]]
        port = first.address.partition(":")[2]
        async with client_of(f"ns.example:{port}", second) as client:
            assert set(await client.ask_all(QUERY)) == {first.address, second.address}
    assert asked == ["ns.example"]


async def test_an_unknown_topic_is_named_with_who_was_asked():
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


async def test_a_refusal_that_says_nothing_of_the_topic_is_an_issue(cluster):
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
